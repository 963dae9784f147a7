//! The first sector of a journal: what the records behind it belong to.

/// Written when an epoch begins, and again when a server has stopped in an orderly way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalHeader {
    /// Records of other epochs are remains: the database has had all that they say.
    pub(crate) epoch: u64,
    /// A server uses it, or has ended without taking all of it into the database.
    pub(crate) is_open: bool,
    /// Each record was synchronised before the next was written.
    pub(crate) is_synced: bool,
}

impl JournalHeader {
    pub(crate) fn encode(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let flags = u32::from(self.is_open) | u32::from(self.is_synced) << 1;
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..20].copy_from_slice(&FORMAT.to_le_bytes());
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
        if number(16) != FORMAT {
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
        })
    }
}

/// Less than a sector of any disk, so that it is written whole or not at all.
pub(super) const HEADER_LEN: usize = 36;
const MAGIC: &[u8; 16] = b"busyhour journal";
/// Of header, records and changes. A program that writes another one still reads this one.
const FORMAT: u32 = 1;
