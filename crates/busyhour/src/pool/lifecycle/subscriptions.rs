use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::{Arc, Weak},
};

use crate::{
    sync::{Mutex, lock},
    task::Deliveries,
};

/// The subscriptions whose turns a pool runs, until the pool is sealed.
pub(crate) struct Subscriptions(Mutex<RegisteredSubscriptions>);

struct RegisteredSubscriptions {
    is_ended: bool,
    /// In the order of their creation, which is the same in every run of a
    /// simulation.
    by_number: BTreeMap<u64, Registration>,
    numbers: HashMap<usize, u64>,
    made: u64,
}

struct Registration {
    deliveries: Weak<dyn Deliveries>,
    /// The address of the serializer that runs its turns; 0 for the pool itself.
    owner: usize,
}

/// A subscription whose deliveries a shutdown dropped.
///
/// ```
/// use busyhour::{bus::{Event, Topic}, clock::Clock, pool::TaskPool};
/// use std::time::Duration;
///
/// #[derive(Clone)]
/// struct Tick(u32);
/// impl Event for Tick {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.0 }
/// }
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// let ticks = Topic::builder("ticks").build();
/// let _slow = ticks.subscribe().name("slow").on(&pool).start(|_| ());
/// _ = ticks.publish(Tick(1));
/// let report = pool.shutdown(Duration::ZERO);
/// assert_eq!((&*report.undelivered[0].subscription, report.undelivered[0].count), ("slow", 1));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// The subscription's name; empty if it was given none.
    pub subscription: String,
    /// Deliveries dropped.
    pub count: u64,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self(Mutex::new(RegisteredSubscriptions {
            is_ended: false,
            by_number: BTreeMap::new(),
            numbers: HashMap::new(),
            made: 0,
        }))
    }
}

impl Subscriptions {
    /// `false` if the pool is sealed, or its owner `is_closed`; checked under
    /// the lock, so that a thread that ends an owner's deliveries finds all of
    /// them.
    pub(crate) fn register(
        &self,
        deliveries: Weak<dyn Deliveries>,
        owner: usize,
        is_closed: impl FnOnce() -> bool,
    ) -> bool {
        let mut registered = lock(&self.0);
        if registered.is_ended || is_closed() {
            return false;
        }
        let (number, address) = (registered.made, deliveries.as_ptr().addr());
        registered.made += 1;
        registered.numbers.insert(address, number);
        let registration = Registration { deliveries, owner };
        registered.by_number.insert(number, registration);
        true
    }

    pub(crate) fn unregister(&self, deliveries: *const ()) {
        let mut registered = lock(&self.0);
        let number = registered.numbers.remove(&deliveries.addr());
        let gone = number.and_then(|number| registered.by_number.remove(&number));
        if registered.numbers.capacity() > 4 * registered.numbers.len().max(16) {
            registered.numbers.shrink_to_fit();
        }
        drop(registered);
        drop(gone);
    }

    /// Ends them all after the pool was sealed, and returns those that lost
    /// deliveries. `isolate` catches panics.
    pub(in crate::pool) fn end(&self, isolate: impl Fn(&mut dyn FnMut())) -> Vec<Undelivered> {
        let mut registered = lock(&self.0);
        registered.is_ended = true;
        registered.numbers = HashMap::new();
        let all = mem::take(&mut registered.by_number);
        drop(registered);
        end_all(all, isolate)
    }

    /// Ends those of closed owners.
    pub(crate) fn end_of(
        &self,
        owners: &HashSet<usize>,
        isolate: impl Fn(&mut dyn FnMut()),
    ) -> Vec<Undelivered> {
        let mut registered = lock(&self.0);
        let all = mem::take(&mut registered.by_number);
        let (ended, kept) = all
            .into_iter()
            .partition(|(_, registration)| owners.contains(&registration.owner));
        registered.by_number = kept;
        let known = |number: &u64| !BTreeMap::contains_key(&ended, number);
        registered.numbers.retain(|_, number| known(number));
        drop(registered);
        end_all(ended, isolate)
    }
}

fn end_all(
    all: BTreeMap<u64, Registration>,
    isolate: impl Fn(&mut dyn FnMut()),
) -> Vec<Undelivered> {
    let mut undelivered = Vec::new();
    let living = all
        .values()
        .filter_map(|registration| registration.deliveries.upgrade());
    for deliveries in living {
        let mut ended = Some(deliveries);
        isolate(&mut || undelivered.extend(ended.take().and_then(end)));
    }
    undelivered
}

fn end(deliveries: Arc<dyn Deliveries>) -> Option<Undelivered> {
    let subscription = deliveries.name();
    let count = deliveries.end();
    (count > 0).then_some(Undelivered {
        subscription,
        count,
    })
}
