//! loom models of a block's life: whatever the interleaving, its memory is
//! freed exactly once, after the last hold.

use loom::thread;

use super::{
    slot::{DropPin, Pinner, RefByte, Remaining, Slot, TryPin},
    slot_header::Ref,
    stripes::{STRIPE_COUNT, Stripes},
};
use crate::sync::{Arc, UnsafeCell, atomic::AtomicU32};

/// One block outside of any region. Holders read `memory`, the thread that
/// frees it writes: loom reports a race if the two overlap.
#[derive(Default)]
struct Block {
    slot: Slot,
    stripes: BlockStripes,
    memory: UnsafeCell<u32>,
    freed: AtomicU32,
}

#[derive(Default)]
struct BlockStripes([AtomicU32; STRIPE_COUNT]);

impl Stripes for BlockStripes {
    fn stripe(&self, stripe: usize) -> &AtomicU32 {
        &self.0[stripe]
    }
}

impl Block {
    fn open(hold: Ref) -> Arc<Self> {
        let block = Self::default();
        block.slot.open(hold, 0);
        block.slot.publish(LEN);
        Arc::new(block)
    }

    /// Pins like the store; `false` if the block is not live.
    fn pin(&self, pinner: &Pinner) -> bool {
        let counter = self.stripes.stripe(pinner.stripe());
        let mut tried = self.slot.try_pin(LEN - 1, pinner, counter);
        loop {
            match (self.slot).pin_byte(tried, LEN - 1, pinner, &self.stripes) {
                RefByte::Held | RefByte::FirstHeld => return true,
                RefByte::NotLive => return false,
                RefByte::TooMany(_) => unreachable!("a model has few pins"),
                RefByte::Withdrawn(remaining) => self.settle(remaining),
            }
            tried = TryPin::Unusual;
        }
    }

    fn unpin(&self, pinner: &Pinner) -> bool {
        let counter = self.stripes.stripe(pinner.stripe());
        let tried = self.slot.try_drop_pin(LEN - 1, pinner, counter);
        match (self.slot).drop_pin(tried, LEN - 1, pinner, &self.stripes) {
            DropPin::Dropped(remaining) => {
                self.settle(remaining);
                true
            }
            DropPin::NotLive | DropPin::NotPinned => false,
        }
    }

    /// Drops a handle like a value does.
    fn drop_handle(&self) {
        if self.slot.drop_one_of_several() {
            return;
        }
        self.settle(self.slot.drop_handle(&self.stripes));
    }

    fn read(&self) {
        self.memory.with(|value| {
            // SAFETY: the caller holds the block; loom checks that.
            let _ = unsafe { *value };
        });
    }

    fn settle(&self, remaining: Remaining) {
        if let Remaining::None(_) = remaining {
            self.memory.with_mut(|value| {
                // SAFETY: nobody holds the block any more; loom checks that.
                unsafe { *value += 1 };
            });
            self.freed.fetch_add(1, ORDER);
        }
    }

    fn pin_read_unpin(&self, pinner: &Pinner) {
        if self.pin(pinner) {
            self.read();
            assert!(self.unpin(pinner), "a granted pin can be taken off");
        }
    }

    fn assert_freed_once(&self) {
        assert_eq!(self.freed.load(ORDER), 1);
        assert!(!self.slot.load().is_live());
    }
}

fn spawn(block: &Arc<Block>, work: impl FnOnce(&Block) + 'static) -> thread::JoinHandle<()> {
    let block = Arc::clone(block);
    thread::spawn(move || work(&block))
}

#[test]
fn loom_a_pin_meets_the_last_unpin_of_a_found_block() {
    loom::model(|| {
        let block = Block::open(Ref::Pin);
        let other = spawn(&block, |block| block.pin_read_unpin(&Pinner::new(1)));
        assert!(block.unpin(&Pinner::new(0)));
        other.join().unwrap();
        block.assert_freed_once();
    });
}

#[test]
fn loom_two_handles_are_dropped_at_once_beside_a_pin() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let block = Block::open(Ref::Handle);
        block.slot.add_handle();
        let other = spawn(&block, |block| {
            block.read();
            block.drop_handle();
        });
        let pinner = spawn(&block, |block| block.pin_read_unpin(&Pinner::new(0)));
        block.read();
        block.drop_handle();
        other.join().unwrap();
        pinner.join().unwrap();
        block.assert_freed_once();
    });
}

#[test]
fn loom_a_pin_meets_the_last_unpin_of_a_striped_block() {
    loom::model(|| {
        let block = Block::open(Ref::Handle);
        let mine = Pinner::new(0);
        assert!(block.pin(&mine));
        block.drop_handle();
        let other = spawn(&block, |block| block.pin_read_unpin(&Pinner::new(1)));
        block.read();
        assert!(block.unpin(&mine));
        other.join().unwrap();
        block.assert_freed_once();
    });
}

#[test]
fn loom_two_pins_of_different_stripes_meet_the_last_handle() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let block = Block::open(Ref::Handle);
        let first = spawn(&block, |block| block.pin_read_unpin(&Pinner::new(0)));
        let second = spawn(&block, |block| block.pin_read_unpin(&Pinner::new(1)));
        block.read();
        block.drop_handle();
        first.join().unwrap();
        second.join().unwrap();
        block.assert_freed_once();
    });
}

#[test]
fn loom_a_pin_is_taken_off_by_another_thread() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let block = Block::open(Ref::Handle);
        let mine = Pinner::new(0);
        assert!(block.pin(&mine));
        let other = spawn(&block, |block| {
            block.read();
            assert!(block.unpin(&Pinner::new(1)), "the pin handed over is found");
        });
        let third = spawn(&block, |block| block.pin_read_unpin(&Pinner::new(0)));
        block.drop_handle();
        other.join().unwrap();
        third.join().unwrap();
        block.assert_freed_once();
    });
}

#[test]
fn loom_an_unpin_too_many_is_refused_while_others_pin() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let block = Block::open(Ref::Handle);
        assert!(block.pin(&Pinner::new(0)));
        assert!(block.unpin(&Pinner::new(0)));
        let other = spawn(&block, |block| assert!(!block.unpin(&Pinner::new(1))));
        block.read();
        other.join().unwrap();
        block.drop_handle();
        block.assert_freed_once();
    });
}

#[test]
fn loom_a_stale_pin_meets_the_next_life() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let block = Block::open(Ref::Handle);
        assert!(block.pin(&Pinner::new(0)));
        assert!(block.unpin(&Pinner::new(0)));
        let stale = spawn(&block, |block| {
            if block.pin(&Pinner::new(1)) {
                // The block may have been opened again, but then it is a live
                // buffer too.
                block.read();
                assert!(block.unpin(&Pinner::new(1)));
            }
        });
        block.drop_handle();
        if block.freed.load(ORDER) == 1 {
            block.slot.open(Ref::Handle, 0);
            block.slot.publish(LEN);
            block.read();
            block.drop_handle();
        }
        stale.join().unwrap();
        assert!(!block.slot.load().is_live());
        assert!(block.stripes.read().is_zero());
    });
}

const LEN: usize = 8;
const ORDER: crate::sync::atomic::Ordering = crate::sync::atomic::Ordering::SeqCst;
