use std::sync::Arc;

use super::{Buffer, BufferMut, Error, store::Store, word::Hold};
use crate::stats::BufferStats;

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
#[derive(Debug, Clone)]
pub struct BufferPool {
    store: Arc<Store>,
    _open: Arc<Open>,
}

impl BufferPool {
    /// Starts the description of a pool.
    pub fn builder() -> BufferPoolBuilder {
        BufferPoolBuilder {
            budget_bytes: BUDGET_BYTES_DEFAULT,
        }
    }

    /// A buffer of `len` bytes to write. What is in them is unspecified:
    /// zeroes, or what an earlier buffer left there.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] or [`Error::TooLong`].
    pub fn alloc(&self, len: usize) -> Result<BufferMut, Error> {
        BufferMut::open(&self.store, len)
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
    pub fn find(&self, len: usize) -> Result<*mut u8, Error> {
        if len == 0 {
            return Err(Error::Empty);
        }
        let place = self.store.open(len, Hold::Pin)?;
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
}

impl BufferPoolBuilder {
    /// The most that live buffers may hold together, rounding included;
    /// 1 GiB unless told. Address space is reserved for it, memory is not.
    pub fn budget_bytes(mut self, bytes: u64) -> Self {
        self.budget_bytes = bytes;
        self
    }

    /// The pool.
    ///
    /// # Errors
    ///
    /// [`Error::NoAddressSpace`].
    pub fn build(self) -> Result<BufferPool, Error> {
        let store = Store::new(self.budget_bytes)?;
        Ok(BufferPool {
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
    }
}

const BUDGET_BYTES_DEFAULT: u64 = 1 << 30;
