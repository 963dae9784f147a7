use std::{
    alloc::{self, Layout},
    ops::Deref,
    ptr::{self, NonNull},
    slice,
};

/// A boxed slice that begins on a cache line. The system provides its memory
/// only where it is touched.
///
/// An item whose size divides a line, or is a multiple of it, touches as few
/// lines as possible; in an ordinary box every other 32-byte item crosses two
/// lines.
pub(in crate::bus) struct Lines<T> {
    items: NonNull<T>,
    len: usize,
    memory: NonNull<u8>,
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

impl<T: Zeroed> Lines<T> {
    /// A slice of `len` zeroed items.
    pub(super) fn zeroed(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty: there is room for a line at least.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else {
            alloc::handle_alloc_error(layout)
        };
        let offset = memory.align_offset(LINE_BYTES);
        // SAFETY: the layout has a line more than the items need, and the way
        // to the next line is shorter than a line.
        let items = unsafe { memory.add(offset) }.cast::<T>();
        if cfg!(loom) {
            // SAFETY: each index is below `len`, for which there is room.
            (0..len).for_each(|index| unsafe { items.add(index).write(T::zeroed()) });
        }
        Self { items, len, memory }
    }
}

impl<T> Lines<T> {
    /// The layout for `len` items. The allocator would zero memory with a
    /// larger alignment than its own by hand, page by page.
    fn layout(len: usize) -> Layout {
        const { assert!(align_of::<T>() <= LINE_BYTES) };
        let bytes = len.checked_mul(size_of::<T>());
        let layout = bytes
            .and_then(|bytes| bytes.checked_add(LINE_BYTES))
            .and_then(|bytes| Layout::from_size_align(bytes, align_of::<u64>()).ok());
        layout.expect("a table is smaller than the address space")
    }
}

impl<T> Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: there are `len` items, made with the memory and alive until
        // it is given back.
        unsafe { slice::from_raw_parts(self.items.as_ptr(), self.len) }
    }
}

impl<T> Drop for Lines<T> {
    fn drop(&mut self) {
        let items = ptr::slice_from_raw_parts_mut(self.items.as_ptr(), self.len);
        // SAFETY: the items are valid, and nobody can reach them any more.
        unsafe { items.drop_in_place() };
        // SAFETY: the memory came from the allocator with this very layout.
        unsafe { alloc::dealloc(self.memory.as_ptr(), Self::layout(self.len)) };
    }
}

// SAFETY: it owns its items.
unsafe impl<T: Send> Send for Lines<T> {}
// SAFETY: shared, it only hands out shared items.
unsafe impl<T: Sync> Sync for Lines<T> {}

pub(super) const LINE_BYTES: usize = 64;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    // SAFETY: an atomic integer is its bytes.
    unsafe impl Zeroed for AtomicU64 {
        fn zeroed() -> Self {
            Self::new(0)
        }
    }

    #[test]
    fn items_are_zero_and_begin_on_a_line() {
        for len in [1, 8, 100, 100_000] {
            let lines = Lines::<AtomicU64>::zeroed(len);
            assert_eq!(lines.len(), len);
            assert!(lines.as_ptr().addr() % LINE_BYTES == 0);
            assert!(lines.iter().all(|item| item.load(Ordering::Relaxed) == 0));
            lines
                .iter()
                .for_each(|item| item.store(7, Ordering::Relaxed));
        }
    }
}
