//! FNV-1a of 64 bits: the same on every machine and in every version of the program, which the standard library's hashes are not.

/// One step, from [`FNV_OFFSET`] on.
pub(super) fn fnv_step(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

pub(super) const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
