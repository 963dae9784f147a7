use std::{
    fmt,
    ops::{Bound, Deref, DerefMut, RangeBounds},
    ptr::NonNull,
    slice,
};

use bytes::Bytes;

use super::{
    Error,
    address::{BLOCK_BYTES_MIN, SlotIndex},
    block::{Ref, Remaining, Slot, Stripes},
    cache,
    store::Store,
};
use crate::sync::atomic::AtomicU32;

/// A buffer that one owner writes; [`BufferMut::freeze`] makes it shareable.
///
/// Until then its addresses cannot be pinned, so no other thread sees
/// half-written bytes.
///
/// # Examples
///
/// ```
/// use busyhour::buffer::BufferPool;
///
/// let pool = BufferPool::builder().build()?;
/// let mut writing = pool.alloc(1500)?;
/// writing[..5].copy_from_slice(b"hello");
/// writing.truncate(5);
/// assert_eq!(&*writing.freeze(), b"hello");
/// # Ok::<(), busyhour::buffer::Error>(())
/// ```
#[doc(alias("BytesMut", "mutable_buffer"))]
pub struct BufferMut {
    data: *mut u8,
    len: usize,
    block: Block,
}

impl BufferMut {
    #[inline]
    pub(super) fn open(store: &Store, len: usize, owner: u16) -> Result<Self, Error> {
        let place = store.open(len, Ref::Handle, owner)?;
        Ok(Self {
            data: store.block(place),
            len,
            block: Block::held(store, place),
        })
    }

    /// Truncates the buffer to `len` bytes; does nothing if it is not longer.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends the writing. From now on the bytes can be shared and pinned, and
    /// never change.
    #[inline]
    pub fn freeze(self) -> Buffer {
        self.block.slot().publish(self.len);
        Buffer {
            data: self.data,
            len: self.len,
            block: self.block,
        }
    }
}

// SAFETY: the bytes are reached through this value alone, and its block is
// held by atomics.
unsafe impl Send for BufferMut {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for BufferMut {}

impl Deref for BufferMut {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the block is held by `self`, at least `len` bytes long, and
        // initialised (fresh memory is zero). Nobody else can reach an
        // unpublished block.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

impl DerefMut for BufferMut {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.data, self.len) }
    }
}

impl fmt::Debug for BufferMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferMut({} bytes)", self.len)
    }
}

/// A frozen buffer, or a part of one; each clone or part keeps the whole block
/// alive.
///
/// # Examples
///
/// ```
/// use busyhour::buffer::BufferPool;
///
/// let pool = BufferPool::builder().build()?;
/// let packet = pool.copy_from(b"REGISTER sip:example.com SIP/2.0")?;
/// let method = packet.slice(..8);
/// drop(packet);
/// assert_eq!(&*method, b"REGISTER");
/// # Ok::<(), busyhour::buffer::Error>(())
/// ```
#[doc(alias("Bytes", "const_buffer"))]
pub struct Buffer {
    data: *const u8,
    len: usize,
    block: Block,
}

impl Buffer {
    /// The part of these bytes in `range`, sharing the same memory.
    ///
    /// # Panics
    ///
    /// If the range ends past the end or before its own start, as slicing does.
    /// For ranges from outside use [`Buffer::slice_ref`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let after = |index: usize| index.checked_add(1).expect("a range ends past the end");
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => after(*before),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => after(*last),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        self.share(&self[start..end])
    }

    /// The buffer for bytes that were borrowed from this one, for example by a
    /// parser.
    ///
    /// # Errors
    ///
    /// [`Error::NotInside`] if the bytes are not a part of this buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// use busyhour::buffer::BufferPool;
    ///
    /// let pool = BufferPool::builder().build()?;
    /// let line = pool.copy_from(b"Call-ID: 3848276298220188511@example.com")?;
    /// let value = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    /// let call_id = line.slice_ref(value)?;
    /// assert_eq!(&*call_id, b"3848276298220188511@example.com");
    /// assert!(line.slice_ref(b"elsewhere").is_err());
    /// # Ok::<(), busyhour::buffer::Error>(())
    /// ```
    pub fn slice_ref(&self, part: &[u8]) -> Result<Self, Error> {
        let ours = self.as_ptr_range();
        let parts = part.as_ptr_range();
        if parts.start < ours.start || parts.end > ours.end {
            return Err(Error::NotInside);
        }
        Ok(self.share(part))
    }

    /// The whole buffer of a block on which the caller has a handle.
    pub(super) fn of_held(store: &Store, place: SlotIndex) -> Self {
        Self {
            data: store.block(place),
            len: store.slot(place).len(),
            block: Block::held(store, place),
        }
    }

    /// Whether the block is not much longer than these bytes need. Bytes that
    /// were adopted are never copied.
    pub(super) fn is_compact(&self) -> bool {
        self.block
            .room()
            .is_none_or(|room| room <= 2 * self.len.max(BLOCK_BYTES_MIN))
    }

    #[inline]
    fn share(&self, part: &[u8]) -> Self {
        Self {
            data: part.as_ptr(),
            len: part.len(),
            block: self.block.clone(),
        }
    }
}

// SAFETY: the bytes do not change while anybody holds the block, and the
// holds are counted atomically.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Clone for Buffer {
    #[inline]
    fn clone(&self) -> Self {
        self.share(self)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `data` and `len` lie in the published part of the block,
        // which `self` holds and nobody writes any more.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Does not copy; the `Bytes` keeps the buffer alive.
impl From<Buffer> for Bytes {
    fn from(buffer: Buffer) -> Self {
        Self::from_owner(buffer)
    }
}

/// Does not copy; the buffer keeps the `Bytes` alive. Its addresses are in no
/// pool, so they cannot be pinned.
impl From<Bytes> for Buffer {
    fn from(bytes: Bytes) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
            block: Block::adopted(bytes),
        }
    }
}

impl Eq for Buffer {}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Buffer {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer(\"{}\")", self.escape_ascii())
    }
}

/// One handle on a block of a pool, or on bytes from elsewhere.
struct Block {
    slot: NonNull<Slot>,
    /// `None` if the slot is that of an [`Adopted`].
    store: Option<NonNull<Store>>,
}

/// Bytes that belong to no pool, with a count of their handles.
#[repr(C)]
struct Adopted {
    slot: Slot,
    _bytes: Bytes,
}

impl Block {
    /// A handle that the caller has already counted.
    #[inline]
    fn held(store: &Store, place: SlotIndex) -> Self {
        Self {
            slot: NonNull::from(store.slot(place)),
            store: Some(NonNull::from(store)),
        }
    }

    fn adopted(bytes: Bytes) -> Self {
        let adopted = Box::new(Adopted {
            slot: Slot::default(),
            _bytes: bytes,
        });
        adopted.slot.open(Ref::Handle, 0);
        Self {
            slot: NonNull::from(Box::leak(adopted)).cast(),
            store: None,
        }
    }

    #[inline]
    fn slot(&self) -> &Slot {
        // SAFETY: the slot is part of the store or of the adopted bytes, and
        // this handle keeps that alive: a pool that ends leaves its store to
        // its last holder.
        unsafe { self.slot.as_ref() }
    }

    fn room(&self) -> Option<usize> {
        // SAFETY: as for the slot.
        self.store
            .map(|store| unsafe { store.as_ref() }.room_of(self.slot()))
    }

    #[cold]
    fn drop_adopted(&self) {
        if let Remaining::None(_) = self.slot().drop_handle(&NoStripes) {
            // SAFETY: the slot is the first field of a leaked `Adopted`, and
            // this was its last handle.
            drop(unsafe { Box::from_raw(self.slot.cast::<Adopted>().as_ptr()) });
        }
    }
}

impl Clone for Block {
    #[inline]
    fn clone(&self) -> Self {
        self.slot().add_handle();
        Self {
            slot: self.slot,
            store: self.store,
        }
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        if self.slot().drop_one_of_several() {
            return;
        }
        let Some(store) = self.store else {
            return self.drop_adopted();
        };
        // SAFETY: as for the slot. The store stays alive for the whole call,
        // although the handle goes in the middle of it: it takes a lease first.
        let outlived = unsafe { store.as_ref() }.drop_handle(self.slot());
        if let Some(store_id) = outlived {
            cache::forget(store_id);
        }
    }
}

/// Adopted bytes have no address in a pool, so they are never pinned.
struct NoStripes;

impl Stripes for NoStripes {
    fn stripe(&self, _: usize) -> &AtomicU32 {
        unreachable!("adopted bytes are never striped")
    }
}
