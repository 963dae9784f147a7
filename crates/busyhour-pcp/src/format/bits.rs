//! Numbers in 64 bits, whatever their type, and the arithmetic between two of
//! them that pmSetMode(3) and pmFetch(3) describe.

use crate::{Semantics, ValueType};

/// Of a word that stands in the record itself.
#[inline]
pub(crate) fn of_word(word: u32, value_type: ValueType) -> Option<u64> {
    use ValueType::{F32, I32, U32};
    matches!(value_type, I32 | U32 | F32).then_some(u64::from(word))
}

/// Of the bytes of a value block.
#[inline]
pub(crate) fn of_block(block: &[u8], value_type: ValueType) -> Option<u64> {
    use ValueType::{F32, F64, I32, I64, U32, U64};
    match value_type {
        I64 | U64 | F64 => block.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)),
        F32 | I32 | U32 => {
            let word = block.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            word.map(u64::from)
        }
        _ => None,
    }
}

/// As a number; NaN for a type that has none.
#[inline]
pub(crate) fn number(bits: u64, value_type: ValueType) -> f64 {
    match value_type {
        ValueType::I32 => f64::from((bits as u32).cast_signed()),
        ValueType::U32 => f64::from(bits as u32),
        ValueType::I64 => bits.cast_signed() as f64,
        ValueType::U64 => bits as f64,
        ValueType::F32 => f64::from(f32::from_bits(bits as u32)),
        ValueType::F64 => f64::from_bits(bits),
        _ => f64::NAN,
    }
}

/// A sample: when, in seconds from the archive's start, and the bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) seconds: f64,
    pub(crate) bits: u64,
}

/// How values of one metric are read between samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interpolation {
    pub(crate) value_type: ValueType,
    pub(crate) semantics: Semantics,
    /// Whether a counter that falls counts as wrapped around once.
    pub(crate) wraps: bool,
}

impl Interpolation {
    /// The value at `seconds`, which lies between the two samples, neither included.
    ///
    /// Integers are rounded as libpcp rounds them: a half is added, the rest cut off.
    pub(crate) fn between(self, prior: Point, next: Point, seconds: f64) -> f64 {
        if self.semantics != Semantics::Counter {
            return number(prior.bits, self.value_type);
        }
        let (passed, gap) = (seconds - prior.seconds, next.seconds - prior.seconds);
        let (from, to) = (prior.bits, next.bits);
        match self.value_type {
            ValueType::I32 => {
                let (from, to) = ((from as u32).cast_signed(), (to as u32).cast_signed());
                let grown = match to.wrapping_sub(from) {
                    fallen if to < from && self.wraps => f64::from(fallen.cast_unsigned()),
                    grown => f64::from(grown),
                };
                (0.5 + f64::from(from) + passed * grown / gap).trunc()
            }
            ValueType::U32 => {
                let (from, to) = (from as u32, to as u32);
                let start = f64::from(from);
                if to >= from {
                    (0.5 + start + passed * f64::from(to - from) / gap).trunc()
                } else if self.wraps {
                    let grown = (0.5 + passed * f64::from(to.wrapping_sub(from)) / gap) as u32;
                    f64::from(from.wrapping_add(grown))
                } else {
                    (0.5 + start - passed * f64::from(from - to) / gap).trunc()
                }
            }
            ValueType::I64 => {
                let (from, to) = (from.cast_signed(), to.cast_signed());
                let grown = to.wrapping_sub(from) as f64;
                (0.5 + from as f64 + passed * grown / gap).trunc()
            }
            ValueType::U64 => {
                // With a sign, as libpcp: see the README.
                let (from, to) = (from.cast_signed(), to.cast_signed());
                let start = from as f64;
                let value = if to >= from || self.wraps {
                    0.5 + start + passed * (to.wrapping_sub(from).cast_unsigned() as f64) / gap
                } else {
                    0.5 + start - passed * (from.wrapping_sub(to).cast_unsigned() as f64) / gap
                };
                as_word(value) as f64
            }
            ValueType::F32 => {
                let (from, to) = (f32::from_bits(from as u32), f32::from_bits(to as u32));
                let value = f64::from(from) + passed * f64::from(to - from) / gap;
                f64::from(value as f32)
            }
            _ => {
                let (from, to) = (f64::from_bits(from), f64::from_bits(to));
                from + passed * (to - from) / gap
            }
        }
    }

    /// The growth of a counter of this type that fell by `delta`, if it wraps; `None`
    /// if a fall does not count as growth.
    pub(crate) fn unwrap(self, delta: f64) -> Option<f64> {
        match self.value_type {
            _ if !self.wraps => None,
            ValueType::I32 | ValueType::U32 => Some(delta + TWO_TO_32),
            ValueType::I64 | ValueType::U64 => Some(delta + TWO_TO_64),
            _ => Some(delta),
        }
    }
}

/// As C converts on machines with two's complement: a negative value keeps its bits,
/// and a value that is too large becomes 0.
fn as_word(value: f64) -> u64 {
    match value {
        _ if value < 0.0 => (value as i64).cast_unsigned(),
        _ if value >= TWO_TO_64 => 0,
        _ => value as u64,
    }
}

const TWO_TO_32: f64 = 4_294_967_296.0;
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
