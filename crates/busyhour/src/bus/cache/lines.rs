use std::{
    alloc::{self, Layout},
    marker::PhantomData,
    ptr::{self, NonNull},
    slice,
};

/// Three rows of items in one piece of memory that begins on a cache line. Each row follows the one
/// before, on a line of its own, so one pointer leads to all. For each item of the second row the first
/// has `width`, and for each eight the third has one; their number is a multiple of eight. The system
/// provides the memory only where it is touched.
///
/// An item whose size divides a line, or is a multiple of it, touches as few
/// lines as possible; in an ordinary box every other 32-byte item crosses two
/// lines.
pub(in crate::bus) struct Lines<A, B, C> {
    first: NonNull<A>,
    len: usize,
    width: usize,
    memory: NonNull<u8>,
    owns: PhantomData<(A, B, C)>,
}

/// Types for which zeroed memory is a valid value.
///
/// # Safety
///
/// - All-zero bytes are a valid value, unless this is a build for loom.
pub(in crate::bus) unsafe trait Zeroed {
    /// The value that consists of zero bytes.
    fn zeroed() -> Self;
}

impl<A: Zeroed, B: Zeroed, C: Zeroed> Lines<A, B, C> {
    /// Rows of `len * width`, of `len` and of `len / 8` zeroed items.
    pub(super) fn zeroed(len: usize, width: usize) -> Self {
        assert!(len % 8 == 0, "a multiple of eight");
        let layout = Self::layout(len, width);
        // SAFETY: the layout is not empty: there is room for a line at least.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else {
            alloc::handle_alloc_error(layout)
        };
        let offset = memory.align_offset(LINE_BYTES);
        // SAFETY: the layout has a line more than the rows need, and the way
        // to the next line is shorter than a line.
        let first = unsafe { memory.add(offset) }.cast::<A>();
        if cfg!(loom) {
            // SAFETY: each index is below the length of the row.
            unsafe {
                (0..len * width).for_each(|index| first.add(index).write(A::zeroed()));
                let second = first.byte_add(Self::second_offset(len, width)).cast::<B>();
                (0..len).for_each(|index| second.add(index).write(B::zeroed()));
                let third = first.byte_add(Self::third_offset(len, width)).cast::<C>();
                (0..len / 8).for_each(|index| third.add(index).write(C::zeroed()));
            }
        }
        let owns = PhantomData;
        Self {
            first,
            len,
            width,
            memory,
            owns,
        }
    }
}

impl<A, B, C> Lines<A, B, C> {
    /// The layout for rows of so many items. The allocator would zero memory with a larger alignment
    /// than its own by hand, page by page.
    fn layout(len: usize, width: usize) -> Layout {
        const {
            assert!(align_of::<A>() <= LINE_BYTES);
            assert!(align_of::<B>() <= LINE_BYTES && align_of::<C>() <= LINE_BYTES);
        }
        let slot = width * size_of::<A>() + size_of::<B>();
        let eighths = len / 8 * size_of::<C>();
        let bytes = len.checked_mul(slot);
        let layout = bytes
            .and_then(|bytes| bytes.checked_add(eighths))
            .and_then(|bytes| bytes.checked_add(3 * LINE_BYTES))
            .and_then(|bytes| Layout::from_size_align(bytes, align_of::<u64>()).ok());
        layout.expect("a table is smaller than the address space")
    }

    /// How many bytes after the first row's begin the second one begins.
    #[inline(always)]
    pub(super) const fn second_offset(len: usize, width: usize) -> usize {
        row_bytes::<A>(len * width)
    }

    /// How many bytes after the first row's begin the third one begins.
    #[inline(always)]
    pub(super) const fn third_offset(len: usize, width: usize) -> usize {
        Self::second_offset(len, width) + row_bytes::<B>(len)
    }

    /// Where the first row begins. The pointer may be followed to the other rows, too.
    pub(super) fn first(&self) -> *mut A {
        self.first.as_ptr()
    }

    /// The length of the second row.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All rows.
    pub(super) fn rows(&self) -> (&[A], &[B], &[C]) {
        // SAFETY: the rows are there as long as this.
        unsafe { Self::rows_at(self.first.as_ptr(), self.len, self.width) }
    }

    /// All rows, by a pointer to them.
    ///
    /// # Safety
    ///
    /// - The pointer, the length and the width are those of rows that live as long as `'a`.
    #[inline(always)]
    pub(super) unsafe fn rows_at<'a>(
        first: *const A,
        len: usize,
        width: usize,
    ) -> (&'a [A], &'a [B], &'a [C]) {
        // SAFETY: so many items of the first row begin there, made with the memory, and so many of
        // the others at their offsets; they are there for `'a`.
        unsafe {
            let second = first.byte_add(Self::second_offset(len, width)).cast::<B>();
            let third = first.byte_add(Self::third_offset(len, width)).cast::<C>();
            (
                slice::from_raw_parts(first, len * width),
                slice::from_raw_parts(second, len),
                slice::from_raw_parts(third, len / 8),
            )
        }
    }
}

impl<A, B, C> Drop for Lines<A, B, C> {
    fn drop(&mut self) {
        let second = Self::second_offset(self.len, self.width);
        let third = Self::third_offset(self.len, self.width);
        let first_len = self.len * self.width;
        // SAFETY: the items are valid, and nobody can reach them any more.
        unsafe {
            let second = self.first.byte_add(second).cast::<B>();
            let third = self.first.byte_add(third).cast::<C>();
            ptr::slice_from_raw_parts_mut(self.first.as_ptr(), first_len).drop_in_place();
            ptr::slice_from_raw_parts_mut(second.as_ptr(), self.len).drop_in_place();
            ptr::slice_from_raw_parts_mut(third.as_ptr(), self.len / 8).drop_in_place();
        }
        // SAFETY: the memory came from the allocator with this very layout.
        unsafe { alloc::dealloc(self.memory.as_ptr(), Self::layout(self.len, self.width)) };
    }
}

// SAFETY: it owns its items.
unsafe impl<A: Send, B: Send, C: Send> Send for Lines<A, B, C> {}
// SAFETY: shared, it only hands out shared items.
unsafe impl<A: Sync, B: Sync, C: Sync> Sync for Lines<A, B, C> {}

/// The bytes of a row of so many items, a multiple of eight, up to the next line.
#[inline(always)]
const fn row_bytes<T>(len: usize) -> usize {
    let bytes = len * size_of::<T>();
    // Known to the compiler, so that a search does not round.
    if size_of::<T>() * 8 % LINE_BYTES == 0 {
        return bytes;
    }
    bytes.next_multiple_of(LINE_BYTES)
}

pub(super) const LINE_BYTES: usize = 64;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    // SAFETY: an atomic integer is its bytes.
    unsafe impl Zeroed for AtomicU64 {
        fn zeroed() -> Self {
            Self::new(0)
        }
    }

    // SAFETY: as above.
    unsafe impl Zeroed for [AtomicU64; 3] {
        fn zeroed() -> Self {
            [0; 3].map(AtomicU64::new)
        }
    }

    #[test]
    fn items_are_zero_and_all_rows_begin_on_a_line() {
        for len in [8, 24, 128, 100_000] {
            let lines = Lines::<AtomicU64, [AtomicU64; 3], AtomicU64>::zeroed(len, 2);
            let (first, second, third) = lines.rows();
            let lens = (first.len(), second.len(), third.len());
            assert_eq!(lens, (2 * len, len, len / 8));
            assert!(first.as_ptr().addr() % LINE_BYTES == 0);
            assert!(second.as_ptr().addr() % LINE_BYTES == 0);
            assert!(third.as_ptr().addr() % LINE_BYTES == 0);
            assert!(first.as_ptr_range().end.addr() <= second.as_ptr().addr());
            assert!(second.as_ptr_range().end.addr() <= third.as_ptr().addr());
            let items = || first.iter().chain(second.iter().flatten()).chain(third);
            assert!(items().all(|item| item.load(Ordering::Relaxed) == 0));
            items().for_each(|item| item.store(7, Ordering::Relaxed));
        }
    }
}
