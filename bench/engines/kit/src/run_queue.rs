//! The measurements and the report of `run-queue`.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    hint::black_box,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use crate::{Args, Output, cpu, spin::Spin};

/// The counts of the entities.
pub struct Switches {
    pub counts: Vec<u64>,
    pub spent: Duration,
}

impl Switches {
    /// Prints the lines; `pick_ns` is given if the engine can pick without running.
    pub fn report(&self, pick_ns: Option<f64>) {
        let total: u64 = self.counts.iter().sum();
        let mut output = Output::default();
        output.figure(
            "switch_ns",
            self.spent.as_nanos() as f64 / total.max(1) as f64,
        );
        if let Some(pick_ns) = pick_ns {
            output.figure("pick_ns", pick_ns);
        }
        output.figure("work_deviation_percent", self.deviation_percent());
        output.check("switches", total);
        output.check(
            "zero_work",
            self.counts.iter().filter(|count| **count == 0).count() as u64,
        );
        output.finish();
    }
}

impl Switches {
    /// The inequality of the shares: the standard deviation of the entities' counts, in
    /// percent of their mean.
    fn deviation_percent(&self) -> f64 {
        let count = self.counts.len().max(1) as f64;
        let mean = self.counts.iter().sum::<u64>() as f64 / count;
        let squares = self.counts.iter().map(|own| (*own as f64 - mean).powi(2));
        (squares.sum::<f64>() / count).sqrt() * 100.0 / mean.max(1.0)
    }
}

/// Picks and puts back in batches until `ms` have passed and every entity had one or two
/// turns; returns the ns for each. With `pick=0` it is left out.
pub fn time_picks(args: &Args, mut pick: impl FnMut() -> usize) -> Option<f64> {
    if args.optional("pick") == Some(0) {
        return None;
    }
    let (rq, ms) = (args.number("rq"), args.number("ms"));
    let mut counts = vec![0_u64; rq as usize];
    let (begin, mut total) = (Instant::now(), 0u64);
    while begin.elapsed() < Duration::from_millis(ms) || total < 2 * rq {
        for _ in 0..256 {
            counts[black_box(pick())] += 1;
        }
        total += 256;
    }
    black_box(counts);
    Some(begin.elapsed().as_nanos() as f64 / total as f64)
}

/// Whole switches over a structure that is only a run queue: each pick is a future, which
/// is polled and yields.
pub fn time_switches(rq: u64, ms: u64, mut pick: impl FnMut() -> usize) -> Switches {
    let counts: Vec<Rc<Cell<u64>>> = (0..rq).map(|_| Rc::default()).collect();
    let mut entities: Vec<_> = counts.iter().map(entity).collect();
    let mut context = Context::from_waker(Waker::noop());
    let (begin, mut total) = (Instant::now(), 0u64);
    while begin.elapsed() < Duration::from_millis(ms) || total < 2 * rq {
        for _ in 0..256 {
            let _ = entities[pick()].as_mut().poll(&mut context);
        }
        total += 256;
    }
    let spent = begin.elapsed();
    Switches {
        counts: counts.iter().map(|count| count.get()).collect(),
        spent,
    }
}

/// Turns of some microseconds each, and how long it took to choose whose is next.
pub struct Turns {
    pub counts: Vec<u64>,
    /// Processor time, where the system tells it: a turn is no longer because something
    /// else ran.
    pub spent: Duration,
    /// Of one choice, on average.
    pub choosing_ns: f64,
}

impl Turns {
    pub fn report(&self) {
        let total: u64 = self.counts.iter().sum();
        let mut output = Output::default();
        output.figure("choosing_ns", self.choosing_ns);
        output.figure(
            "turn_ns",
            self.spent.as_nanos() as f64 / total.max(1) as f64,
        );
        output.check("switches", total);
        output.check(
            "zero_work",
            self.counts.iter().filter(|count| **count == 0).count() as u64,
        );
        output.finish();
    }
}

/// Turns with work over a structure that is only a run queue: each pick is a future, which
/// works and yields. One pick in 64 is measured.
pub fn time_turns(args: &Args, mut pick: impl FnMut() -> usize) -> Turns {
    let (rq, ms) = (args.number("rq"), args.number("ms"));
    let work = Spin::calibrated(Duration::from_micros(args.number("work_us")));
    let clock = clock_cost();
    let counts: Vec<Rc<Cell<u64>>> = (0..rq).map(|_| Rc::default()).collect();
    let mut entities: Vec<_> = counts.iter().map(entity).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut samples = Vec::new();
    let (begin, mut total) = (Instant::now(), 0u64);
    let used = cpu::used();
    while begin.elapsed() < Duration::from_millis(ms) || total < 2 * rq {
        let before = Instant::now();
        let first = pick();
        samples.push(before.elapsed().saturating_sub(clock));
        for number in 0..64 {
            let picked = if number == 0 { first } else { pick() };
            let _ = entities[picked].as_mut().poll(&mut context);
            work.run();
        }
        total += 64;
    }
    Turns {
        spent: spent_since(begin, used),
        counts: counts.iter().map(|count| count.get()).collect(),
        choosing_ns: mean_ns(samples),
    }
}

/// The processor time since `used` was read, or the time since `begin`.
pub fn spent_since(begin: Instant, used: Option<Duration>) -> Duration {
    let spent = cpu::used().zip(used).map(|(now, before)| now - before);
    spent.unwrap_or_else(|| begin.elapsed())
}

/// Without the longest hundredth: in those the system ran something else.
fn mean_ns(mut samples: Vec<Duration>) -> f64 {
    samples.sort_unstable();
    samples.truncate(samples.len() - samples.len() / 100);
    let sum: Duration = samples.iter().sum();
    sum.as_nanos() as f64 / samples.len().max(1) as f64
}

/// What reading the clock twice takes.
fn clock_cost() -> Duration {
    let costs = (0..1000).map(|_| Instant::now().elapsed());
    costs.min().unwrap_or_default()
}

/// Counts its turns and yields, for ever.
fn entity(count: &Rc<Cell<u64>>) -> Pin<Box<dyn Future<Output = ()>>> {
    let count = Rc::clone(count);
    Box::pin(poll_fn(move |_| {
        count.set(count.get() + 1);
        Poll::Pending
    }))
}
