use super::{
    entry::{NoneDead, TimerEntry},
    order::DeadlineOrder,
    range_timer::RangeTimer,
    ranges::RangeKey,
    slots::{QueueHandle, TimerSlots},
};
use crate::clock::Instant;
use std::ops::Range;

/// A pure timer queue: returns values when they are due, in exact order.
///
/// Order is by deadline in nanoseconds, then by insertion; rescheduling counts
/// as a new insertion. The queue knows no clock: the owner of the loop passes
/// `now`. Deadlines may lie in the past (they are due at once, the earliest
/// first), and `now` may go back (nothing is due then). A timer at
/// [`Instant::FAR_FUTURE`] is due only at that instant, that is, never.
///
/// ```
/// use busyhour::{clock::Instant, timer::TimerQueue};
///
/// let at = Instant::from_nanos;
/// let mut queue = TimerQueue::new();
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
#[doc(alias("DelayQueue", "timer heap"))]
#[derive(Debug)]
pub struct TimerQueue<T> {
    slots: TimerSlots<T>,
    order: DeadlineOrder,
}

impl<T> TimerQueue<T> {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            slots: TimerSlots::new(),
            order: DeadlineOrder::new(),
        }
    }

    /// Adds a timer.
    ///
    /// # Panics
    ///
    /// At 2³⁰ timers.
    #[inline]
    pub fn add(&mut self, deadline: Instant, value: T) -> QueueHandle {
        let deadline_ns = deadline.as_nanos();
        if self.order.is_late(deadline_ns) {
            if let Some(fresh) = self.slots.fresh() {
                let (handle, key, is_full) = fresh.fill(deadline_ns, value);
                let entry = TimerEntry::new(deadline_ns, handle.slot(), handle.claimed());
                if self.order.grow_range(entry, key) && !is_full {
                    return handle;
                }
                return self.end_range_or_chunk(handle, key, is_full);
            }
        }
        self.add_entry(deadline, value)
    }

    /// Begins a range with a slot that was just claimed, unless it is in one, and
    /// closes the chunk if that was its last slot. The one call of an add in a
    /// range, at its end: so the others save no registers.
    #[inline(never)]
    fn end_range_or_chunk(
        &mut self,
        handle: QueueHandle,
        key: RangeKey,
        is_full: bool,
    ) -> QueueHandle {
        let begins = self.order.begin_range(key, handle.slot());
        if is_full {
            self.slots.close_chunk();
        }
        if begins {
            self.range_began();
        }
        handle
    }

    #[inline(never)]
    fn add_entry(&mut self, deadline: Instant, value: T) -> QueueHandle {
        if self.slots.began_chunk() {
            return self.add(deadline, value);
        }
        let (handle, entry) = self.slots.claim(deadline.as_nanos(), value);
        self.order.insert(entry);
        handle
    }

    /// Removes a timer, waiting or held; `None` if it has left before.
    #[inline]
    pub fn cancel(&mut self, handle: QueueHandle) -> Option<T> {
        let Some(value) = self.slots.release_in_range(handle) else {
            return self.cancel_rarely(handle);
        };
        self.note_range_release(handle);
        Some(value)
    }

    /// A timer that waits in its slot, not in an entry, among others; `None` for any other. Once it was
    /// released, [`TimerQueue::note_range_release`] must follow.
    #[inline(always)]
    pub(in crate::timer) fn in_range(&mut self, handle: QueueHandle) -> Option<RangeTimer<'_, T>> {
        self.slots.in_range(handle)
    }

    #[inline(always)]
    pub(in crate::timer) fn note_range_release(&mut self, handle: QueueHandle) {
        if self.is_time_to_tidy(handle) {
            self.tidy();
        }
    }

    /// What `release_in_range` leaves: a timer that waits in an entry or is held, one whose chunk
    /// was full or has no other, one whose slot is near its last stamp, and a handle out of date.
    #[inline(never)]
    fn cancel_rarely(&mut self, handle: QueueHandle) -> Option<T> {
        let (value, release) = self.slots.release(handle)?;
        self.slots.note_release(handle.slot(), release);
        if self.is_time_to_tidy(handle) || self.slots.occupied() == 0 {
            self.tidy();
        }
        Some(value)
    }

    /// Gives a timer, waiting or held, another deadline; `false` if it has left before.
    pub fn reschedule(&mut self, handle: QueueHandle, deadline: Instant) -> bool {
        let Some(waited) = self.slots.waits(handle) else {
            return false;
        };
        if self.slots.is_worn(handle) {
            self.renew(handle);
        }
        let Some(entry) = self.slots.wait(handle, deadline.as_nanos()) else {
            return false;
        };
        self.order.insert(entry);
        if waited.is_some() {
            self.slots.tidy_earlier();
            if self.is_time_to_tidy(handle) {
                self.tidy();
            }
        }
        true
    }

    /// Takes the earliest timer if its deadline is not after `now`.
    #[inline]
    pub fn pop_due(&mut self, now: Instant) -> Option<(Instant, T)> {
        let entry = self.pop_entry(now)?;
        let value = self.slots.release_entry(entry)?;
        self.find_first();
        Some((Instant::from_nanos(entry.deadline_ns), value))
    }

    /// Takes every timer that is due at `now`, in order, as the iterator is advanced.
    ///
    /// ```
    /// use busyhour::{clock::Instant, timer::TimerQueue};
    ///
    /// let mut queue = TimerQueue::new();
    /// (0..10).rev().for_each(|n| { queue.add(Instant::from_nanos(n), n); });
    /// let due: Vec<u64> = queue.drain_due(Instant::from_nanos(4)).map(|(_, n)| n).collect();
    /// assert_eq!(due, [0, 1, 2, 3, 4]);
    /// ```
    pub fn drain_due(&mut self, now: Instant) -> impl Iterator<Item = (Instant, T)> {
        std::iter::from_fn(move || self.pop_due(now))
    }

    /// Takes the earliest due timer out of the order but keeps its value: the
    /// timer is *held*, and can be found by its handle, until it is rescheduled
    /// or cancelled.
    pub fn hold_due(&mut self, now: Instant) -> Option<(Instant, QueueHandle)> {
        let entry = self.pop_entry(now)?;
        let handle = self.slots.hold_entry(entry)?;
        // It waits no longer, like a timer whose slot is released.
        self.slots.tidy_earlier();
        self.find_first();
        Some((Instant::from_nanos(entry.deadline_ns), handle))
    }

    /// The deadline of the earliest timer.
    ///
    /// It is known at once, except after the earliest of up to some 16,000
    /// timers was cancelled: then it is looked for among all timers that are there when
    /// it is asked for, seldom more than once until the queue is empty again.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        let first = self.order.first(&self.slots)?;
        Some(Instant::from_nanos(first.deadline_ns))
    }

    /// The deadline of a waiting timer; `None` if it is held or has left.
    pub fn deadline(&self, handle: QueueHandle) -> Option<Instant> {
        self.slots.waits(handle)?.map(Instant::from_nanos)
    }

    /// The value of a timer, waiting or held.
    #[inline]
    pub fn get(&self, handle: QueueHandle) -> Option<&T> {
        self.slots.get(handle)
    }

    /// Mutable access to the value of a timer, waiting or held.
    #[inline]
    pub fn get_mut(&mut self, handle: QueueHandle) -> Option<&mut T> {
        self.slots.get_mut(handle)
    }

    /// Every timer, waiting or held, in no defined order.
    pub fn iter(&self) -> impl Iterator<Item = (QueueHandle, &T)> {
        self.slots.iter()
    }

    /// The timers in a range of slots, waiting or held. A timer stays in its
    /// slot until it leaves.
    pub(in crate::timer) fn iter_slots(
        &self,
        slots: Range<u32>,
    ) -> impl Iterator<Item = (QueueHandle, &T)> {
        self.slots.iter_slots(slots)
    }

    /// One more than the last slot.
    pub(in crate::timer) fn slot_end(&self) -> u32 {
        self.slots.end()
    }

    /// The number of waiting timers, without held ones.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.waiting()
    }

    /// Whether no timer waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // `inline(always)` here and below, since a program that both takes and holds timers, as the C interface does, has two callers of
    // each, and an expiry would then return its entry through memory.
    #[inline(always)]
    fn pop_entry(&mut self, now: Instant) -> Option<TimerEntry> {
        if self.order.is_unsorted() {
            if self.next_deadline()? > now {
                return None;
            }
            _ = self.sort_first();
        }
        self.order.pop_until(now.as_nanos())
    }

    /// Finds the earliest timer after the previous one was taken.
    #[inline(always)]
    fn find_first(&mut self) {
        let has_first = self.sort_first();
        if self.slots.is_time_to_tidy() || !has_first {
            self.tidy();
        }
    }

    /// Moves the earliest timer to the end of the run, where it can be popped; whether
    /// there is one.
    #[inline]
    fn sort_first(&mut self) -> bool {
        // If there are as many entries as timers with one, none is dead, and no
        // slot needs to be checked.
        match self.order.len() == self.slots.with_entry() {
            true => self.order.find_first(&mut NoneDead(&mut self.slots)),
            false => self.order.find_first(&mut self.slots),
        }
    }

    /// Counts a new range like a dead entry, since it takes as much memory.
    #[cold]
    fn range_began(&mut self) {
        self.slots.tidy_earlier();
        if self.slots.is_time_to_tidy() {
            self.tidy();
        }
    }

    /// Whether the order must be updated after the timer of `handle`, or an entry
    /// of it, has left or died.
    #[inline]
    fn is_time_to_tidy(&self, handle: QueueHandle) -> bool {
        self.slots.is_time_to_tidy() || self.order.is_first(handle.slot())
    }

    /// Finds the earliest timer if the previous one has died, and drops dead
    /// entries if there are many. The next time is chosen so that the work is
    /// paid for by the timers that left.
    #[cold]
    fn tidy(&mut self) {
        let len = self.len();
        let dead = self.order.len() + self.order.range_count() - self.slots.with_entry();
        let dead_max = DEAD_RATIO * len + DEAD_MIN;
        if len == 0 {
            self.order.clear();
        } else if dead > dead_max || self.order.listed_count() > LISTED_RATIO * dead_max {
            self.order.purge(&mut self.slots);
        } else {
            self.order.replace_first(&mut self.slots);
        }
        // Each cancel adds one dead entry at most and removes one timer, and each
        // new range counts as one.
        let until_many_dead = dead_max.saturating_sub(dead) / (DEAD_RATIO + 1);
        self.slots.tidy_after(until_many_dead.max(1));
    }

    /// Drops all dead entries, so that no entry has a stamp of this timer and
    /// its slot may reuse them.
    #[cold]
    fn renew(&mut self, handle: QueueHandle) {
        self.slots.stop_waiting(handle);
        self.order.purge(&mut self.slots);
        self.slots.restart(handle);
    }
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Dead entries are dropped once there are this many times more than waiting
/// timers, so that the entries of a timer take less than 50 bytes.
const DEAD_RATIO: usize = 2;
const DEAD_MIN: usize = 256;
/// A slot in a list takes a quarter of the memory of an entry.
const LISTED_RATIO: usize = 4;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::{prelude::*, sample::Index};
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicUsize, Ordering},
    };

    /// The queue beside an ordered map, with both ways to cancel.
    #[derive(Default)]
    struct Pair {
        queue: TimerQueue<usize>,
        /// By deadline and sequence: the number of the timer.
        waiting: BTreeMap<(u64, usize), usize>,
        /// The handle of each timer, and its key while it waits; `None` once it has left.
        timers: Vec<(QueueHandle, Option<Place>)>,
        sequence: usize,
        cancelled_in_range: usize,
    }

    #[derive(Debug, Clone, Copy)]
    enum Place {
        Waiting(u64, usize),
        Held,
    }

    #[derive(Debug, Clone)]
    enum Operation {
        Add(Vec<u64>),
        Cancel(Index),
        /// As the service does, which looks at the timer first.
        CancelInRange(Index),
        Reschedule(Index, u64),
        PopDue(u64),
        HoldDue(u64),
    }

    impl Pair {
        fn apply(&mut self, operation: &Operation) {
            self.sequence += 1;
            match operation {
                Operation::Add(deadlines) => deadlines.iter().for_each(|at| self.add(*at)),
                Operation::Cancel(index) => self.cancel(*index, TimerQueue::cancel),
                Operation::CancelInRange(index) => {
                    let mut is_in_range = false;
                    self.cancel(*index, |queue, handle| {
                        let Some(timer) = queue.in_range(handle) else {
                            return queue.cancel(handle);
                        };
                        let value = timer.release();
                        queue.note_range_release(handle);
                        is_in_range = true;
                        Some(value)
                    });
                    self.cancelled_in_range += usize::from(is_in_range);
                }
                Operation::Reschedule(index, at) => self.reschedule(*index, *at),
                Operation::PopDue(now) => {
                    let due = self.take_due(*now, None);
                    let popped = self.queue.pop_due(Instant::from_nanos(*now));
                    assert_eq!(popped.map(|(at, number)| (at.as_nanos(), number)), due);
                }
                Operation::HoldDue(now) => {
                    let due = self.take_due(*now, Some(Place::Held));
                    let due = due.map(|(at, number)| (at, self.timers[number].0));
                    let held = self.queue.hold_due(Instant::from_nanos(*now));
                    assert_eq!(held.map(|(at, handle)| (at.as_nanos(), handle)), due);
                }
            }
        }

        fn add(&mut self, at: u64) {
            self.sequence += 1;
            let number = self.timers.len();
            let handle = self.queue.add(Instant::from_nanos(at), number);
            let place = Place::Waiting(at, self.sequence);
            self.timers.push((handle, Some(place)));
            self.waiting.insert((at, self.sequence), number);
        }

        fn cancel(
            &mut self,
            index: Index,
            cancel: impl FnOnce(&mut TimerQueue<usize>, QueueHandle) -> Option<usize>,
        ) {
            if self.timers.is_empty() {
                return;
            }
            let number = index.index(self.timers.len());
            let (handle, place) = &mut self.timers[number];
            let expected = place.map(|_| number);
            if let Some(Place::Waiting(at, sequence)) = place.take() {
                self.waiting.remove(&(at, sequence));
            }
            assert_eq!(cancel(&mut self.queue, *handle), expected);
            assert_eq!(self.queue.get(*handle), None);
        }

        fn reschedule(&mut self, index: Index, at: u64) {
            if self.timers.is_empty() {
                return;
            }
            let number = index.index(self.timers.len());
            let (handle, place) = &mut self.timers[number];
            let moved = self.queue.reschedule(*handle, Instant::from_nanos(at));
            assert_eq!(moved, place.is_some());
            if let Some(Place::Waiting(at, sequence)) = place {
                self.waiting.remove(&(*at, *sequence));
            }
            if moved {
                *place = Some(Place::Waiting(at, self.sequence));
                self.waiting.insert((at, self.sequence), number);
            }
        }

        fn take_due(&mut self, now: u64, place: Option<Place>) -> Option<(u64, usize)> {
            let first = self
                .waiting
                .first_entry()
                .filter(|first| first.key().0 <= now)?;
            let ((at, _), number) = first.remove_entry();
            self.timers[number].1 = place;
            Some((at, number))
        }

        fn check(&self) {
            let first = self.waiting.first_key_value();
            let first = first.map(|(key, _)| Instant::from_nanos(key.0));
            assert_eq!(self.queue.next_deadline(), first);
            assert_eq!(self.queue.len(), self.waiting.len());
        }
    }

    fn deadline() -> impl Strategy<Value = u64> {
        prop_oneof![
            3 => 0..50u64,
            4 => 0..60_000_000_000u64,
            1 => any::<u64>(),
        ]
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            2 => prop::collection::vec(deadline(), 1..100).prop_map(Operation::Add),
            8 => any::<Index>().prop_map(Operation::Cancel),
            40 => any::<Index>().prop_map(Operation::CancelInRange),
            4 => (any::<Index>(), deadline()).prop_map(|(n, at)| Operation::Reschedule(n, at)),
            2 => deadline().prop_map(Operation::PopDue),
            1 => deadline().prop_map(Operation::HoldDue),
        ]
    }

    #[test]
    fn timers_that_are_cancelled_as_the_service_does_agree_with_a_map() {
        let cancelled_in_range = AtomicUsize::new(0);
        let operations = prop::collection::vec(operation(), 1..1_000);
        proptest!(ProptestConfig::with_cases(64), |(operations in operations)| {
            for operations_a_question in [1, 6, usize::MAX] {
                let mut pair = Pair::default();
                for (operation, number) in operations.iter().zip(1..) {
                    pair.apply(operation);
                    if number % operations_a_question == 0 {
                        pair.check();
                    }
                }
                while !pair.waiting.is_empty() {
                    pair.apply(&Operation::PopDue(u64::MAX));
                    pair.check();
                }
                cancelled_in_range.fetch_add(pair.cancelled_in_range, Ordering::Relaxed);
            }
        });
        let cancelled_in_range = cancelled_in_range.into_inner();
        assert!(cancelled_in_range > 1_000, "{cancelled_in_range} that way");
    }

    #[test]
    fn a_timer_that_has_used_up_its_stamps_is_moved_on() {
        let at = Instant::from_nanos;
        let mut queue = TimerQueue::new();
        let others: Vec<QueueHandle> = (0..100).map(|n| queue.add(at(n * 2), n)).collect();
        let mover = queue.add(at(3), 1000);
        for n in 0..5 {
            queue.slots.wear(mover);
            assert!(queue.reschedule(mover, at(n * 30 + 1)));
            assert_eq!(queue.deadline(mover), Some(at(n * 30 + 1)));
            assert_eq!(queue.len(), 101);
        }
        assert_eq!(queue.cancel(others[7]), Some(7));
        let due: Vec<u64> = queue.drain_due(at(121)).map(|(_, n)| n).collect();
        let expected = (0..61).filter(|&n| n != 7).chain([1000]);
        assert_eq!(due, expected.collect::<Vec<_>>());
        assert_eq!(queue.len(), 39);
    }
}
