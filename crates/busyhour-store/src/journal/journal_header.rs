//! The first sector of a journal: what the records behind it belong to.

use super::journal_record::STEP;

/// Written when an epoch begins, and again when a server has stopped in an orderly way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalHeader {
    /// Records of other epochs are remains: the database has had all that they say.
    pub(crate) epoch: u64,
    /// A server uses it, or has ended without taking all of it into the database.
    pub(crate) is_open: bool,
    /// Each record was synchronised before the next was written.
    pub(crate) is_synced: bool,
    /// Records begin at multiples of so many bytes.
    pub(crate) step: usize,
}

impl JournalHeader {
    /// Of a journal that this program writes.
    pub(crate) fn new(epoch: u64, is_open: bool, is_synced: bool) -> Self {
        Self {
            epoch,
            is_open,
            is_synced,
            step: STEP,
        }
    }

    pub(crate) fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let has_sectors = u32::from(self.step == STEP);
        let flags = u32::from(self.is_open) | u32::from(self.is_synced) << 1 | has_sectors << 2;
        bytes[..16].copy_from_slice(MAGIC);
        let format = if self.is_open { FORMAT } else { FORMAT_ENDED };
        bytes[16..20].copy_from_slice(&format.to_le_bytes());
        bytes[20..24].copy_from_slice(&flags.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// # Errors
    ///
    /// What is there instead.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or("it is too short")?;
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        if &bytes[..16] != MAGIC {
            return Err("it does not begin as one");
        }
        if !matches!(number(16), FORMAT | FORMAT_ENDED) {
            return Err("another version of busyhour wrote it; start that version once");
        }
        if number(32) != crc32fast::hash(&bytes[..32]) {
            return Err("the checksum of its first sector is wrong");
        }
        let flags = number(20);
        Ok(Self {
            epoch: u64::from(number(24)) | u64::from(number(28)) << 32,
            is_open: flags & 1 != 0,
            is_synced: flags & 2 != 0,
            step: if flags & 4 != 0 { STEP } else { STEP_BEFORE },
        })
    }
}

/// Less than a sector of any disk, so that it is written whole or not at all.
pub(super) const HEADER_LEN: usize = 36;
const MAGIC: &[u8; 16] = b"busyhour journal";
/// Of header, records and changes. A program that writes another one still reads this one.
const FORMAT: u32 = 2;
/// Of versions whose records shared sectors, and which do not know the third flag. A journal that was ended in an orderly way has no
/// record that is needed, so it says this: such a version can then be started with it.
const FORMAT_ENDED: u32 = 1;
const STEP_BEFORE: usize = 16;
