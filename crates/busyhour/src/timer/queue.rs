use super::{
    key::{Entry, Key},
    order::Order,
    place::{Place, Places},
    slots::{Handle, Slots},
};
use crate::clock::Instant;

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
    slots: Slots<T>,
    order: Order,
    sequence: u64,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            slots: Slots::new(),
            order: Order::new(),
            sequence: 0,
        }
    }

    /// Adds a timer.
    ///
    /// # Panics
    ///
    /// At 2³¹ timers.
    #[inline]
    pub fn add(&mut self, deadline: Instant, value: T) -> Handle {
        let handle = self.slots.claim(value);
        let entry = self.next_entry(deadline, handle);
        self.order.insert(entry, &mut self.slots);
        handle
    }

    /// Removes a timer, waiting or held; `None` if it has left before.
    #[inline]
    pub fn cancel(&mut self, handle: Handle) -> Option<T> {
        let place = self.slots.place(handle)?;
        let value = self.slots.release(handle);
        self.order.remove(handle.slot(), place, &mut self.slots);
        value
    }

    /// Gives a timer, waiting or held, another deadline; `false` if it has left before.
    pub fn reschedule(&mut self, handle: Handle, deadline: Instant) -> bool {
        let Some(place) = self.slots.place(handle) else {
            return false;
        };
        self.order.remove(handle.slot(), place, &mut self.slots);
        let entry = self.next_entry(deadline, handle);
        self.order.insert(entry, &mut self.slots);
        true
    }

    /// Takes the earliest timer if its deadline is not after `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        let entry = self.pop_entry(now)?;
        let value = self.slots.release_slot(entry.slot)?;
        Some((entry.key.deadline(), value))
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
        let entry = self.pop_entry(now)?;
        self.slots.put(entry.slot, Place::Held);
        let handle = self.slots.handle(entry.slot)?;
        Some((entry.key.deadline(), handle))
    }

    /// The deadline of the earliest timer, known at once.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.order.first().map(|entry| entry.key.deadline())
    }

    /// When a waiting timer is due; `None` if it is held or has left.
    pub fn deadline(&self, handle: Handle) -> Option<Instant> {
        let place = self.slots.place(handle)?;
        self.order.key(place).map(Key::deadline)
    }

    /// The value of a timer, waiting or held.
    #[inline]
    pub fn get(&self, handle: Handle) -> Option<&T> {
        self.slots.get(handle)
    }

    /// The value of a timer, waiting or held, to change it.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        self.slots.get_mut(handle)
    }

    /// Every timer, waiting or held, in no defined order.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.slots.iter()
    }

    /// The number of waiting timers, held ones left out.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether no timer waits.
    pub fn is_empty(&self) -> bool {
        self.order.len() == 0
    }

    #[inline]
    fn pop_entry(&mut self, now: Instant) -> Option<Entry> {
        let first = self.order.first()?;
        match first.key.deadline() <= now {
            true => self.order.pop(&mut self.slots),
            false => None,
        }
    }

    #[inline]
    fn next_entry(&mut self, deadline: Instant, handle: Handle) -> Entry {
        self.sequence += 1;
        let key = Key {
            deadline_ns: deadline.as_nanos(),
            sequence: self.sequence,
        };
        let slot = handle.slot();
        Entry { key, slot }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}
