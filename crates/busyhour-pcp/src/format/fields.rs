//! Big-endian fields, taken one after the other.

use crate::Problem;
use busyhour::clock::UnixTime;

/// What is left of a record. Each take fails when the record is too short.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Problem::Outside)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Problem> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Problem> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Problem> {
        self.array().map(u64::from_be_bytes)
    }

    /// Seconds and a fraction, as the version writes them.
    pub(crate) fn time(&mut self, version: Version) -> Result<UnixTime, Problem> {
        let (seconds, nanos) = match version {
            Version::V2 => (u64::from(self.u32()?), u64::from(self.u32()?) * 1000),
            Version::V3 => (self.seconds()?, u64::from(self.u32()?)),
        };
        time(seconds, nanos).ok_or(Problem::Time)
    }

    /// The 64-bit seconds of version 3. PCP writes their lower word first, although the
    /// manual says otherwise; the upper word is zero until 2106.
    fn seconds(&mut self) -> Result<u64, Problem> {
        match (self.u32()?, self.u32()?) {
            (seconds, 0) | (0, seconds) => Ok(u64::from(seconds)),
            _ => Err(Problem::Time),
        }
    }

    /// A string in a field of fixed length, ended by the first zero.
    pub(crate) fn text(&mut self, len: usize) -> Result<String, Problem> {
        self.take(len).map(until_zero)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Problem::Outside)?;
        self.0 = rest;
        Ok(*taken)
    }
}

/// The two versions of the format, LOGARCHIVE(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Microseconds, 32-bit offsets.
    V2,
    /// Nanoseconds, 64-bit seconds and offsets, deltas of instance domains.
    V3,
}

impl Version {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

/// The bytes before the first zero, as text.
pub(crate) fn until_zero(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..len.unwrap_or(bytes.len())]).into_owned()
}

/// A time that the format can hold and that makes sense.
pub(crate) fn time(seconds: u64, nanos: u64) -> Option<UnixTime> {
    let sound = nanos < NANOS_PER_SECOND && seconds <= SECONDS_MAX;
    sound.then(|| UnixTime::from_nanos(seconds * NANOS_PER_SECOND + nanos))
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Up to the year 2262, so that differences fit into 64 bits with a sign.
const SECONDS_MAX: u64 = i64::MAX as u64 / NANOS_PER_SECOND - 1;
