//! What a refresh writes.

/// The new lease of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refresh {
    pub id: u64,
    pub cseq: u32,
}

impl Refresh {
    pub const GRANTED_S: u32 = 3600;

    pub fn expires_at_ns(self) -> u64 {
        (1_800_000_000 + u64::from(self.cseq)) * 1_000_000_000
    }

    /// How many refreshes the binding had with this one: its first lease has a CSeq of 1.
    pub fn number(self) -> u64 {
        u64::from(self.cseq) - 1
    }

    /// As the store's journal has it: a kind, the binding's id, and the lease.
    pub fn append_to(self, bytes: &mut Vec<u8>) {
        bytes.push(KIND);
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.lease());
    }

    /// All that were appended there, and nothing of zeroes behind them.
    pub fn all_in(bytes: &[u8]) -> impl Iterator<Item = Self> {
        let refreshes = bytes.chunks_exact(REFRESH_LEN);
        refreshes
            .filter(|bytes| bytes[0] == KIND)
            .filter_map(|bytes| {
                let (id, lease) = bytes[1..].split_first_chunk()?;
                Self::from_lease(u64::from_le_bytes(*id), lease)
            })
    }

    pub fn from_lease(id: u64, lease: &[u8]) -> Option<Self> {
        let cseq = u32::from_le_bytes(*lease.first_chunk()?);
        Some(Self { id, cseq })
    }

    /// What a table has beside the id.
    pub fn lease(self) -> [u8; LEASE_LEN] {
        let mut bytes = [0; LEASE_LEN];
        bytes[..4].copy_from_slice(&self.cseq.to_le_bytes());
        bytes[4..8].copy_from_slice(&Self::GRANTED_S.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.expires_at_ns().to_le_bytes());
        bytes
    }
}

/// The bytes of a group's record in the store's journal.
pub fn record_len(group: usize) -> usize {
    (HEAD_LEN + group * REFRESH_LEN).next_multiple_of(SECTOR)
}

/// The bytes of the store's journal.
pub const LOG_BYTES: usize = 16 << 20;
/// The number of a group, a length and a checksum, as in the head of a record of the journal.
pub const HEAD_LEN: usize = 28;
pub const REFRESH_LEN: usize = 1 + 8 + LEASE_LEN;
const LEASE_LEN: usize = 4 + 4 + 8 + 1;
const KIND: u8 = 2;
const SECTOR: usize = 512;
