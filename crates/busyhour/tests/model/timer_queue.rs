//! The model of the timer queue: a plain list of all timers ever added, which
//! each operation scans completely.

use busyhour::{
    clock::Instant,
    timer::{QueueHandle, TimerQueue},
};

/// An operation on the queue; a timer is named by its position in the order of
/// adding.
#[derive(Debug, Clone, Copy)]
pub enum Operation {
    Add(u64),
    Cancel(usize),
    Reschedule(usize, u64),
    PopDue(u64),
    HoldDue(u64),
}

/// The queue beside its oracle: a plain list of all timers ever added.
#[derive(Default)]
pub struct Pair {
    queue: TimerQueue<usize>,
    naive: Vec<Naive>,
    sequence: u64,
}

struct Naive {
    handle: QueueHandle,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Waiting { deadline: u64, sequence: u64 },
    Held,
    Gone,
}

impl Pair {
    pub fn apply(&mut self, operation: &Operation) {
        self.sequence += 1;
        match operation {
            Operation::Add(deadline) => self.add(*deadline),
            Operation::Cancel(index) => self.cancel(*index),
            Operation::Reschedule(index, deadline) => self.reschedule(*index, *deadline),
            Operation::PopDue(now) => self.pop_due(*now),
            Operation::HoldDue(now) => self.hold_due(*now),
        }
    }

    fn add(&mut self, deadline: u64) {
        let number = self.naive.len();
        let handle = self.queue.add(Instant::from_nanos(deadline), number);
        let state = self.waiting(deadline);
        self.naive.push(Naive { handle, state });
    }

    fn cancel(&mut self, index: usize) {
        let Some(number) = self.any(index) else {
            return;
        };
        let naive = &mut self.naive[number];
        let expected = (naive.state != State::Gone).then_some(number);
        naive.state = State::Gone;
        assert_eq!(self.queue.cancel(naive.handle), expected);
    }

    fn reschedule(&mut self, index: usize, deadline: u64) {
        let Some(number) = self.any(index) else {
            return;
        };
        let state = self.waiting(deadline);
        let naive = &mut self.naive[number];
        let expected = naive.state != State::Gone;
        if expected {
            naive.state = state;
        }
        let moved = self
            .queue
            .reschedule(naive.handle, Instant::from_nanos(deadline));
        assert_eq!(moved, expected);
    }

    fn pop_due(&mut self, now: u64) {
        let expected = self.first_due(now);
        let popped = self.queue.pop_due(Instant::from_nanos(now));
        assert_eq!(popped.map(|(at, number)| (at.as_nanos(), number)), expected);
        if let Some((_, number)) = expected {
            self.naive[number].state = State::Gone;
        }
    }

    fn hold_due(&mut self, now: u64) {
        let expected = self.first_due(now);
        let held = self.queue.hold_due(Instant::from_nanos(now));
        let number = |handle| self.naive.iter().position(|naive| naive.handle == handle);
        let held = held.map(|(at, handle)| (at.as_nanos(), number(handle).unwrap()));
        assert_eq!(held, expected);
        if let Some((_, number)) = expected {
            self.naive[number].state = State::Held;
        }
    }

    fn first_due(&self, now: u64) -> Option<(u64, usize)> {
        self.first().filter(|&(deadline, _)| deadline <= now)
    }

    fn first(&self) -> Option<(u64, usize)> {
        let numbered = self.naive.iter().enumerate();
        let waiting = numbered.filter_map(|(number, naive)| match naive.state {
            State::Waiting { deadline, sequence } => Some((deadline, sequence, number)),
            State::Held | State::Gone => None,
        });
        waiting
            .min()
            .map(|(deadline, _, number)| (deadline, number))
    }

    fn waiting(&self, deadline: u64) -> State {
        let sequence = self.sequence;
        State::Waiting { deadline, sequence }
    }

    fn any(&self, index: usize) -> Option<usize> {
        (!self.naive.is_empty()).then(|| index % self.naive.len())
    }

    fn check_front(&self) {
        let next = self.queue.next_deadline().map(Instant::as_nanos);
        assert_eq!(next, self.first().map(|(deadline, _)| deadline));
    }

    pub fn check_all(&self) {
        let count = |wanted: fn(&State) -> bool| {
            self.naive
                .iter()
                .filter(|naive| wanted(&naive.state))
                .count()
        };
        assert_eq!(
            self.queue.len(),
            count(|state| matches!(state, State::Waiting { .. }))
        );
        assert_eq!(
            self.queue.iter().count(),
            count(|state| *state != State::Gone)
        );
        for (number, naive) in self.naive.iter().enumerate() {
            let present = (naive.state != State::Gone).then_some(&number);
            assert_eq!(self.queue.get(naive.handle), present);
            let deadline = match naive.state {
                State::Waiting { deadline, .. } => Some(Instant::from_nanos(deadline)),
                State::Held | State::Gone => None,
            };
            assert_eq!(self.queue.deadline(naive.handle), deadline);
        }
    }

    pub fn drain(&mut self) {
        while self.first().is_some() {
            self.pop_due(u64::MAX);
        }
        assert_eq!(self.queue.pop_due(Instant::FAR_FUTURE), None);
    }
}

/// Takes any bytes as operations; tests and fuzzer share this property.
pub fn hold(bytes: &[u8]) {
    let bits = |chunk: &[u8]| chunk.try_into().map(u64::from_le_bytes);
    let operations = bytes.chunks_exact(8).filter_map(|chunk| bits(chunk).ok());
    run(operations.map(Operation::decode));
}

/// Applies all operations, compares everything, and empties the queue. The queue
/// does not always look for its first timer before it is asked for it, so the
/// same is done again with a question after some operations only.
pub fn run(operations: impl IntoIterator<Item = Operation>) {
    let operations: Vec<Operation> = operations.into_iter().collect();
    for operations_a_question in [1, 6, usize::MAX] {
        let mut pair = Pair::default();
        for (operation, number) in operations.iter().zip(1..) {
            pair.apply(operation);
            if number % operations_a_question == 0 {
                pair.check_front();
            }
        }
        pair.check_front();
        pair.check_all();
        pair.drain();
        pair.check_all();
    }
}

impl Operation {
    /// Makes an operation of 64 bits, whatever they are. Deadlines are often
    /// equal, spread, or the smallest and largest ones.
    pub fn decode(bits: u64) -> Self {
        let index = (bits >> 8) as usize % 4096;
        let deadline = match bits >> 61 {
            0..=2 => (bits >> 32) % 50,
            3 | 4 => (bits >> 20) % 60_000_000_000,
            5 => 1 << ((bits >> 32) % 64),
            6 => u64::MAX - (bits >> 32) % 3,
            _ => bits.rotate_left(23),
        };
        match bits % 16 {
            0..=7 => Self::Add(deadline),
            8..=10 => Self::Cancel(index),
            11 | 12 => Self::Reschedule(index, deadline),
            13 | 14 => Self::PopDue(deadline),
            _ => Self::HoldDue(deadline),
        }
    }
}
