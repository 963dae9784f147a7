//! The bodies of the messages that `pmcd` answers with.

use crate::{
    Instance, Problem, Semantics, Units, ValueType,
    format::{
        bits,
        fields::{Fields, time, until_zero},
        record::IN_PLACE,
    },
    live::{limits::LiveLimits, pdu::HEAD_BYTES},
};
use busyhour::clock::UnixTime;
use std::collections::BTreeSet;

/// What `pmcd` says of one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) id: u32,
    pub(crate) value_type: ValueType,
    pub(crate) domain: Option<u32>,
    pub(crate) semantics: Semantics,
    pub(crate) units: Units,
}

/// The values of some metrics at one time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fetched {
    pub(crate) time: UnixTime,
    /// A metric, an instance and a value.
    pub(crate) values: Vec<(u32, i32, f64)>,
    pub(crate) left_out: u64,
}

/// What was kept of a list, and how many were left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept<T> {
    pub(crate) list: Vec<T>,
    pub(crate) left_out: u64,
}

/// A status: negative for an error.
pub(crate) fn status(body: &[u8]) -> Result<i32, Problem> {
    Fields(body).i32()
}

/// The version of the protocol, in what `pmcd` says first.
pub(crate) fn version(body: &[u8]) -> Result<u8, Problem> {
    let mut fields = Fields(body);
    fields.i32()?;
    Ok((fields.u32()? >> 24) as u8 & 0x7f)
}

/// The first names in their order, each once.
pub(crate) fn names(body: &[u8], limits: &LiveLimits) -> Result<Kept<String>, Problem> {
    let mut fields = Fields(body);
    let _bytes = fields.u32()?;
    let has_status = fields.u32()? != 0;
    let (mut kept, mut left_out) = (BTreeSet::new(), 0);
    for _ in 0..count(&mut fields, 4)? {
        if has_status {
            fields.u32()?;
        }
        let name = padded(&mut fields)?;
        if name.len() > limits.name_len_max {
            left_out += 1;
            continue;
        }
        kept.insert(name);
        if kept.len() > limits.metrics_max {
            kept.pop_last();
            left_out += 1;
        }
    }
    let list = kept.into_iter().map(until_zero).collect();
    Ok(Kept { list, left_out })
}

/// The identifiers of the `asked` names that were asked for; [`NO_METRIC`] for an unknown
/// one.
pub(crate) fn identifiers(body: &[u8], asked: usize) -> Result<Vec<u32>, Problem> {
    let mut fields = Fields(body);
    let _status = fields.i32()?;
    let count = count(&mut fields, 4)?;
    (0..count.min(asked)).map(|_| fields.u32()).collect()
}

pub(crate) fn descriptor(body: &[u8]) -> Result<Descriptor, Problem> {
    let mut fields = Fields(body);
    let (id, value_type, domain) = (fields.u32()?, fields.i32()?, fields.u32()?);
    let (semantics, units) = (fields.i32()?, fields.u32()?);
    Ok(Descriptor {
        id,
        value_type: ValueType::from_code(value_type),
        domain: (domain != NO_DOMAIN).then_some(domain),
        semantics: Semantics::from_code(semantics),
        units: Units::unpack(units),
    })
}

/// The domain whose instances these are.
pub(crate) fn domain(body: &[u8]) -> Result<u32, Problem> {
    Fields(body).u32()
}

/// At most `count_max` instances of a domain.
pub(crate) fn instances(
    body: &[u8],
    count_max: usize,
    name_len_max: usize,
) -> Result<Kept<Instance>, Problem> {
    let mut fields = Fields(body);
    let _domain = fields.u32()?;
    let (mut list, mut left_out) = (Vec::new(), 0);
    for _ in 0..count(&mut fields, 8)? {
        let id = fields.i32()?;
        let name = padded(&mut fields)?;
        match list.len() < count_max && name.len() <= name_len_max {
            true => list.push(Instance {
                id,
                name: until_zero(name),
            }),
            false => left_out += 1,
        }
    }
    Ok(Kept { list, left_out })
}

/// At most `count_max` numbers in a result; `type_of` gives the type of a metric that is
/// wanted.
pub(crate) fn fetched(
    body: &[u8],
    count_max: usize,
    type_of: impl Fn(u32) -> Option<ValueType>,
) -> Result<Fetched, Problem> {
    let mut fields = Fields(body);
    let (seconds, micros) = (u64::from(fields.u32()?), u64::from(fields.u32()?));
    let time = time(seconds, micros * 1000).ok_or(Problem::Time)?;
    let (mut values, mut left_out) = (Vec::new(), 0);
    for _ in 0..count(&mut fields, 8)? {
        let (metric, count) = (fields.u32()?, fields.i32()?);
        if count <= 0 {
            continue;
        }
        let format = fields.u32()?;
        for _ in 0..count {
            let (instance, word) = (fields.i32()?, fields.u32()?);
            let Some(value_type) = type_of(metric) else {
                continue;
            };
            let bits = match format {
                IN_PLACE => bits::of_word(word, value_type),
                _ => bits::of_block(block(body, word)?, value_type),
            };
            let Some(bits) = bits else { continue };
            match values.len() < count_max {
                true => values.push((metric, instance, bits::number(bits, value_type))),
                false => left_out += 1,
            }
        }
    }
    Ok(Fetched {
        time,
        values,
        left_out,
    })
}

/// The value block to which `pointer` points, in words from the start of the message.
fn block(body: &[u8], pointer: u32) -> Result<&[u8], Problem> {
    let at = (pointer as usize * 4).checked_sub(HEAD_BYTES);
    let block = at.and_then(|at| body.get(at..)).ok_or(Problem::Outside)?;
    let len = Fields(block).u32()? & 0x00ff_ffff;
    block.get(4..len as usize).ok_or(Problem::Outside)
}

/// How many follow, each of at least `len_min` bytes.
fn count(fields: &mut Fields<'_>, len_min: usize) -> Result<usize, Problem> {
    let count = usize::try_from(fields.i32()?).map_err(|_| Problem::Outside)?;
    let fits = count <= fields.0.len() / len_min;
    fits.then_some(count).ok_or(Problem::Outside)
}

/// A text after its length, up to a multiple of four bytes.
fn padded<'a>(fields: &mut Fields<'a>) -> Result<&'a [u8], Problem> {
    let len = fields.u32()? as usize;
    let text = fields.take(len)?;
    fields.take((len.next_multiple_of(4) - len).min(fields.0.len()))?;
    Ok(text)
}

/// Instead of an identifier.
pub(crate) const NO_METRIC: u32 = u32::MAX;
const NO_DOMAIN: u32 = u32::MAX;
