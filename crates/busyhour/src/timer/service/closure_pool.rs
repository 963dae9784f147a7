use crate::{
    sync::{Mutex, lock, try_lock},
    task::Closure,
};

/// A callback that does not fit a record, in memory that is used again.
pub(in crate::timer) type PooledClosure = Box<Option<Closure>>;

/// Memory for the callbacks of a shard that do not fit their records.
///
/// Its lock is held for a few instructions, or while the list of spare memory grows, which it
/// does a dozen times at most, and under no other lock. No closure is run or dropped under it.
pub(in crate::timer) struct ClosurePool {
    /// Each holds `None`.
    spare: Mutex<Vec<PooledClosure>>,
}

impl ClosurePool {
    pub(super) fn new() -> Self {
        Self {
            spare: Mutex::new(Vec::new()),
        }
    }

    pub(in crate::timer) fn hold(&self, closure: Closure) -> PooledClosure {
        let spare = lock(&self.spare).pop();
        let mut held = spare.unwrap_or_default();
        *held = Some(closure);
        held
    }

    /// Takes memory back whose closure was taken out.
    pub(super) fn give_back(&self, spare: PooledClosure) {
        debug_assert!(spare.is_none(), "a closure is not dropped under a lock");
        if let Some(mut spares) = try_lock(&self.spare) {
            if spares.len() < SPARE_MAX {
                spares.push(spare);
            }
        }
    }
}

/// A quarter of a megabyte.
const SPARE_MAX: usize = 4096;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_a_burst_is_returned() {
        let pool = ClosurePool::new();
        let mut held = pool.hold(Closure::new(|| ()));
        let place = std::ptr::from_ref(&*held);
        assert!(held.take().is_some());
        pool.give_back(held);
        assert_eq!(std::ptr::from_ref(&*pool.hold(Closure::new(|| ()))), place);
        (0..2 * SPARE_MAX).for_each(|_| pool.give_back(PooledClosure::default()));
        assert_eq!(lock(&pool.spare).len(), SPARE_MAX);
    }
}
