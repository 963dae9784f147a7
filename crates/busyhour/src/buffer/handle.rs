use std::{
    fmt,
    ops::{Bound, Deref, DerefMut, RangeBounds},
    ptr::NonNull,
    slice,
};

use super::{Error, region::Place, slot::Slot, store::Store, word::Hold};

/// A buffer that one owner writes. [`BufferMut::freeze`] makes it shareable.
///
/// Until then its addresses can not be pinned: nobody sees half-written bytes.
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
pub struct BufferMut {
    data: *mut u8,
    len: usize,
    block: Block,
}

impl BufferMut {
    #[inline]
    pub(super) fn open(store: &Store, len: usize) -> Result<Self, Error> {
        let place = store.open(len, Hold::Handle)?;
        Ok(Self {
            data: store.block(place),
            len,
            block: Block::held(store, place),
        })
    }

    /// Cuts off the bytes from `len` on; a greater `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends the writing. The bytes can be shared and pinned from now on, and
    /// never change again.
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

    fn deref(&self) -> &[u8] {
        // SAFETY: the block is held by `self`, at least `len` bytes long, and
        // initialised (fresh memory is zero). Nobody else can reach an
        // unpublished block.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

impl DerefMut for BufferMut {
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

/// A frozen buffer, or a part of one; a clone or a part keeps the whole alive.
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
    /// When the range ends past the end or before its own start, as slicing does.
    /// Ranges from outside belong in [`Buffer::slice_ref`].
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        self.share(&self[start..end])
    }

    /// The buffer for bytes that were borrowed from this one, as a parser does.
    ///
    /// # Errors
    ///
    /// [`Error::NotInside`] when the bytes are not a part of this buffer.
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

    /// The whole buffer of a block that the caller got a handle on.
    pub(super) fn of_held(store: &Store, place: Place) -> Self {
        Self {
            data: store.block(place),
            len: store.slot(place).len(),
            block: Block::held(store, place),
        }
    }

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

impl PartialEq for Buffer {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buffer {}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer(\"{}\")", self.escape_ascii())
    }
}

/// One handle on a block.
struct Block {
    slot: NonNull<Slot>,
    store: NonNull<Store>,
}

impl Block {
    /// Of a block on which the caller got a handle.
    #[inline]
    fn held(store: &Store, place: Place) -> Self {
        Self {
            slot: NonNull::from(store.slot(place)),
            store: NonNull::from(store),
        }
    }

    #[inline]
    fn slot(&self) -> &Slot {
        // SAFETY: the slot is part of the store, and this handle keeps the
        // store alive: a pool that ends leaves it to its last holder.
        unsafe { self.slot.as_ref() }
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
        // SAFETY: as for the slot. The store stays alive for the whole call,
        // although the handle goes in the middle of it: it takes a lease first.
        unsafe { self.store.as_ref() }.drop_handle(self.slot());
    }
}
