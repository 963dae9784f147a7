//! Checks in debug builds that a thread holds no shard's lock while it calls
//! user code.

use super::shard::TimerShardState;
use crate::{
    sync::{MutexGuard, thread_local},
    task,
};
use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
};

thread_local! {
    // The number of shards that this thread has locked; counted only in debug
    // builds. Loom's thread-local macro has no const initialiser.
    #[allow(clippy::missing_const_for_thread_local)]
    static HELD: Cell<u32> = Cell::new(0);
}

/// A shard's state under its lock.
pub(in crate::timer) struct LockedShard<'a>(MutexGuard<'a, TimerShardState>);

impl<'a> LockedShard<'a> {
    pub(in crate::timer) fn new(state: MutexGuard<'a, TimerShardState>) -> Self {
        change_count(1);
        Self(state)
    }
}

impl Drop for LockedShard<'_> {
    fn drop(&mut self) {
        change_count(-1);
    }
}

impl Deref for LockedShard<'_> {
    type Target = TimerShardState;

    #[inline]
    fn deref(&self) -> &TimerShardState {
        &self.0
    }
}

impl DerefMut for LockedShard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut TimerShardState {
        &mut self.0
    }
}

/// Asserts that no shard is locked, before a call of user code.
#[inline]
pub(super) fn assert_none() {
    debug_assert_eq!(
        HELD.with(Cell::get),
        0,
        "the user's code runs under no lock"
    );
}

/// Runs user code; `None` if it panicked.
#[inline]
pub(super) fn isolate<R>(foreign: impl FnOnce() -> R) -> Option<R> {
    assert_none();
    task::isolate(foreign)
}

#[inline]
fn change_count(by: i32) {
    if cfg!(debug_assertions) {
        HELD.with(|held| held.set(held.get().wrapping_add_signed(by)));
    }
}
