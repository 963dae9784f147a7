use std::{fmt, time::Duration};

/// What is live in a pool at one moment, to find memory that is not released.
/// [`BufferPool::dump`](super::BufferPool::dump) creates it; `Display` prints
/// it.
///
/// ```
/// use busyhour::buffer::BufferPool;
///
/// let buffers = BufferPool::builder().build()?;
/// let parser = buffers.owned_by("parser")?;
/// let _held = parser.copy_from(b"REGISTER")?;
/// let dump = buffers.dump();
/// assert_eq!((dump.owners.len(), dump.oldest.len()), (1, 1));
/// assert!(dump.to_string().contains("parser"));
/// # Ok::<(), busyhour::buffer::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dump {
    /// What each owner holds, sorted by bytes, the most first; owners without a
    /// live buffer are omitted.
    pub owners: Vec<OwnerUsage>,
    /// The oldest live buffers, the oldest first.
    pub oldest: Vec<LiveBuffer>,
}

/// The buffers of one owner.
///
/// ```
/// use busyhour::buffer::BufferPool;
///
/// let buffers = BufferPool::builder().build()?;
/// let _held = buffers.owned_by("parser")?.copy_from(b"REGISTER")?;
/// let usage = &buffers.dump().owners[0];
/// assert_eq!((&*usage.owner, usage.live_count), ("parser", 1));
/// # Ok::<(), busyhour::buffer::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct OwnerUsage {
    /// The name given to [`BufferPool::owned_by`](super::BufferPool::owned_by).
    pub owner: String,
    /// The number of live buffers.
    pub live_count: u64,
    /// Their bytes, rounding included.
    pub live_bytes: u64,
    /// The age of the oldest one.
    pub oldest_age: Duration,
}

/// One live buffer.
///
/// ```
/// use busyhour::buffer::BufferPool;
///
/// let buffers = BufferPool::builder().build()?;
/// let held = buffers.copy_from(b"REGISTER")?;
/// let live = &buffers.live_buffers()[0];
/// assert_eq!((live.address, live.len), (held.as_ptr().addr(), 8));
/// assert_eq!((live.handles, live.pins), (1, 0));
/// # Ok::<(), busyhour::buffer::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LiveBuffer {
    /// The address of its first byte.
    pub address: usize,
    /// Its length in bytes; 0 while it is being written.
    pub len: usize,
    /// The bytes that it occupies, rounding included.
    pub room: usize,
    /// The name of its owner.
    pub owner: String,
    /// The time since it was opened, so no pin on it is older. It is exact to
    /// about 8 ms while the pool is in use, and never too low. It starts again
    /// from 0 after 416 days.
    pub age: Duration,
    /// The number of handles (values) that hold it.
    pub handles: u64,
    /// The number of pins by address.
    pub pins: u64,
    /// Where it was opened, if it was traced.
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
