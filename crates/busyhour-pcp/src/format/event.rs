//! Event records, PMAPI(3) `pmUnpackEventRecords`: what a value of the type event holds.

use crate::{
    Problem, ValueType,
    format::{
        bits,
        fields::{Fields, time, until_zero},
    },
};
use busyhour::clock::UnixTime;
use std::fmt::Write;

/// One record of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRecord<'a> {
    pub(crate) time: UnixTime,
    pub(crate) flags: u32,
    /// Records that were lost here; then there are no parameters.
    pub(crate) missed_count: u32,
    pub(crate) parameters: Vec<EventParameter<'a>>,
}

/// A metric with its value at the time of the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventParameter<'a> {
    pub(crate) metric: u32,
    pub(crate) value_type: ValueType,
    bytes: &'a [u8],
}

/// The records of a value, from the bytes of its block.
pub(crate) fn records(
    block: &[u8],
    is_high_resolution: bool,
) -> Result<Vec<EventRecord<'_>>, Problem> {
    let mut fields = Fields(block);
    let count = count(&mut fields, RECORD_BYTES_MIN)?;
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        records.push(record(&mut fields, is_high_resolution)?);
    }
    Ok(records)
}

fn record<'a>(
    fields: &mut Fields<'a>,
    is_high_resolution: bool,
) -> Result<EventRecord<'a>, Problem> {
    let (seconds, nanos) = match is_high_resolution {
        true => (fields.u64()?, fields.u64()?),
        false => (u64::from(fields.u32()?), u64::from(fields.u32()?) * 1000),
    };
    let flags = fields.u32()?;
    let mut record = EventRecord {
        time: time(seconds, nanos).ok_or(Problem::Time)?,
        flags,
        missed_count: 0,
        parameters: Vec::new(),
    };
    if flags & MISSED != 0 {
        record.missed_count = fields.u32()?;
        return Ok(record);
    }
    for _ in 0..count(fields, PARAMETER_BYTES_MIN)? {
        record.parameters.push(parameter(fields)?);
    }
    Ok(record)
}

fn parameter<'a>(fields: &mut Fields<'a>) -> Result<EventParameter<'a>, Problem> {
    let metric = fields.u32()?;
    let head = fields.u32()?;
    // The length includes the word that says it; the next parameter begins at a multiple
    // of four bytes.
    let len = (head & 0x00ff_ffff) as usize;
    let len = len.checked_sub(4).ok_or(Problem::Outside)?;
    let bytes = fields.take(len)?;
    fields.take(len.next_multiple_of(4) - len)?;
    Ok(EventParameter {
        metric,
        value_type: ValueType::from_code((head >> 24) as i32),
        bytes,
    })
}

/// How many follow, each of at least `len_min` bytes.
fn count(fields: &mut Fields<'_>, len_min: usize) -> Result<usize, Problem> {
    let count = usize::try_from(fields.i32()?).map_err(|_| Problem::Outside)?;
    let fits = count <= fields.0.len() / len_min;
    fits.then_some(count).ok_or(Problem::Outside)
}

impl EventRecord<'_> {
    /// In one line: `start id: a.b=4, a.c="text"`; `name` gives the names of metrics.
    pub(crate) fn text<'n>(&self, name: impl Fn(u32) -> Option<&'n str>) -> String {
        if self.flags & MISSED != 0 {
            return format!("{} event records were missed", self.missed_count);
        }
        let set = FLAGS.iter().filter(|(flag, _)| self.flags & flag != 0);
        let set: Vec<&str> = set.map(|(_, name)| *name).collect();
        let parameters = self.parameters.iter().map(|parameter| {
            let value = parameter.text();
            match name(parameter.metric) {
                Some(name) => format!("{name}={value}"),
                None => format!("{}={value}", crate::MetricId(parameter.metric)),
            }
        });
        let parameters: Vec<String> = parameters.collect();
        match (set.is_empty(), parameters.is_empty()) {
            (true, true) => "point".into(),
            (true, false) => parameters.join(", "),
            (false, true) => set.join(" "),
            (false, false) => format!("{}: {}", set.join(" "), parameters.join(", ")),
        }
    }
}

impl EventParameter<'_> {
    fn text(&self) -> String {
        use ValueType::{F32, F64, I64, String, U64};
        let bits = bits::of_block(self.bytes, self.value_type);
        match (self.value_type, bits) {
            (U64, Some(bits)) => bits.to_string(),
            (I64, Some(bits)) => bits.cast_signed().to_string(),
            (F32 | F64, Some(bits)) => bits::number(bits, self.value_type).to_string(),
            (value_type, Some(bits)) => format!("{:.0}", bits::number(bits, value_type)),
            (String, None) => format!("{:?}", until_zero(self.bytes)),
            (_, None) => hex(self.bytes),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::from("[");
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text + "]"
}

/// The record says that others were lost.
const MISSED: u32 = 1 << 31;

/// `point`, which most have, says nothing.
const FLAGS: [(u32, &str); 4] = [(2, "start"), (4, "end"), (8, "id"), (16, "parent")];

/// A time, flags, a count.
const RECORD_BYTES_MIN: usize = 16;

/// A metric, and a type with a length.
const PARAMETER_BYTES_MIN: usize = 8;
