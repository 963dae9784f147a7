use crate::bus::Event;
use foldhash::fast::FixedState;
use std::{
    fmt,
    hash::{BuildHasher, Hash},
    sync::Arc,
};

/// A property of events that indexes subscriptions by its value.
///
/// A thousand subscriptions with a
/// [predicate](crate::bus::SubscriptionBuilder::matching) run a thousand predicates
/// for each event. If they all compare the same property with a value of their
/// own ([`SubscriptionBuilder::having`](crate::bus::SubscriptionBuilder::having)),
/// the topic computes the property once per event and offers the event only to
/// the subscriptions with that value. They must all use one attribute, or
/// clones of it.
///
/// # Examples
///
/// ```
/// use busyhour::bus::{Attribute, Delivery, Event, Topic};
/// use std::sync::mpsc;
///
/// #[derive(Clone)]
/// struct Call { line: u32, state: &'static str }
/// impl Event for Call {
///     type Key = u32;
///     fn key(&self) -> &u32 { &self.line }
/// }
///
/// let state = Attribute::new(|call: &Call| call.state);
/// let calls = Topic::builder("calls").build();
/// let (sender, ringing) = mpsc::channel();
/// let _ringing = calls.subscribe().having(&state, "ringing").start(move |delivery| {
///     if let Delivery::Event(call, _) = delivery {
///         sender.send(call.line).unwrap();
///     }
/// });
/// assert_eq!(calls.publish(Call { line: 1, state: "ringing" }).delivered, 1);
/// assert_eq!(calls.publish(Call { line: 2, state: "up" }).delivered, 0);
/// assert_eq!(ringing.try_iter().collect::<Vec<_>>(), [1]);
/// ```
pub struct Attribute<E: Event, A> {
    of: Of<E, A>,
    probe: Arc<dyn Probe<E>>,
}

type Of<E, A> = Arc<dyn Fn(&E) -> A + Send + Sync>;

/// Computes the hash of an event's value of an attribute.
pub(in crate::bus) trait Probe<E>: Send + Sync {
    fn hash_of(&self, event: &E) -> u64;
}

/// One wanted value: its attribute, its hash, and whether an event has it.
pub(in crate::bus) struct Wanted<E> {
    pub(in crate::bus) probe: Arc<dyn Probe<E>>,
    pub(in crate::bus) hash: u64,
    pub(super) is_met: Arc<dyn Fn(&E) -> bool + Send + Sync>,
}

struct Hashed<E, A>(Of<E, A>);

impl<E: Event, A: Hash> Probe<E> for Hashed<E, A> {
    fn hash_of(&self, event: &E) -> u64 {
        hash_of_value(&(self.0)(event))
    }
}

impl<E: Event, A: Eq + Hash + Send + Sync + 'static> Attribute<E, A> {
    /// An attribute whose value `of` computes. It runs on the publisher's
    /// thread under no lock, and must return the same value for an event each
    /// time.
    pub fn new(of: impl Fn(&E) -> A + Send + Sync + 'static) -> Self {
        let of: Of<E, A> = Arc::new(of);
        let probe = Arc::new(Hashed(Arc::clone(&of)));
        Self { of, probe }
    }

    pub(in crate::bus) fn wanted(&self, value: A) -> Wanted<E> {
        let of = Arc::clone(&self.of);
        let hash = hash_of_value(&value);
        let is_met = Arc::new(move |event: &E| of(event) == value);
        let probe = Arc::clone(&self.probe);
        Wanted {
            probe,
            hash,
            is_met,
        }
    }
}

impl<E: Event, A> Clone for Attribute<E, A> {
    fn clone(&self) -> Self {
        Self {
            of: Arc::clone(&self.of),
            probe: Arc::clone(&self.probe),
        }
    }
}

impl<E: Event, A> fmt::Debug for Attribute<E, A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Attribute").finish_non_exhaustive()
    }
}

/// The same in every run, since the order in which subscriptions learn of a
/// removed key depends on it. Subscriptions whose values have the same hash
/// cost as much as predicates.
fn hash_of_value(value: &impl Hash) -> u64 {
    FixedState::with_seed(0).hash_one(value)
}
