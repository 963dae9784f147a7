//! A thread of the host's that works for the pool between its own waits. See
//! README.md, "Guests".

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    TaskPool, context, fences,
    shared::Shared,
    turn_runner::TurnRunner,
    worker::{CurrentWorker, Worker},
};
use crate::{
    clock::Instant,
    sync::{Mutex, lock},
};

/// A thread of the host's that runs, on itself, what it pushes.
///
/// Who waits for packets and pushes a task for each one wakes a worker each
/// time, as long as little comes in. To wake a thread costs several times what
/// a short task does. A guest runs the task where it was pushed, with a place
/// in the pool as a worker has it: its tasks are counted, charged and waited
/// for by a shutdown, and what it does not get to is there for the workers.
///
/// ```
/// use std::{sync::mpsc, thread};
/// use busyhour::pool::TaskPool;
///
/// let pool = TaskPool::builder().workers(2).build().unwrap();
/// let calls = pool.serializer("calls").build().unwrap();
/// let mut guest = pool.guest();
/// while pool.stats().idle_worker_count < 2 {
///     thread::yield_now();
/// }
/// let (sender, receiver) = mpsc::channel();
/// guest.run(|| calls.push(move || sender.send(thread::current().id()).unwrap()).unwrap());
/// assert_eq!(receiver.try_recv(), Ok(thread::current().id()));
/// ```
pub struct Guest {
    shared: Arc<Shared>,
    /// None in a simulation, and where all places are taken.
    place: Option<usize>,
    /// Until then it leaves everything to the workers.
    rests_until: Instant,
    /// A guest is a thread.
    _not_send: PhantomData<*const ()>,
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest")
            .field("pool", &self.shared.name)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl TaskPool {
    /// Makes this thread a guest of the pool, which does not keep the pool from
    /// ending. At most eight guests have a place at the same time; one more
    /// leaves all it pushes to the workers, as does one of a simulated pool.
    pub fn guest(&self) -> Guest {
        let shared = Arc::clone(self.shared());
        Guest {
            place: match shared.is_simulated() {
                true => None,
                false => shared.guests.take_slot(),
            },
            shared,
            rests_until: Instant::ZERO,
            _not_send: PhantomData,
        }
    }
}

impl Guest {
    /// Calls `gather`, which may push to the pool and its serializers, then
    /// runs what it pushed, on this thread, for about 200 µs, and to the end of
    /// the turn that it is in then.
    ///
    /// When `gather` pushed more than one thing, a worker is woken for the
    /// others. While no worker sleeps, all is left to the workers, as from any
    /// other thread; and so it is for a tenth of a second after a visit of more
    /// than a millisecond, since what the guest waits for had to wait meanwhile.
    ///
    /// `gather` must not wait for a task that it pushed but by `push_wait`:
    /// that task may be left to this very thread. Nor is it to wait for long,
    /// since a shutdown waits for it. Inside a task of the pool, and once a
    /// shutdown has begun, `gather` is called and nothing else.
    ///
    /// # Panics
    ///
    /// When `gather` does; what it pushed is left to the workers then. A panic
    /// of a task ends that task, and is counted.
    pub fn run(&mut self, gather: impl FnOnce()) {
        match self.place {
            Some(number) if self.may_begin() => self.run_at(number, gather),
            _ => gather(),
        }
    }

    /// Whether a push would have to wake a worker, and this thread may do its work.
    fn may_begin(&self) -> bool {
        let shared = &*self.shared;
        let rests = self.rests_until > Instant::ZERO && shared.clock.now() < self.rests_until;
        let is_of_use = shared.phase.is_open() && shared.sleepers.should_wake();
        is_of_use && !rests && !shared.is_inside()
    }

    fn run_at(&mut self, number: usize, gather: impl FnOnce()) {
        let shared = Arc::clone(&self.shared);
        let visit = Visit::begin(&shared, number);
        if !shared.phase.is_open() {
            // A shutdown began this moment, and may have seen the visit.
            drop(visit);
            return gather();
        }
        // SAFETY: the place is this guest's alone, and the guest stays on its thread.
        let ran = unsafe { context::as_worker(&shared, number, || visit.run(gather)) };
        drop(visit);
        if ran > LONG {
            self.rests_until = shared.clock.now() + REST;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(number) = self.place {
            self.shared.guests.leave(number);
        }
    }
}

/// A guest at work: a shutdown waits for its end, as for a worker's.
struct Visit<'a> {
    shared: &'a Shared,
    worker: &'a Worker,
}

impl<'a> Visit<'a> {
    /// The phase is to be looked at after this.
    fn begin(shared: &'a Shared, number: usize) -> Self {
        let worker = &shared.workers[number];
        worker.is_at_work.store(true, Ordering::SeqCst);
        fences::light();
        Self { shared, worker }
    }

    /// On a thread that is this worker; how long it took from the first task on.
    fn run(&self, gather: impl FnOnce()) -> Duration {
        let Some(current) = CurrentWorker::of(self.shared) else {
            return Duration::ZERO;
        };
        // What is pushed is noted as waiting since now.
        self.worker.published.set_now(self.shared.clock.now());
        context::gathering(gather);
        if self.worker.waiting_len() > 1 {
            self.shared.call_a_worker();
        }
        let mut turn_runner = TurnRunner::begin(self.shared, current);
        let began = turn_runner.now();
        loop {
            turn_runner.begin_turn();
            let is_over = turn_runner.now() - began > RUN_MAX || self.shared.is_sealed();
            if is_over || !turn_runner.run_next() {
                break;
            }
        }
        turn_runner.end();
        turn_runner.now() - began
    }
}

impl Drop for Visit<'_> {
    /// What is left is the workers'.
    fn drop(&mut self) {
        if self.worker.waiting_len() > 0 && self.shared.sleepers.should_wake() {
            self.shared.wake_one(None);
        }
        self.worker.is_at_work.store(false, Ordering::SeqCst);
        self.shared.after_a_visit();
    }
}

impl Shared {
    pub(super) fn guests_at_work(&self) -> usize {
        let places = self.workers.get(self.guests.first..).unwrap_or_default();
        let at_work = |worker: &&Worker| worker.is_at_work.load(Ordering::SeqCst);
        places.iter().filter(at_work).count()
    }

    /// A shutdown that found this guest at work waits to be told; and the pool
    /// of a last handle that is gone, to be sealed.
    fn after_a_visit(&self) {
        fences::light();
        if !self.phase.is_open() {
            self.after_falling_asleep(self.sleepers.asleep_len());
            self.notify_end();
        }
    }
}

/// Which of the guests' places are taken. They come after those of the workers.
#[derive(Debug)]
pub(super) struct Guests {
    first: usize,
    is_taken: Mutex<[bool; GUESTS_MAX]>,
}

impl Guests {
    pub(super) fn new(first: usize) -> Self {
        Self {
            first,
            is_taken: Mutex::new([false; GUESTS_MAX]),
        }
    }

    fn take_slot(&self) -> Option<usize> {
        let mut is_taken = lock(&self.is_taken);
        let index = is_taken.iter().position(|is_taken| !is_taken)?;
        is_taken[index] = true;
        Some(self.first + index)
    }

    fn leave(&self, number: usize) {
        lock(&self.is_taken)[number - self.first] = false;
    }
}

/// Guests that have a place.
pub(super) const GUESTS_MAX: usize = 8;
/// What the guest itself waits for is left waiting about so long.
const RUN_MAX: Duration = Duration::from_micros(200);
const LONG: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_millis(100);

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::{
        pool::phase::{Phase, PhaseCell},
        sync::atomic::AtomicBool,
    };
    use loom::sync::Arc;

    #[derive(Default)]
    struct Place {
        is_at_work: AtomicBool,
        ran: AtomicBool,
        told: AtomicBool,
    }

    /// The forbidden outcomes: a shutdown found no guest at work, and yet one
    /// runs something afterwards; or it found one, and is never told of its end.
    #[test]
    fn loom_a_shutdown_sees_a_guest_or_is_seen() {
        loom::model(|| {
            let phase = Arc::new(PhaseCell::open());
            let place = Arc::new(Place::default());
            let guest = {
                let (phase, place) = (Arc::clone(&phase), Arc::clone(&place));
                loom::thread::spawn(move || visit(&phase, &place))
            };
            phase.enter(Phase::Draining);
            fences::heavy();
            let is_quiet = !place.is_at_work.load(Ordering::SeqCst);
            let ran = place.ran.load(Ordering::SeqCst);
            guest.join().unwrap();
            if is_quiet {
                assert_eq!(
                    place.ran.load(Ordering::SeqCst),
                    ran,
                    "a task ran after quiet"
                );
            } else {
                assert!(place.told.load(Ordering::SeqCst), "nobody tells of the end");
            }
        });
    }

    /// As `Visit` does it.
    fn visit(phase: &PhaseCell, place: &Place) {
        place.is_at_work.store(true, Ordering::SeqCst);
        fences::light();
        if phase.is_open() {
            place.ran.store(true, Ordering::SeqCst);
        }
        place.is_at_work.store(false, Ordering::SeqCst);
        fences::light();
        if !phase.is_open() {
            place.told.store(true, Ordering::SeqCst);
        }
    }
}
