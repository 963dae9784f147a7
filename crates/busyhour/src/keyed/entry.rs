use std::{
    mem,
    sync::{Arc, Weak},
};

use super::rules::Rules;
use crate::{
    serializer::{ExclusiveFuture, LentState, Serializer, StatePlace},
    sync::{
        Mutex, MutexGuard, lock,
        runtime::atomic::{AtomicBool, AtomicUsize, Ordering},
        try_lock,
    },
    task::{Executor, Task},
    timer::TimerHandle,
};

/// A key with its serializer and its state.
pub(super) struct KeyEntry<K, S> {
    pub(super) key: K,
    pub(super) hash: u64,
    serializer: Serializer,
    /// Pushes, waiting tasks and running ones; or [`GONE`], from which nothing
    /// leads back.
    uses: AtomicUsize,
    /// Used since the timer looked.
    is_fresh: AtomicBool,
    /// Used since somebody looked for room.
    is_recent: AtomicBool,
    /// A task that evicts it is queued.
    is_leaving: AtomicBool,
    /// Only its serializer's tasks take it, so nobody waits for it. `None` until
    /// the first one.
    state: Mutex<Option<S>>,
    timer: Mutex<Option<TimerHandle>>,
    rules: Arc<Rules<K, S>>,
}

/// Evicted, or about to be removed from the table.
const GONE: usize = 1 << (usize::BITS - 1);

impl<K, S> KeyEntry<K, S> {
    /// A key that is in use once, for [`InUse::first`].
    pub(super) fn new(key: K, hash: u64, serializer: Serializer, rules: &Arc<Rules<K, S>>) -> Self {
        Self {
            key,
            hash,
            serializer,
            uses: AtomicUsize::new(1),
            is_fresh: AtomicBool::new(true),
            is_recent: AtomicBool::new(true),
            is_leaving: AtomicBool::new(false),
            state: Mutex::new(None),
            timer: Mutex::new(None),
            rules: Arc::clone(rules),
        }
    }

    /// `None` if the key was evicted.
    pub(super) fn enter(self: &Arc<Self>) -> Option<InUse<K, S>> {
        // Taken before it is looked at, so that whoever evicts sees this use, or this
        // sees that it was evicted.
        if self.uses.fetch_add(1, Ordering::Acquire) & GONE != 0 {
            self.uses.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.note_use();
        Some(InUse(Arc::clone(self)))
    }

    fn note_use(&self) {
        for flag in [&self.is_fresh, &self.is_recent] {
            if !flag.load(Ordering::Relaxed) {
                flag.store(true, Ordering::Relaxed);
            }
        }
    }

    fn is_in_use(&self) -> bool {
        self.uses.load(Ordering::Relaxed) != 0
    }

    /// Whether nobody would miss it now. A recent one is none from the next look
    /// on.
    pub(super) fn look_for_room(&self) -> Option<Recency> {
        if self.is_in_use() || self.is_leaving.load(Ordering::Relaxed) {
            return None;
        }
        match self.is_recent.swap(false, Ordering::Relaxed) {
            true => Some(Recency::Recent),
            false => Some(Recency::Old),
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<S>> {
        try_lock(&self.state).expect("tasks of a serializer run one at a time")
    }
}

/// Whether an idle key was used since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recency {
    Recent,
    Old,
}

impl<K, S> KeyEntry<K, S>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    /// Lets the timer look whether the key is idle.
    pub(super) fn watch(self: &Arc<Self>) {
        let Some(idle_after) = self.rules.idle_after else {
            return;
        };
        let weak = Arc::downgrade(self);
        let look = move || Self::look(&weak);
        let timer = (self.rules.timers.timer())
            .label("idle key")
            .after(idle_after);
        // A service that is closed or full finds no idle keys; it counts that.
        if let Ok(handle) = timer.on(&self.serializer).unbounded().run(look) {
            *lock(&self.timer) = Some(handle);
        }
    }

    /// Runs as a task of the serializer, as all that follows.
    fn look(weak: &Weak<Self>) {
        let Some(entry) = weak.upgrade() else { return };
        let _next = NextLook(&entry);
        let was_used = entry.is_fresh.swap(false, Ordering::Relaxed);
        if !was_used && !entry.is_in_use() {
            entry.evict();
        }
    }

    /// Evicts it behind what is queued, whether it is in use or not; `false` if
    /// its pool is shut down.
    pub(super) fn evict_soon(self: Arc<Self>) -> bool {
        let serializer = self.serializer.clone();
        let evict = Task::labelled(&"evict key", move || self.evict());
        serializer.execute_unbounded(evict).is_ok()
    }

    /// Evicts it unless it is used before.
    pub(super) fn evict_if_idle(self: Arc<Self>) {
        if self.is_leaving.swap(true, Ordering::Relaxed) {
            return;
        }
        let serializer = self.serializer.clone();
        let evict = Task::labelled(&"evict idle key", move || {
            self.is_leaving.store(false, Ordering::Relaxed);
            if !self.is_in_use() {
                self.evict();
            }
        });
        // A pool that is shut down drops all keys anyway.
        _ = serializer.execute_unbounded(evict);
    }

    fn evict(self: &Arc<Self>) {
        // Also if user code panics.
        let _end = EndOfEviction(self);
        // An expression of its own, so that the state is not held meanwhile.
        let state = self.state().take();
        match (&self.rules.on_evict, state) {
            (Some(on_evict), Some(state)) => on_evict(&self.key, state),
            (_, state) => drop(state),
        }
    }

    fn leave(self: &Arc<Self>) {
        let gone = (self.uses).compare_exchange(0, GONE, Ordering::AcqRel, Ordering::Relaxed);
        if gone.is_err() {
            return;
        }
        if let Some(table) = self.rules.table.upgrade() {
            table.remove(self);
        }
    }

    fn is_gone(&self) -> bool {
        self.uses.load(Ordering::Relaxed) & GONE != 0
    }
}

/// Lets the timer look again at a key that is still there, also if user code
/// panicked.
struct NextLook<'a, K, S>(&'a Arc<KeyEntry<K, S>>)
where
    K: Send + Sync + 'static,
    S: Send + 'static;

impl<K, S> Drop for NextLook<'_, K, S>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    fn drop(&mut self) {
        if !self.0.is_gone() {
            self.0.watch();
        }
    }
}

/// Removes an evicted key from the table; one that was used meanwhile stays.
struct EndOfEviction<'a, K, S>(&'a Arc<KeyEntry<K, S>>)
where
    K: Send + Sync + 'static,
    S: Send + 'static;

impl<K, S> Drop for EndOfEviction<'_, K, S>
where
    K: Send + Sync + 'static,
    S: Send + 'static,
{
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// With the table or with the last task.
impl<K, S> Drop for KeyEntry<K, S> {
    fn drop(&mut self) {
        if let Some(timer) = lock(&self.timer).take() {
            _ = self.rules.timers.cancel(&timer);
        }
    }
}

/// A key that is not evicted as long as this is there: in a push, in a task that
/// waits, or in one that runs.
pub(super) struct InUse<K, S>(Arc<KeyEntry<K, S>>);

impl<K, S> InUse<K, S> {
    /// The use that a new key begins with.
    pub(super) fn first(entry: Arc<KeyEntry<K, S>>) -> Self {
        Self(entry)
    }

    pub(super) fn serializer(&self) -> &Serializer {
        &self.0.serializer
    }

    pub(super) fn key(&self) -> &K {
        &self.0.key
    }

    /// Runs a task of the serializer on the state.
    pub(super) fn run<R>(self, f: impl FnOnce(&mut S) -> R) -> R {
        let entry = &*self.0;
        f(entry
            .state()
            .get_or_insert_with(|| (entry.rules.init)(&entry.key)))
    }
}

impl<K, S> InUse<K, S> {
    /// Takes the state for an exclusive section of the serializer.
    pub(super) fn lend(self) -> LentState<Self> {
        let entry = Arc::clone(&self.0);
        LentState::take(self, || (entry.rules.init)(&entry.key))
    }

    /// A future for an exclusive section of the serializer, with the state.
    pub(super) async fn exclusive<R, F>(self, f: F) -> R
    where
        F: for<'a> FnOnce(&'a mut S) -> ExclusiveFuture<'a, R>,
    {
        let mut state = self.lend();
        f(state.get_mut()).await
    }
}

/// One use more. There is one, so the key is not gone.
impl<K, S> Clone for InUse<K, S> {
    fn clone(&self) -> Self {
        self.0.uses.fetch_add(1, Ordering::Relaxed);
        self.0.note_use();
        Self(Arc::clone(&self.0))
    }
}

impl<K, S> StatePlace for InUse<K, S> {
    type State = S;

    fn place(&self) -> &Mutex<Option<S>> {
        &self.0.state
    }
}

impl<K, S> Drop for InUse<K, S> {
    fn drop(&mut self) {
        // What the task did comes before the eviction.
        self.0.uses.fetch_sub(1, Ordering::Release);
    }
}

const _: () = assert!(mem::size_of::<InUse<(), ()>>() == mem::size_of::<usize>());
