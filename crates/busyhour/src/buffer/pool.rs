use std::sync::Arc;

use super::{
    Buffer, BufferMut, Dump, Error,
    block::Ref,
    cache,
    leak_tracer::{LeakTracer, UNOWNED},
    store::Store,
};
use crate::{clock::Clock, stats::BufferStats};

/// Hands out pinned, reference-counted buffers; a clone is another handle on
/// the same pool.
///
/// Rust code holds buffers by value ([`BufferMut`], [`Buffer`]). Code that has
/// nothing but a pointer into a packet pins by that: [`BufferPool::pin`] and
/// [`BufferPool::unpin`] take the address of any byte of a live buffer. The
/// two kinds of hold are counted apart, so an unpin too many can not free what
/// a `Buffer` still shows.
///
/// # Examples
///
/// ```
/// use busyhour::buffer::{BufferPool, Error};
///
/// let pool = BufferPool::builder().budget_bytes(1 << 20).build()?;
/// let packet = pool.copy_from(b"decoded values point into the packet")?;
/// let value = &raw const packet[8];
///
/// pool.pin(value)?;
/// drop(packet);
/// assert_eq!(&pool.buffer_at(value)?[8..14], b"values");
/// pool.unpin(value)?;
/// assert!(matches!(pool.pin(value), Err(Error::NotLive { .. })));
/// # Ok::<(), Error>(())
/// ```
#[doc(alias("pduBuf", "slab", "mbuf pool"))]
#[derive(Debug, Clone)]
pub struct BufferPool {
    pub(super) store: Arc<Store>,
    owner: u16,
    _open: Arc<Open>,
}

impl BufferPool {
    /// Starts the description of a pool.
    pub fn builder() -> BufferPoolBuilder {
        BufferPoolBuilder {
            budget_bytes: BUDGET_BYTES_DEFAULT,
            trace_one_in: LeakTracer::TRACE_NONE,
            clock: Clock::machine(),
        }
    }

    /// A buffer of `len` bytes to write. What is in them is unspecified:
    /// zeroes, or what an earlier buffer left there.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] or [`Error::TooLong`].
    #[inline]
    pub fn alloc(&self, len: usize) -> Result<BufferMut, Error> {
        BufferMut::open(&self.store, len, self.owner)
    }

    /// A frozen copy of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] or [`Error::TooLong`].
    pub fn copy_from(&self, bytes: &[u8]) -> Result<Buffer, Error> {
        let mut copy = self.alloc(bytes.len())?;
        copy.copy_from_slice(bytes);
        Ok(copy.freeze())
    }

    /// A buffer of `len` bytes that is held by one pin instead of a value, for
    /// callers that keep addresses: write through the pointer, and release
    /// with [`BufferPool::unpin`].
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`], [`Error::TooLong`], or [`Error::Empty`].
    #[doc(alias = "__pmFindPDUBuf")]
    #[inline]
    pub fn find(&self, len: usize) -> Result<*mut u8, Error> {
        if len == 0 {
            return Err(Error::Empty);
        }
        let place = self.store.open(len, Ref::Pin, self.owner)?;
        self.store.slot(place).publish(len);
        Ok(self.store.block(place))
    }

    /// Keeps the buffer alive that has a byte at `address`, until a matching
    /// [`BufferPool::unpin`]. The address is compared, never read.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] or [`Error::NotLive`] when no live buffer has a byte
    /// there, [`Error::TooManyPins`]. Nothing has changed then.
    #[doc(alias = "__pmPinPDUBuf")]
    #[inline]
    pub fn pin(&self, address: *const u8) -> Result<(), Error> {
        self.store.pin(address.addr())
    }

    /// Takes one pin off the buffer that has a byte at `address`; the last
    /// hold releases it.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] or [`Error::NotLive`] when no live buffer has a byte
    /// there, [`Error::NotPinned`] when only values hold it. Nothing has
    /// changed then.
    #[doc(alias = "__pmUnpinPDUBuf")]
    #[inline]
    pub fn unpin(&self, address: *const u8) -> Result<(), Error> {
        self.store.unpin(address.addr())
    }

    /// The whole buffer that has a byte at `address`, as a value.
    ///
    /// # Errors
    ///
    /// As [`BufferPool::pin`].
    pub fn buffer_at(&self, address: *const u8) -> Result<Buffer, Error> {
        let place = self.store.handle(address.addr())?;
        Ok(Buffer::of_held(&self.store, place))
    }

    /// The same bytes without the memory they do not need: a copy when they
    /// are a small rest of a big buffer, which a clone or a slice keeps alive
    /// whole, and the buffer itself otherwise.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`]: the copy has to fit before the big one goes.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::buffer::BufferPool;
    ///
    /// let pool = BufferPool::builder().build()?;
    /// let packet = pool.copy_from(&[b'x'; 60_000])?;
    /// let survivor = pool.compact(packet.slice(100..120))?;
    /// drop(packet);
    /// assert_eq!(survivor.len(), 20);
    /// assert_eq!(pool.stats().live_bytes, 64);
    /// # Ok::<(), busyhour::buffer::Error>(())
    /// ```
    pub fn compact(&self, buffer: Buffer) -> Result<Buffer, Error> {
        match buffer.is_compact() {
            true => Ok(buffer),
            false => self.copy_from(&buffer),
        }
    }

    /// A handle on the same pool whose buffers are accounted to `owner`.
    /// [`BufferPool::dump`] tells who holds what.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyOwners`] after 65,535 names.
    pub fn owned_by(&self, owner: &str) -> Result<Self, Error> {
        Ok(Self {
            owner: self.store.watch().owner(owner)?,
            ..self.clone()
        })
    }

    /// What is live now: by owner, and the oldest buffers one by one, with the
    /// traces of those that were sampled. Looks at every block ever used, so
    /// it is for people, not for every packet.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::buffer::BufferPool;
    ///
    /// let pool = BufferPool::builder().trace_one_in(1).build()?;
    /// let leaked = pool.owned_by("decoder")?.copy_from(b"never released")?;
    /// let dump = pool.dump();
    /// assert_eq!(dump.owners[0].owner, "decoder");
    /// assert_eq!(dump.oldest[0].address, leaked.as_ptr().addr());
    /// assert!(dump.oldest[0].trace.is_some());
    /// # Ok::<(), busyhour::buffer::Error>(())
    /// ```
    #[doc(alias = "pdubufdump")]
    pub fn dump(&self) -> Dump {
        self.store.dump(DUMPED_COUNT_MAX)
    }

    /// Gives all memory without a live buffer back to the operating system;
    /// returns the bytes. The pool does so by itself after a burst, except for
    /// a little that it keeps for the next one.
    pub fn trim(&self) -> usize {
        self.store.trim()
    }

    /// Buffers handed out and not yet released.
    pub fn live_count(&self) -> u64 {
        self.stats().live_count
    }

    /// What the pool holds and has done.
    pub fn stats(&self) -> BufferStats {
        self.store.stats()
    }
}

/// The description of a [`BufferPool`].
#[derive(Debug, Clone)]
pub struct BufferPoolBuilder {
    budget_bytes: u64,
    trace_one_in: u32,
    clock: Clock,
}

impl BufferPoolBuilder {
    /// The most that live buffers may hold together, rounding included;
    /// 1 GiB unless told. Address space is reserved for it, memory is not.
    pub fn budget_bytes(mut self, bytes: u64) -> Self {
        self.budget_bytes = bytes;
        self
    }

    /// Keeps a backtrace of where one in `count` buffers is opened, for as
    /// long as it lives, for [`BufferPool::dump`]: each thread traces every
    /// `count`th buffer that it opens, of whatever length. Capturing one
    /// costs microseconds. None are kept unless told.
    pub fn trace_one_in(mut self, count: u32) -> Self {
        self.trace_one_in = count.clamp(1, LeakTracer::TRACE_NONE);
        self
    }

    /// The clock by which buffers age; the machine's unless told.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The pool.
    ///
    /// # Errors
    ///
    /// [`Error::NoAddressSpace`].
    pub fn build(self) -> Result<BufferPool, Error> {
        let watch = LeakTracer::new(self.clock, self.trace_one_in);
        let store = Store::new(self.budget_bytes, watch)?;
        Ok(BufferPool {
            owner: UNOWNED,
            _open: Arc::new(Open(Arc::clone(&store))),
            store,
        })
    }
}

/// Closes the store after the pool's last handle.
#[derive(Debug)]
struct Open(Arc<Store>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
        cache::forget(self.0.id());
    }
}

const BUDGET_BYTES_DEFAULT: u64 = 1 << 30;
const DUMPED_COUNT_MAX: usize = 32;
