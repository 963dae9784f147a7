//! What the library does on more processors than this machine has: a model of the
//! cache lines that an operation writes, run in virtual time.
//!
//! ```sh
//! cargo run --release --package busyhour --example contention -- 1 2 8 32 128
//! ```
//!
//! A line belongs to the processor that wrote it last. Another one that wants it
//! waits until it is free, and then for its move. What an operation does beside that
//! is a number of nanoseconds, measured on one processor or estimated (`USES`). So the model
//! says what grows with the processors and what does not; it is no forecast.
//! `MEASURED.md` of the module `pool`, "More processors", has its table, what it
//! leaves out, and what was measured beside it.

use std::{cmp::Reverse, collections::BinaryHeap, env, process::exit};

fn main() {
    let counts: Result<Vec<usize>, _> = env::args().skip(1).map(|word| word.parse()).collect();
    let counts = match counts {
        Ok(counts) if counts.is_empty() => vec![1, 2, 8, 32, 128],
        Ok(counts)
            if counts
                .iter()
                .all(|count| (1..=PROCESSORS_MAX).contains(count)) =>
        {
            counts
        }
        _ => {
            eprintln!("usage: contention [PROCESSORS...], each from 1 to {PROCESSORS_MAX}");
            exit(2)
        }
    };
    print!("{:64}", "million operations a second (lines moved by one)");
    counts.iter().for_each(|count| print!(" {count:>13}"));
    println!();
    for operation in USES {
        print!("{:64}", operation.what);
        for count in &counts {
            let outcome = ManyProcessors::new(*count).run(operation, END_NS);
            print!(" {:>7.1} ({:.1})", outcome.mops, outcome.moves_each);
        }
        println!();
    }
}

/// One thing that every processor does again and again.
struct ContendedUse {
    what: &'static str,
    steps: &'static [LineStep],
}

#[derive(Clone, Copy)]
enum LineStep {
    /// Nanoseconds that touch no shared line.
    Work(u64),
    /// Reads a line.
    Read(WhichLine),
    /// Writes a line.
    Write(WhichLine),
    /// Takes the lock in a line, works for so long, and leaves it.
    Hold(WhichLine, u64),
}

/// Which line.
#[derive(Clone, Copy)]
enum WhichLine {
    /// The only one of its kind.
    One(usize),
    /// One of so many, by the number of the processor.
    ByProcessor(usize, usize),
    /// One of so many, drawn anew for each operation; `Same` is that one again, at the
    /// same place of other lines.
    Drawn(usize, usize),
    Same(usize),
}

use LineStep::{Hold, Read, Work, Write};
use WhichLine::{ByProcessor, Drawn, One, Same};

/// The sums are measured on one processor of an AMD EPYC, 30 November 2026, but for 10,000 serializers and for
/// nobody who subscribes; how they divide into steps is estimated.
const USES: &[ContendedUse] = &[
    ContendedUse {
        what: "a plain task pushes the next one",
        steps: &[Work(16), Read(One(0)), Read(One(1))],
    },
    ContendedUse {
        what: "the same, and adds to one counter of all",
        steps: &[Work(16), Read(One(0)), Read(One(1)), Write(One(2))],
    },
    ContendedUse {
        what: "a task goes to a serializer that ran here last",
        steps: &[Work(33), Read(One(0)), Read(One(1))],
    },
    ContendedUse {
        what: "a task goes to any of 10,000 serializers",
        steps: &[
            Work(33),
            Read(One(0)),
            Read(One(1)),
            Hold(Drawn(1, 10_000), 9),
            Write(Same(2)),
            Write(Same(3)),
            Write(Same(4)),
        ],
    },
    ContendedUse {
        what: "a task goes to one serializer for all",
        steps: &[
            Work(26),
            Read(One(0)),
            Read(One(1)),
            Hold(One(2), 7),
            Write(One(3)),
        ],
    },
    ContendedUse {
        what: "pin and unpin, each its own buffer, neighbours",
        steps: &[
            Work(7),
            Write(ByProcessor(0, STRIPES)),
            Write(ByProcessor(0, STRIPES)),
        ],
    },
    ContendedUse {
        what: "pin and unpin, all the same buffer",
        steps: &[
            Work(7),
            Read(One(0)),
            Write(ByProcessor(1, STRIPES)),
            Write(ByProcessor(1, STRIPES)),
        ],
    },
    ContendedUse {
        what: "a timer is added and cancelled where it was added",
        steps: &[
            Work(37),
            Hold(ByProcessor(0, TIMER_SHARDS), 22),
            Hold(ByProcessor(0, TIMER_SHARDS), 22),
        ],
    },
    ContendedUse {
        what: "a timer is added here, and cancelled by anybody",
        steps: &[
            Work(37),
            Hold(ByProcessor(0, TIMER_SHARDS), 22),
            Hold(Drawn(0, TIMER_SHARDS), 22),
        ],
    },
    ContendedUse {
        what: "an event of any key, nobody subscribes",
        steps: &[Work(16), Hold(Drawn(0, TOPIC_SHARDS), 15)],
    },
    ContendedUse {
        what: "an event of any key for one subscription",
        steps: &[Work(24), Hold(Drawn(1, TOPIC_SHARDS), 23), Hold(One(0), 8)],
    },
];

/// As in the buffers' `STRIPE_COUNT`.
const STRIPES: usize = 8;
/// The most that the timers have; twice the processors would be more from 33 on.
const TIMER_SHARDS: usize = 64;
/// The topics' default.
const TOPIC_SHARDS: usize = 64;
/// From one processor's cache to that of another, one way: `versus run hand-over` has measured 25 ns between two threads
/// of one core, and 60 to 180 between two cores.
const MOVE_NS: u64 = 110;
/// So long does the machine run, in virtual time.
const END_NS: u64 = 200_000;
const PROCESSORS_MAX: usize = 128;

/// Some processors that share lines.
struct ManyProcessors {
    processors: Vec<Processor>,
    lines: Vec<SharedLine>,
    moves: u64,
}

#[derive(Clone)]
struct Processor {
    now_ns: u64,
    random: u64,
    drawn: usize,
    next_step: usize,
    operations: u64,
}

#[derive(Clone, Default)]
struct SharedLine {
    /// The processors that can read it, one bit each.
    readers: u128,
    is_written: bool,
    /// When the last move ends, or the lock in it is left.
    free_at_ns: u64,
}

struct UseRate {
    mops: f64,
    moves_each: f64,
}

impl ManyProcessors {
    fn new(processors: usize) -> Self {
        let processor = |number| Processor {
            now_ns: 0,
            random: number as u64,
            drawn: 0,
            next_step: 0,
            operations: 0,
        };
        Self {
            processors: (0..processors).map(processor).collect(),
            lines: Vec::new(),
            moves: 0,
        }
    }

    /// The processor that is behind all others makes its next step, until all are at
    /// the end.
    fn run(mut self, operation: &ContendedUse, end_ns: u64) -> UseRate {
        let all = (0..self.processors.len()).map(|number| Reverse((0, number)));
        let mut by_time: BinaryHeap<_> = all.collect();
        while let Some(Reverse((_, number))) = by_time.pop() {
            self.step(number, operation.steps);
            let now_ns = self.processors[number].now_ns;
            if now_ns < end_ns {
                by_time.push(Reverse((now_ns, number)));
            }
        }
        let operations: u64 = self.processors.iter().map(|all| all.operations).sum();
        UseRate {
            mops: operations as f64 * 1e3 / end_ns as f64,
            moves_each: self.moves as f64 / operations.max(1) as f64,
        }
    }

    fn step(&mut self, number: usize, steps: &[LineStep]) {
        let processor = &mut self.processors[number];
        let step = steps[processor.next_step];
        processor.next_step += 1;
        if processor.next_step == steps.len() {
            processor.next_step = 0;
            processor.operations += 1;
        }
        match step {
            Work(ns) => self.processors[number].now_ns += ns,
            Read(line) => self.reach(number, line, false, 0),
            Write(line) => self.reach(number, line, true, 0),
            Hold(line, ns) => self.reach(number, line, true, ns),
        }
    }

    /// Waits for a line, and keeps it for so long.
    fn reach(&mut self, number: usize, line: WhichLine, writes: bool, kept_ns: u64) {
        let index = self.index(number, line);
        if index >= self.lines.len() {
            self.lines.resize(index + 1, SharedLine::default());
        }
        let (line, processor) = (&mut self.lines[index], &mut self.processors[number]);
        let me = 1u128 << number;
        let has_it = match writes {
            true => line.readers == me && line.is_written,
            false => line.readers & me != 0,
        };
        // Reading what this processor can read waits for nobody.
        if !has_it || writes {
            processor.now_ns = processor.now_ns.max(line.free_at_ns);
        }
        if !has_it {
            // The first use of a line moves nothing.
            if line.readers != 0 {
                processor.now_ns += MOVE_NS;
                self.moves += 1;
            }
            line.readers = if writes { me } else { line.readers | me };
            line.is_written = writes;
        }
        processor.now_ns += kept_ns;
        if writes || !has_it {
            line.free_at_ns = processor.now_ns;
        }
    }

    /// Kinds of lines lie side by side: the first number says which kind.
    fn index(&mut self, number: usize, line: WhichLine) -> usize {
        let processor = &mut self.processors[number];
        let (kind, place) = match line {
            One(kind) => (kind, 0),
            ByProcessor(kind, count) => (kind, number % count),
            Drawn(kind, count) => {
                processor.random = next_random(processor.random);
                processor.drawn = (processor.random >> 33) as usize % count;
                (kind, processor.drawn)
            }
            Same(kind) => (kind, processor.drawn),
        };
        place * KINDS + kind
    }
}

const KINDS: usize = 8;

/// A linear congruential generator (Knuth's constants).
fn next_random(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mops(steps: &'static [LineStep], processors: usize) -> f64 {
        let what = "";
        let operation = ContendedUse { what, steps };
        ManyProcessors::new(processors)
            .run(&operation, 1_000_000)
            .mops
    }

    #[test]
    fn what_shares_nothing_grows_with_the_processors() {
        let one = mops(&[Work(500)], 1);
        assert_eq!((one, mops(&[Work(500)], 128)), (2.0, 128.0 * 2.0));
    }

    #[test]
    fn one_line_for_all_moves_once_for_each_and_no_faster() {
        let limit = 1e3 / MOVE_NS as f64;
        for processors in [2, 8, 128] {
            let reached = mops(&[Work(1), Write(One(0))], processors);
            assert!((0.9 * limit..=1.05 * limit).contains(&reached), "{reached}");
        }
    }

    #[test]
    fn a_lock_lets_one_at_a_time_in() {
        let limit = 1e3 / (MOVE_NS + 40) as f64;
        let reached = mops(&[Work(1), Hold(One(0), 40)], 32);
        assert!((0.9 * limit..=1.05 * limit).contains(&reached), "{reached}");
    }

    #[test]
    fn readers_of_one_line_do_not_disturb_each_other() {
        let alone = mops(&[Work(500), Read(One(0))], 1);
        let all = mops(&[Work(500), Read(One(0))], 64);
        assert!(all > 63.0 * alone, "{all}");
    }
}
