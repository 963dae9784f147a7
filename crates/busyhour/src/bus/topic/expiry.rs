use crate::{
    bus::{Event, topic_inner::TopicInner},
    sync::SpinLock,
    task::Executor,
    timer::{AddError, TimerHandle, Timers},
};
use foldhash::fast::FixedState;
use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

/// Removes keys that have expired.
///
/// A timer stores the key and the version of its event. When it fires, it
/// removes the key only if that is still the key's last event; a newer event
/// has replaced the deadline.
///
/// A key is identified here by its slot in the topic's table, so that no key's
/// own code runs under the lock; neither does the timer service, whose hooks
/// are user code.
pub(in crate::bus) struct Expiry {
    timers: Timers,
    executor: Arc<dyn Executor>,
    /// The newest timer of each key, so that a newer event replaces it.
    pending: Box<[PendingExpiries]>,
}

type PendingExpiries = SpinLock<HashMap<SlotKey, Pending, FixedState>>;

/// A shard, and the version at which the key got its slot there.
pub(in crate::bus) type SlotKey = (usize, u64);

struct Pending {
    version: u64,
    /// `None` while it is being set.
    timer: Option<TimerHandle>,
}

/// An event with a limited time to live.
pub(in crate::bus) struct Limited<E: Event> {
    pub(in crate::bus) slot: SlotKey,
    pub(in crate::bus) key: E::Key,
    pub(in crate::bus) version: u64,
}

impl Expiry {
    /// Tables of pending timers: enough that threads that refresh keys seldom
    /// use the same one.
    const TABLE_COUNT: usize = 16;

    pub(in crate::bus) fn new(timers: &Timers, executor: Arc<dyn Executor>) -> Self {
        let table = |_| SpinLock::new(HashMap::default());
        Self {
            timers: timers.clone(),
            executor,
            pending: (0..Self::TABLE_COUNT).map(table).collect(),
        }
    }

    fn table(&self, (shard, _): SlotKey) -> &PendingExpiries {
        &self.pending[shard % Self::TABLE_COUNT]
    }

    /// Removes the key after `life` if its last event is still this one.
    pub(in crate::bus) fn limit<E: Event>(
        &self,
        topic: Weak<TopicInner<E>>,
        limited: Limited<E>,
        life: Duration,
    ) -> Result<(), AddError> {
        let (slot, version) = (limited.slot, limited.version);
        let Some(place) = self.announce(slot, version) else {
            return Ok(());
        };
        let expire = move || {
            if let Some(topic) = topic.upgrade() {
                topic.expire(&limited);
            }
        };
        let timer = self.timers.timer().label("bus key").after(life);
        let timer = timer.on_shared(Arc::clone(&self.executor)).unbounded();
        let timer = timer.run(expire)?;
        place.fill(timer);
        Ok(())
    }

    /// Records a timer before it is set, so that it cannot fire before it is
    /// known here; `None` if a newer event has been published already.
    fn announce(&self, slot: SlotKey, version: u64) -> Option<Announced<'_>> {
        let timer = None;
        let pending = Pending { version, timer };
        let superseded = match self.table(slot).lock().entry(slot) {
            Entry::Occupied(old) if old.get().version > version => return None,
            Entry::Occupied(mut old) => mem::replace(old.get_mut(), pending).timer,
            Entry::Vacant(vacancy) => {
                vacancy.insert(pending);
                None
            }
        };
        let announced = Announced {
            expiry: self,
            slot,
            version,
        };
        self.cancel_timer(superseded);
        Some(announced)
    }

    fn cancel_timer(&self, timer: Option<TimerHandle>) {
        if let Some(timer) = timer {
            let _too_late_is_fine = self.timers.cancel(&timer);
        }
    }

    /// The timer of this event has fired, or could not be set.
    pub(in crate::bus) fn forget(&self, slot: SlotKey, version: u64) {
        let is_it = |pending: &Pending| pending.version == version;
        let _forgotten = self.remove(slot, is_it);
    }

    /// The key of this slot was removed by the change with this version.
    pub(in crate::bus) fn cancel(&self, slot: SlotKey, version: u64) {
        let removed = self.remove(slot, |pending| pending.version < version);
        self.cancel_timer(removed.and_then(|pending| pending.timer));
    }

    fn remove(&self, slot: SlotKey, is_it: impl Fn(&Pending) -> bool) -> Option<Pending> {
        let mut table = self.table(slot).lock();
        if !table.get(&slot).is_some_and(is_it) {
            return None;
        }
        let removed = table.remove(&slot);
        if table.capacity() > 4 * table.len().max(64) {
            table.shrink_to_fit();
        }
        removed
    }
}

/// The right to record the timer of an event. If it is dropped without one,
/// also when a hook of the timer service panics, the entry is removed.
struct Announced<'a> {
    expiry: &'a Expiry,
    slot: SlotKey,
    version: u64,
}

impl Announced<'_> {
    /// The timer has been set. If it is no longer needed, or has fired already,
    /// it is cancelled.
    fn fill(self, timer: TimerHandle) {
        let mut table = self.expiry.table(self.slot).lock();
        let pending = table.get_mut(&self.slot);
        let pending = pending.filter(|pending| pending.version == self.version);
        let unneeded = match pending {
            Some(pending) => pending.timer.replace(timer),
            None => Some(timer),
        };
        drop(table);
        self.expiry.cancel_timer(unneeded);
        mem::forget(self);
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.expiry.forget(self.slot, self.version);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::task::{Rejected, Task};

    struct Nobody;

    impl Executor for Nobody {
        fn execute(&self, task: Task) -> Result<(), Rejected> {
            drop(task);
            Ok(())
        }
    }

    #[test]
    fn a_table_returns_its_memory_when_few_keys_are_left() {
        const COUNT: u64 = 10_000;
        let expiry = Expiry::new(&Timers::builder().build(), Arc::new(Nobody));
        let slot = |number| (0, number);
        let capacity = || expiry.table(slot(0)).lock().capacity();
        for number in 0..COUNT {
            let pending = Pending {
                version: 1,
                timer: None,
            };
            let mut table = expiry.table(slot(number)).lock();
            table.insert(slot(number), pending);
        }
        let full = capacity();
        expiry.cancel(slot(0), 1);
        expiry.forget(slot(0), 2);
        assert_eq!(expiry.table(slot(0)).lock().len() as u64, COUNT);
        for number in 0..COUNT / 2 {
            expiry.cancel(slot(number), 2);
            expiry.forget(slot(COUNT - 1 - number), 1);
            if number < COUNT / 4 {
                assert!(capacity() > full / 2, "most are still there");
            }
        }
        assert!(expiry.table(slot(0)).lock().is_empty());
        assert!(capacity() <= 4 * 64, "{} of {full}", capacity());
    }
}
