use std::sync::Arc;

use super::{
    Buffer, BufferMut, Dump, Error, LiveBuffer,
    block::Ref,
    cache,
    leak_tracer::{LeakTracer, UNOWNED},
    store::Store,
};
use crate::{clock::Clock, stats::BufferStats};

/// Allocates pinned, reference-counted buffers; a clone is another handle on
/// the same pool.
///
/// Rust code holds buffers by value ([`BufferMut`], [`Buffer`]). Code that has
/// only a pointer into a packet pins by address: [`BufferPool::pin`] and
/// [`BufferPool::unpin`] take the address of any byte of a live buffer. The two
/// kinds of hold are counted separately, so one unpin too many cannot free what
/// a `Buffer` still uses.
///
/// A signal handler must call nothing of it, as it must not allocate: it may
/// have interrupted a pin on the same thread.
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
    /// Options of a new pool.
    pub fn builder() -> BufferPoolBuilder {
        BufferPoolBuilder {
            budget_bytes: BUDGET_BYTES_DEFAULT,
            trace_one_in: LeakTracer::TRACE_NONE,
            clock: Clock::machine(),
        }
    }

    /// A buffer of `len` bytes to write. The content is unspecified: zeros, or
    /// what an earlier buffer left there.
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
    /// callers that store addresses: write through the pointer, and release it
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

    /// Keeps the buffer that has a byte at `address` alive until a matching
    /// [`BufferPool::unpin`]. The address is compared, never dereferenced. Whoever
    /// wants a value that holds the buffer, and reads it, takes
    /// [`BufferPool::buffer_at`].
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] or [`Error::NotLive`] if no live buffer has a byte
    /// there, [`Error::TooManyPins`] if the counter is full. Then nothing has
    /// changed.
    #[doc(alias = "__pmPinPDUBuf")]
    #[inline]
    pub fn pin(&self, address: *const u8) -> Result<(), Error> {
        self.store.pin(address.addr())
    }

    /// Removes one pin from the buffer that has a byte at `address`; removing
    /// the last hold releases the buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] or [`Error::NotLive`] if no live buffer has a byte
    /// there, [`Error::NotPinned`] if only values hold it. Then nothing has
    /// changed.
    #[doc(alias = "__pmUnpinPDUBuf")]
    #[inline]
    pub fn unpin(&self, address: *const u8) -> Result<(), Error> {
        self.store.unpin(address.addr())
    }

    /// The whole buffer that has a byte at `address`, as a value that holds it.
    ///
    /// # Errors
    ///
    /// Those of [`BufferPool::pin`].
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::buffer::BufferPool;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = BufferPool::builder().build()?;
    /// let packet = pool.copy_from(b"hello")?;
    /// let address = packet[2..].as_ptr();
    /// let found = pool.buffer_at(address)?;
    /// drop(packet);
    /// assert_eq!(&found[..], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer_at(&self, address: *const u8) -> Result<Buffer, Error> {
        let place = self.store.handle(address.addr())?;
        Ok(Buffer::of_held(&self.store, place))
    }

    /// The same bytes, without keeping memory that they do not need: a copy if
    /// they are a small part of a large buffer, which a clone or a slice would
    /// keep alive, otherwise the buffer itself.
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

    /// A handle on the same pool whose buffers count for `owner`.
    /// [`BufferPool::dump`] reports them by owner.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyOwners`] if there are 65,535 names already.
    pub fn owned_by(&self, owner: &str) -> Result<Self, Error> {
        Ok(Self {
            owner: self.store.watch().owner(owner)?,
            ..self.clone()
        })
    }

    /// What is live now: by owner, and the oldest buffers one by one, with
    /// traces of those that were sampled. It looks at every block ever used, so
    /// use it for diagnostics, not for every packet.
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

    /// Every live buffer, the oldest first; it looks at every block ever used.
    ///
    /// ```
    /// use busyhour::buffer::BufferPool;
    ///
    /// let pool = BufferPool::builder().build()?;
    /// let held: Vec<_> = (1..=20).map(|len| pool.alloc(len)).collect::<Result<_, _>>()?;
    /// assert_eq!(pool.live_buffers().len(), held.len());
    /// # Ok::<(), busyhour::buffer::Error>(())
    /// ```
    pub fn live_buffers(&self) -> Vec<LiveBuffer> {
        self.store.dump(usize::MAX).oldest
    }

    /// Gives all memory without a live buffer back to the operating system;
    /// returns the number of bytes. The pool does this by itself after a burst,
    /// except for a little that it keeps for the next one.
    pub fn trim(&self) -> usize {
        self.store.trim()
    }

    /// Buffers handed out and not yet released.
    pub fn live_count(&self) -> u64 {
        self.stats().live_count
    }

    /// Statistics of the pool: what it holds now and what it has done.
    pub fn stats(&self) -> BufferStats {
        self.store.stats()
    }
}

/// Options of a [`BufferPool`].
///
/// ```
/// use busyhour::buffer::BufferPool;
///
/// let buffers = BufferPool::builder().budget_bytes(16 << 20).trace_one_in(100).build()?;
/// assert_eq!(buffers.stats().budget_bytes, 16 << 20);
/// # Ok::<(), busyhour::buffer::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct BufferPoolBuilder {
    budget_bytes: u64,
    trace_one_in: u32,
    clock: Clock,
}

impl BufferPoolBuilder {
    /// The most bytes that live buffers may hold together, rounding included;
    /// default: 1 GiB. This much address space is reserved, but no memory.
    pub fn budget_bytes(mut self, bytes: u64) -> Self {
        self.budget_bytes = bytes;
        self
    }

    /// Captures a backtrace of where one in `count` buffers is opened, and
    /// keeps it while the buffer lives, for [`BufferPool::dump`]: each thread
    /// traces every `count`th buffer that it opens, whatever its length.
    /// Capturing one costs microseconds. Default: none.
    pub fn trace_one_in(mut self, count: u32) -> Self {
        self.trace_one_in = count.clamp(1, LeakTracer::TRACE_NONE);
        self
    }

    /// The clock for the age of buffers; default: the machine's.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the pool.
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

/// Closes the store when the pool's last handle is dropped.
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
