use crate::{
    edge::{Failure, Out, Outcome, borrow, borrow_mut, bytes, give, guard, quietly, release, text},
    result::bh_result,
};
use busyhour::bus::{BitField, DecodeError, ElementId, Limits, Record, Value};
use std::ffi::{c_char, c_void};

/// A record: a sort, a subject, and typed elements with numbers. It has no lock.
pub struct bh_record {
    pub(super) record: Record,
}

/// The type of an element.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum bh_element_type {
    /// There is no such element.
    BH_ELEMENT_NONE = 0,
    /// A number.
    BH_ELEMENT_U32 = 1,
    /// A text.
    BH_ELEMENT_TEXT = 2,
    /// Bytes.
    BH_ELEMENT_BYTES = 3,
    /// 32 switches.
    BH_ELEMENT_FLAGS = 4,
    /// Any number of switches, the lowest in the lowest bit of the first byte.
    BH_ELEMENT_BITS = 5,
}

/// Makes a record without elements. Its sort and its subject are its key.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_new(
    sort: u16,
    subject: *const c_char,
    out: *mut *mut bh_record,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let record = Record::new(sort, text(subject, "subject")?);
        give(out, bh_record { record });
        Ok(())
    })
}

/// Makes a copy of a record, for example of one that is an event and never changes.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_clone(record: *const bh_record, out: *mut *mut bh_record) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let record = borrow(record, "record")?.record.clone();
        give(out, bh_record { record });
        Ok(())
    })
}

/// Frees the record.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_free(record: *mut bh_record) {
    quietly((), || drop(release(record)));
}

/// Sets a number.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_set_u32(record: *mut bh_record, id: u16, value: u32) -> bh_result {
    set(record, id, || Ok(Value::U32(value)))
}

/// Sets a text.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_set_text(
    record: *mut bh_record,
    id: u16,
    value: *const c_char,
) -> bh_result {
    set(record, id, || Ok(Value::Text(text(value, "value")?.into())))
}

/// Sets bytes.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_set_bytes(
    record: *mut bh_record,
    id: u16,
    value: *const c_void,
    len: usize,
) -> bh_result {
    set(record, id, || {
        Ok(Value::Bytes(bytes(value, len, "value")?.into()))
    })
}

/// Sets 32 switches.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_set_flags(record: *mut bh_record, id: u16, value: u32) -> bh_result {
    set(record, id, || Ok(Value::Flags(value)))
}

/// Sets any number of switches, up to 65,536: the lowest is the lowest bit of the first byte.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_set_bits(
    record: *mut bh_record,
    id: u16,
    value: *const c_void,
    len: usize,
) -> bh_result {
    set(record, id, || {
        Ok(Value::Bits(bits(bytes(value, len, "value")?)?))
    })
}

/// The type of an element; `BH_ELEMENT_NONE` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_type(record: *const bh_record, id: u16) -> bh_element_type {
    quietly(bh_element_type::BH_ELEMENT_NONE, || {
        let value = borrow(record, "record")
            .ok()
            .and_then(|one| one.record.get(ElementId(id)));
        value.map_or(bh_element_type::BH_ELEMENT_NONE, type_of)
    })
}

/// A number or 32 switches; `BH_NOT_FOUND` if there is none, `BH_INVALID` if the element is of another type.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_get_u32(record: *const bh_record, id: u16, out: *mut u32) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        match element(record, id)? {
            Value::U32(value) | Value::Flags(value) => out.write(*value),
            _ => return Err(other_type(id)),
        }
        Ok(())
    })
}

/// A text, bytes or switches: where they lie in the record, and how many bytes. A text has no NUL at its end. Valid until the
/// record changes.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_get_bytes(
    record: *const bh_record,
    id: u16,
    out: *mut *const c_void,
    out_len: *mut usize,
) -> bh_result {
    guard(|| {
        let (out, out_len) = (
            Out::required(out, "out")?,
            Out::required(out_len, "out_len")?,
        );
        let found = match element(record, id)? {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
            Value::Bits(bits) => bits.as_bytes(),
            _ => return Err(other_type(id)),
        };
        out.write(found.as_ptr().cast());
        out_len.write(found.len());
        Ok(())
    })
}

/// Copies a text element to `text`, which has room for `size` bytes, and ends it with a NUL; returns the length of the whole
/// text: 0, and `text` is empty, if there is none, or if the element is of another type.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_get_text(
    record: *const bh_record,
    id: u16,
    text: *mut c_char,
    size: usize,
) -> usize {
    quietly(0, || {
        let found = match element(record, id) {
            Ok(Value::Text(value)) => value,
            _ => "",
        };
        crate::edge::copy_text(found, text, size)
    })
}

/// 1 if a switch of an element is on, 0 if it is off or there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_has_bit(record: *const bh_record, id: u16, bit: u16) -> i32 {
    quietly(0, || match element(record, id) {
        Ok(Value::Bits(bits)) => i32::from(bits.contains(bit)),
        Ok(Value::Flags(flags)) => i32::from(bit < 32 && flags >> bit & 1 == 1),
        _ => 0,
    })
}

/// Removes an element; `BH_NOT_FOUND` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_remove(record: *mut bh_record, id: u16) -> bh_result {
    guard(|| {
        let removed = borrow_mut(record, "record")?.record.remove(ElementId(id));
        removed.map(drop).ok_or_else(|| none(id))
    })
}

/// The number of elements; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_len(record: *const bh_record) -> usize {
    quietly(0, || {
        borrow(record, "record").map_or(0, |one| one.record.len())
    })
}

/// The number of the element at `index`, in the order of their numbers; `BH_NOT_FOUND` beyond the last.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_id_at(
    record: *const bh_record,
    index: usize,
    out: *mut u16,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let mut elements = borrow(record, "record")?.record.iter();
        let element = elements.nth(index);
        let beyond = || Failure::not_found(format!("the record has no element at index {index}"));
        out.write(element.ok_or_else(beyond)?.id.0);
        Ok(())
    })
}

/// The sort of the record; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_sort(record: *const bh_record) -> u16 {
    quietly(0, || {
        borrow(record, "record").map_or(0, |one| one.record.sort())
    })
}

/// Copies the subject to `text`, which has room for `size` bytes, and ends it with a NUL; returns the length of the whole
/// subject.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_subject(
    record: *const bh_record,
    text: *mut c_char,
    size: usize,
) -> usize {
    quietly(0, || {
        let subject = borrow(record, "record").map_or("", |one| one.record.subject());
        crate::edge::copy_text(subject, text, size)
    })
}

/// Copies the record as bytes for the wire to `data`, which has room for `size`; `out_len` says how many there are. `BH_FULL`,
/// and only `out_len` is written, if there is no room.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_encode(
    record: *const bh_record,
    data: *mut c_void,
    size: usize,
    out_len: *mut usize,
) -> bh_result {
    guard(|| {
        let out_len = Out::required(out_len, "out_len")?;
        let encoded = borrow(record, "record")?.record.encode();
        let encoded = encoded.map_err(|error| Failure::invalid(error.to_string()))?;
        out_len.write(encoded.len());
        crate::edge::copy_bytes(&encoded, data, size)
    })
}

/// Makes a record of bytes from the wire; `BH_INVALID` says what is wrong with them.
#[unsafe(no_mangle)]
pub extern "C" fn bh_record_decode(
    data: *const c_void,
    len: usize,
    out: *mut *mut bh_record,
) -> bh_result {
    guard(|| {
        let out = Out::required(out, "out")?;
        let record = Record::decode(bytes(data, len, "data")?, &Limits::default());
        give(
            out,
            bh_record {
                record: record.map_err(no_record)?,
            },
        );
        Ok(())
    })
}

/// What is wrong with the bytes; a bound that they exceed is told, since C has no `Limits`.
fn no_record(error: DecodeError) -> Failure {
    let Limits {
        element_count,
        value_bytes,
        record_bytes,
    } = Limits::default();
    Failure::invalid(match error {
        DecodeError::TooLarge => format!(
            "data: {error}: it may have {record_bytes} bytes and {element_count} elements, of {value_bytes} bytes each"
        ),
        _ => format!("data: {error}"),
    })
}

/// The switches in bytes; zeros at the end are of no meaning.
pub(super) fn bits(bytes: &[u8]) -> Outcome<BitField> {
    let len = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let bits = BitField::from_bytes(&bytes[..len]);
    bits.ok_or_else(|| Failure::invalid("value: at most 65,536 switches"))
}

fn set(record: *mut bh_record, id: u16, value: impl FnOnce() -> Outcome<Value>) -> bh_result {
    guard(|| {
        let record = borrow_mut(record, "record")?;
        record.record.set(ElementId(id), value()?);
        Ok(())
    })
}

fn element<'a>(record: *const bh_record, id: u16) -> Outcome<&'a Value> {
    borrow(record, "record")?
        .record
        .get(ElementId(id))
        .ok_or_else(|| none(id))
}

fn type_of(value: &Value) -> bh_element_type {
    match value {
        Value::U32(_) => bh_element_type::BH_ELEMENT_U32,
        Value::Text(_) => bh_element_type::BH_ELEMENT_TEXT,
        Value::Bytes(_) => bh_element_type::BH_ELEMENT_BYTES,
        Value::Flags(_) => bh_element_type::BH_ELEMENT_FLAGS,
        Value::Bits(_) => bh_element_type::BH_ELEMENT_BITS,
    }
}

fn none(id: u16) -> Failure {
    Failure::not_found(format!("the record has no element {id}"))
}

fn other_type(id: u16) -> Failure {
    Failure::invalid(format!("element {id} is of another type"))
}
