//! Buffers of 1 KiB in a list of the thread's own, each with a count of its handles: what alloc, clone and the end of both handles
//! cost where no buffer is found by an address, none has another size, nothing is counted, and memory never goes back.

use std::{
    cell::Cell,
    hint::black_box,
    ptr::{self, NonNull},
    sync::atomic::{AtomicU64, Ordering, fence},
};

use kit::{
    Args,
    buffers::{self, BUFFER_BYTES},
};

pub fn run(args: &Args) {
    buffers::run_clone_drop(args, || {
        let mut first = Handle::alloc();
        first.set_first(1);
        let first = black_box(first);
        let second = black_box(first.clone());
        drop(first);
        drop(second);
    });
}

struct Block {
    handles: AtomicU64,
    /// The block that was released before.
    next: Cell<*mut Block>,
    bytes: [u8; BUFFER_BYTES],
}

thread_local! {
    /// The block released last.
    static RELEASED: Cell<*mut Block> = const { Cell::new(ptr::null_mut()) };
}

struct Handle(NonNull<Block>);

impl Handle {
    fn alloc() -> Self {
        let released = RELEASED.get();
        let Some(block) = NonNull::new(released) else {
            return Self::fresh();
        };
        // SAFETY: a released block has no handle, and is this thread's.
        let released = unsafe { block.as_ref() };
        RELEASED.set(released.next.get());
        released.handles.store(1, Ordering::Relaxed);
        Self(block)
    }

    #[cold]
    fn fresh() -> Self {
        let block = Box::new(Block {
            handles: AtomicU64::new(1),
            next: Cell::new(ptr::null_mut()),
            bytes: [0; BUFFER_BYTES],
        });
        Self(NonNull::from(Box::leak(block)))
    }

    fn set_first(&mut self, value: u8) {
        // SAFETY: it is the only handle.
        unsafe { self.0.as_mut().bytes[0] = value };
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        // SAFETY: a block with a handle lives.
        let block = unsafe { self.0.as_ref() };
        block.handles.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: as above.
        let block = unsafe { self.0.as_ref() };
        if block.handles.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            block.next.set(RELEASED.replace(self.0.as_ptr()));
        }
    }
}
