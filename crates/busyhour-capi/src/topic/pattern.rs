use super::record::bits;
use crate::{
    edge::{Out, Outcome, borrow, borrow_mut, bytes, give, guard, quietly, release, text},
    result::bh_result,
    topic::record::bh_record,
};
use busyhour::bus::{ElementId, RecordPattern, Value};
use std::ffi::{c_char, c_void};

/// What a record must be; all that was said must hold. An empty pattern matches every record.
pub struct bh_pattern {
    pub(super) pattern: RecordPattern,
}

/// Makes an empty pattern.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_new(out: *mut *mut bh_pattern) -> bh_result {
    guard(|| {
        let pattern = RecordPattern::new();
        give(Out::required(out, "out")?, bh_pattern { pattern });
        Ok(())
    })
}

/// Frees the pattern.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_free(pattern: *mut bh_pattern) {
    quietly((), || drop(release(pattern)));
}

/// The record is of this sort.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_sort(pattern: *mut bh_pattern, sort: u16) -> bh_result {
    and(pattern, |pattern| Ok(pattern.sort(sort)))
}

/// The record is about this subject.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_subject(
    pattern: *mut bh_pattern,
    subject: *const c_char,
) -> bh_result {
    and(pattern, |pattern| {
        Ok(pattern.subject(text(subject, "subject")?))
    })
}

/// The record has this element, whatever its value.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_exists(pattern: *mut bh_pattern, id: u16) -> bh_result {
    and(pattern, |pattern| Ok(pattern.exists(ElementId(id))))
}

/// The element is this number.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_u32(pattern: *mut bh_pattern, id: u16, value: u32) -> bh_result {
    and(pattern, |pattern| {
        Ok(pattern.having(ElementId(id), Value::U32(value)))
    })
}

/// The element is this text.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_text(
    pattern: *mut bh_pattern,
    id: u16,
    value: *const c_char,
) -> bh_result {
    and(pattern, |pattern| {
        let value = Value::Text(text(value, "value")?.into());
        Ok(pattern.having(ElementId(id), value))
    })
}

/// The element is these bytes.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_bytes(
    pattern: *mut bh_pattern,
    id: u16,
    value: *const c_void,
    len: usize,
) -> bh_result {
    and(pattern, |pattern| {
        let value = Value::Bytes(bytes(value, len, "value")?.into());
        Ok(pattern.having(ElementId(id), value))
    })
}

/// The element has all of these switches on.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_flags(pattern: *mut bh_pattern, id: u16, value: u32) -> bh_result {
    and(pattern, |pattern| {
        Ok(pattern.having(ElementId(id), Value::Flags(value)))
    })
}

/// The element has all of these switches on; see `bh_record_set_bits`.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_bits(
    pattern: *mut bh_pattern,
    id: u16,
    value: *const c_void,
    len: usize,
) -> bh_result {
    and(pattern, |pattern| {
        let value = Value::Bits(bits(bytes(value, len, "value")?)?);
        Ok(pattern.having(ElementId(id), value))
    })
}

/// 1 if the record is all that the pattern says, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn bh_pattern_matches(pattern: *const bh_pattern, record: *const bh_record) -> i32 {
    quietly(0, || {
        match (borrow(pattern, "pattern"), borrow(record, "record")) {
            (Ok(pattern), Ok(record)) => i32::from(pattern.pattern.matches(&record.record)),
            _ => 0,
        }
    })
}

fn and(
    pattern: *mut bh_pattern,
    more: impl FnOnce(RecordPattern) -> Outcome<RecordPattern>,
) -> bh_result {
    guard(|| {
        let pattern = borrow_mut(pattern, "pattern")?;
        pattern.pattern = more(pattern.pattern.clone())?;
        Ok(())
    })
}
