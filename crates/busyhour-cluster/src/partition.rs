//! The parts of the address space.

use md5::{Digest, Md5};
use std::fmt::{self, Display, Formatter};

/// How many partitions there are.
pub const PARTITION_COUNT: usize = 256;

/// One of the 256 parts into which addresses of record fall.
///
/// ```
/// use busyhour_cluster::Partition;
///
/// // As PostgreSQL computes it: ('x' || substr(md5(aor), 1, 2))::bit(8)::integer
/// assert_eq!(Partition::of("sip:alice@example.com"), Partition(134));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u8);

impl Partition {
    /// The partition of a canonical address of record: the first byte of its MD5. It never
    /// changes, since rows in databases depend on it.
    pub fn of(aor: &str) -> Self {
        Self(Md5::digest(aor.as_bytes())[0])
    }

    /// Its place in a list of all partitions.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl Display for Partition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
