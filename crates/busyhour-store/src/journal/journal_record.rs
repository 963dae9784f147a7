//! A record: the changes of one group, with what is needed to know them again.

use super::change_code;
use crate::Change;

/// Makes a record of `changes` in `bytes`, all but what [`seal`] adds. Returns the bytes
/// that it takes in a journal.
pub(super) fn write<'c>(bytes: &mut Vec<u8>, changes: impl Iterator<Item = &'c Change>) -> u64 {
    bytes.clear();
    bytes.resize(HEAD_LEN, 0);
    changes.for_each(|change| change_code::encode(change, bytes));
    room_for(bytes.len(), STEP)
}

/// Gives the record its place in the order, and its checksum.
pub(super) fn seal(bytes: &mut [u8], epoch: u64, number: u64) {
    let len = (bytes.len() - HEAD_LEN) as u32;
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&len.to_le_bytes());
    bytes[12..20].copy_from_slice(&epoch.to_le_bytes());
    bytes[20..28].copy_from_slice(&number.to_le_bytes());
    let sum = crc32fast::hash(&bytes[8..]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// A record that is whole.
pub(super) struct RecordBytes<'i> {
    pub(super) epoch: u64,
    pub(super) number: u64,
    /// Changes.
    pub(super) body: &'i [u8],
}

impl<'i> RecordBytes<'i> {
    /// The one that begins `bytes`, if one does.
    pub(super) fn first_of(bytes: &'i [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (sum, rest) = rest.split_first_chunk()?;
        let (len, _) = rest.split_first_chunk()?;
        let len = u32::from_le_bytes(*len) as usize;
        let summed = rest.get(..len.checked_add(HEAD_LEN - 8)?)?;
        if crc32fast::hash(summed) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (epoch, rest) = summed[4..].split_first_chunk()?;
        let (number, body) = rest.split_first_chunk()?;
        Some(Self {
            epoch: u64::from_le_bytes(*epoch),
            number: u64::from_le_bytes(*number),
            body,
        })
    }

    /// The bytes that it takes in a journal whose records begin at multiples of `step`.
    pub(super) fn len(&self, step: usize) -> u64 {
        room_for(HEAD_LEN + self.body.len(), step)
    }
}

fn room_for(len: usize, step: usize) -> u64 {
    len.next_multiple_of(step) as u64
}

/// A checksum, the length of the changes, the epoch and the record's number, behind the mark.
const HEAD_LEN: usize = 28;
/// Records begin at multiples of this, so that each has sectors of its own. What is between is never read.
pub(super) const STEP: usize = 512;
/// With which each begins.
const MAGIC: [u8; 4] = [0xB5, 0x48, 0x6A, 0x9E];
