use super::slots::{Handle, Slots};
use crate::clock::Instant;
use std::collections::BTreeMap;

/// A pure timer queue: values that come due, in exact order.
///
/// Order is by deadline in nanoseconds, then by insertion; rescheduling counts
/// as a new insertion. The queue knows no clock: whoever owns the loop passes
/// `now`. Deadlines may lie in the past (they are due at once, the earliest
/// first), and `now` may go back (nothing is due then). A timer at
/// [`Instant::FAR_FUTURE`] is due only at that instant, that is, never.
///
/// ```
/// use busyhour::{clock::Instant, timer::Queue};
///
/// let at = Instant::from_nanos;
/// let mut queue = Queue::new();
/// let lunch = queue.add(at(12), "lunch");
/// queue.add(at(9), "meeting");
/// queue.add(at(18), "home");
/// assert_eq!(queue.next_deadline(), Some(at(9)));
///
/// queue.reschedule(lunch, at(13));
/// assert_eq!(queue.pop_due(at(12)), Some((at(9), "meeting")));
/// assert_eq!(queue.pop_due(at(12)), None);
/// assert_eq!(queue.cancel(lunch), Some("lunch"));
/// assert_eq!(queue.len(), 1);
/// ```
#[derive(Debug)]
pub struct Queue<T> {
    slots: Slots<Timer<T>>,
    order: BTreeMap<Key, u32>,
    sequence: u64,
}

/// Where a timer stands in the order; `None` while it is held.
#[derive(Debug)]
struct Timer<T> {
    key: Option<Key>,
    value: T,
}

type Key = (Instant, u64);

impl<T> Queue<T> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            slots: Slots::new(),
            order: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// Adds a timer.
    ///
    /// # Panics
    ///
    /// At 2³¹ timers.
    pub fn add(&mut self, deadline: Instant, value: T) -> Handle {
        let key = self.next_key(deadline);
        let timer = Timer {
            key: Some(key),
            value,
        };
        let handle = self.slots.claim(0, timer);
        self.order.insert(key, handle.slot());
        handle
    }

    /// Removes a timer, waiting or held; `None` if it has left before.
    pub fn cancel(&mut self, handle: Handle) -> Option<T> {
        let timer = self.slots.release(handle)?;
        if let Some(key) = timer.key {
            self.order.remove(&key);
        }
        Some(timer.value)
    }

    /// Gives a timer, waiting or held, another deadline; `false` if it has left before.
    pub fn reschedule(&mut self, handle: Handle, deadline: Instant) -> bool {
        let key = self.next_key(deadline);
        let Some(timer) = self.slots.get_mut(handle) else {
            return false;
        };
        if let Some(before) = timer.key.replace(key) {
            self.order.remove(&before);
        }
        self.order.insert(key, handle.slot());
        true
    }

    /// Takes the earliest timer if its deadline is not after `now`.
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        let (deadline, handle) = self.hold_due(now)?;
        let value = self.cancel(handle)?;
        Some((deadline, value))
    }

    /// Takes every timer that is due at `now`, in order, as the iterator is advanced.
    ///
    /// ```
    /// use busyhour::{clock::Instant, timer::Queue};
    ///
    /// let mut queue = Queue::new();
    /// (0..10).rev().for_each(|n| { queue.add(Instant::from_nanos(n), n); });
    /// let due: Vec<u64> = queue.drain_due(Instant::from_nanos(4)).map(|(_, n)| n).collect();
    /// assert_eq!(due, [0, 1, 2, 3, 4]);
    /// ```
    pub fn drain_due(&mut self, now: Instant) -> impl Iterator<Item = (Instant, T)> {
        std::iter::from_fn(move || self.pop_due(now))
    }

    /// Takes the earliest due timer out of the order but keeps it: it is
    /// *held*, found by its handle, until it is rescheduled or cancelled.
    pub fn hold_due(&mut self, now: Instant) -> Option<(Instant, Handle)> {
        let first = self.order.first_entry()?;
        let (deadline, _) = *first.key();
        if deadline > now {
            return None;
        }
        let handle = self.slots.handle(first.remove())?;
        self.slots.get_mut(handle)?.key = None;
        Some((deadline, handle))
    }

    /// The deadline of the earliest timer.
    pub fn next_deadline(&self) -> Option<Instant> {
        let ((deadline, _), _) = self.order.first_key_value()?;
        Some(*deadline)
    }

    /// When a waiting timer is due; `None` if it is held or has left.
    pub fn deadline(&self, handle: Handle) -> Option<Instant> {
        let (deadline, _) = self.slots.get(handle)?.key?;
        Some(deadline)
    }

    /// The value of a timer, waiting or held.
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.slots.get(handle).map(|timer| &timer.value)
    }

    /// The value of a timer, waiting or held, to change it.
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.slots.get_mut(handle).map(|timer| &mut timer.value)
    }

    /// Every timer, waiting or held, in no defined order.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        let timers = self.slots.iter();
        timers.map(|(handle, timer)| (handle, &timer.value))
    }

    /// The number of waiting timers, held ones left out.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no timer waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn next_key(&mut self, deadline: Instant) -> Key {
        self.sequence += 1;
        (deadline, self.sequence)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}
