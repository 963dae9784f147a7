use std::{fmt, time::Duration};

/// What is live in a pool at one moment, for people who look for memory that
/// does not come back. [`BufferPool::dump`](super::BufferPool::dump) takes it;
/// `Display` prints it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dump {
    /// What each owner holds, the most bytes first; owners without a live
    /// buffer are left out.
    pub owners: Vec<OwnerUsage>,
    /// The oldest live buffers, the oldest first.
    pub oldest: Vec<LiveBuffer>,
}

/// What one owner holds.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnerUsage {
    /// The name given to [`BufferPool::owned_by`](super::BufferPool::owned_by).
    pub owner: String,
    /// Live buffers.
    pub live_count: u64,
    /// Their bytes, rounding included.
    pub live_bytes: u64,
    /// The age of the oldest.
    pub oldest_age: Duration,
}

/// One live buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveBuffer {
    /// Of its first byte.
    pub address: usize,
    /// Bytes in use; 0 while it is being written.
    pub len: usize,
    /// Bytes it keeps from others, rounding included.
    pub room: usize,
    /// Who opened it.
    pub owner: String,
    /// Since it was opened: no pin on it is older. To about 8 ms while the
    /// pool is in use, and never too low. After 416 days it starts again.
    pub age: Duration,
    /// Values that hold it.
    pub handles: u64,
    /// Pins by address.
    pub pins: u64,
    /// Where it was opened, if it is one of the sample.
    pub trace: Option<String>,
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>10} {:>14} {:>12}  owner",
            "buffers", "bytes", "oldest"
        )?;
        for usage in &self.owners {
            writeln!(f, "{usage}")?;
        }
        for buffer in &self.oldest {
            write!(f, "{buffer}")?;
        }
        Ok(())
    }
}

impl fmt::Display for OwnerUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            owner,
            live_count,
            live_bytes,
            oldest_age,
        } = self;
        let age = format!("{oldest_age:.1?}");
        write!(f, "{live_count:>10} {live_bytes:>14} {age:>12}  {owner}")
    }
}

impl fmt::Display for LiveBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            len,
            room,
            owner,
            age,
            handles,
            pins,
            trace,
        } = self;
        writeln!(
            f,
            "{address:#x}: {len} of {room} bytes, {owner}, {age:.1?} old, \
             {handles} handles, {pins} pins"
        )?;
        match trace {
            Some(trace) => writeln!(f, "{trace}"),
            None => Ok(()),
        }
    }
}
