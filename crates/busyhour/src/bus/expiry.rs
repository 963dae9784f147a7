use super::{Event, hub::Hub};
use crate::{
    sync::SpinLock,
    task::Executor,
    timer::{AddError, TimerHandle, Timers},
};
use hashbrown::{HashTable, hash_table::Entry};
use std::{
    mem,
    sync::{Arc, Weak},
    time::Duration,
};

/// Clears keys whose time is over.
///
/// A timer names the key and the version of the event it was set for. When it
/// rings it clears the key only if that is still its last event: whoever
/// published a newer one meanwhile has decided anew.
pub(super) struct Expiry<E: Event> {
    timers: Timers,
    executor: Arc<dyn Executor>,
    /// The newest timer of each key, so that a refresh replaces it.
    pending: Box<[Table<E>]>,
}

type Table<E> = SpinLock<HashTable<Pending<E>>>;

struct Pending<E: Event> {
    hash: u64,
    key: E::Key,
    version: u64,
    timer: TimerHandle,
}

/// One event of which the time is limited.
pub(super) struct Limited<E: Event> {
    pub(super) shard: usize,
    pub(super) hash: u64,
    pub(super) key: E::Key,
    pub(super) version: u64,
}

impl<E: Event> Expiry<E> {
    /// Tables of pending timers, so that refreshing threads seldom meet.
    const TABLE_COUNT: usize = 16;

    pub(super) fn new(timers: &Timers, executor: Arc<dyn Executor>) -> Self {
        let table = |_| SpinLock::new(HashTable::new());
        Self {
            timers: timers.clone(),
            executor,
            pending: (0..Self::TABLE_COUNT).map(table).collect(),
        }
    }

    fn table(&self, shard: usize) -> &Table<E> {
        &self.pending[shard % Self::TABLE_COUNT]
    }

    /// Clears the key after `life` if its last event is still this one.
    pub(super) fn limit(
        &self,
        topic: Weak<Hub<E>>,
        limited: Limited<E>,
        life: Duration,
    ) -> Result<(), AddError> {
        let (hash, version, key) = (limited.hash, limited.version, limited.key.clone());
        // Locked before the timer is set, so that it cannot ring before it is
        // known here.
        let mut table = self.table(limited.shard).lock();
        let expire = move || {
            if let Some(topic) = topic.upgrade() {
                topic.expire(&limited);
            }
        };
        let timer = self.timers.timer().label("bus key").after(life);
        let timer = timer.on_shared(Arc::clone(&self.executor)).run(expire)?;
        let pending = Pending {
            hash,
            key,
            version,
            timer,
        };
        let superseded = remember(&mut table, pending);
        drop(table);
        if let Some(superseded) = superseded {
            let _too_late_is_fine = self.timers.cancel(&superseded);
        }
        Ok(())
    }

    /// The timer of this event has rung.
    pub(super) fn forget(&self, limited: &Limited<E>) {
        let mut table = self.table(limited.shard).lock();
        let is_it =
            |pending: &Pending<E>| pending.version == limited.version && pending.key == limited.key;
        if let Ok(found) = table.find_entry(limited.hash, is_it) {
            found.remove();
        }
        if table.capacity() > 4 * table.len().max(64) {
            table.shrink_to_fit(|pending| pending.hash);
        }
    }
}

/// Returns the timer that is not needed any more, the older of the two.
fn remember<E: Event>(table: &mut HashTable<Pending<E>>, new: Pending<E>) -> Option<TimerHandle> {
    let same_key = |old: &Pending<E>| old.hash == new.hash && old.key == new.key;
    match table.entry(new.hash, same_key, |pending| pending.hash) {
        Entry::Occupied(old) if old.get().version > new.version => Some(new.timer),
        Entry::Occupied(mut old) => Some(mem::replace(old.get_mut(), new).timer),
        Entry::Vacant(vacancy) => {
            vacancy.insert(new);
            None
        }
    }
}
