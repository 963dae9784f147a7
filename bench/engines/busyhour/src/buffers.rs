//! Pinned buffers, by address and by handle.

use std::hint::black_box;

use busyhour::buffer::BufferPool;
use kit::{
    Args,
    buffers::{BUFFER_BYTES, Pins},
};

struct Pool(BufferPool);

impl Pins for Pool {
    fn find(&self) -> usize {
        self.0.find(BUFFER_BYTES).expect("within the budget") as usize
    }

    fn pin(&self, address: usize) -> bool {
        self.0.pin(address as *const u8).is_ok()
    }

    fn unpin(&self, address: usize) -> bool {
        self.0.unpin(address as *const u8).is_ok()
    }

    fn live_count(&self) -> u64 {
        self.0.live_count()
    }
}

pub fn run(args: &Args) {
    let pool = Pool(
        BufferPool::builder()
            .budget_bytes(args.optional("budget_bytes").unwrap_or(BUDGET_BYTES))
            .build()
            .expect("a budget"),
    );
    let clone_drop = || {
        let mut buffer = pool.0.alloc(BUFFER_BYTES).expect("within the budget");
        buffer[0] = 1;
        let first = black_box(buffer.freeze());
        let second = black_box(first.clone());
        drop(first);
        drop(second);
    };
    kit::buffers::run(args, &pool, Some(&clone_drop));
}

const BUDGET_BYTES: u64 = 8 << 30;
