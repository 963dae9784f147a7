//! How many shards a bounded table has.

/// For a table of `capacity` entries that are spread by a hash: a power of two.
///
/// A shard that is full drops its oldest entry, whoever has put the others there. So each has room for many, of which the
/// share of one source or account is a part that chance does not make much larger; a small table has few shards, or one.
pub(in crate::server) fn shard_count(capacity: usize) -> usize {
    let count = (capacity / SHARD_LEN_MIN).clamp(1, SHARDS_MAX);
    1 << count.ilog2()
}

const SHARDS_MAX: usize = 64;
/// A tenth of them are 26, and a source that has a tenth of the table hardly ever has twice as many in a shard.
const SHARD_LEN_MIN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_table_has_one_shard_and_a_large_one_sixty_four() {
        let counts = [1, 400, 1024, 3000, 16_383, 16_384, 1_000_000].map(shard_count);
        assert_eq!(counts, [1, 1, 4, 8, 32, 64, 64]);
    }
}
