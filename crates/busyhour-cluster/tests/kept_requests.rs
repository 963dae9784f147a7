//! Requests that wait for their partitions, beside a plain list of them.

#[path = "support/seeds.rs"]
mod seeds;

use busyhour::clock::Instant;
use busyhour_cluster::{Keeping, KeptRequests, Partition};
use seeds::{Random, seeds};
use std::time::Duration;

/// What is done with them.
#[derive(Debug)]
enum Operation {
    Keep {
        partition: u8,
        name: u128,
        has_room: bool,
    },
    /// Somebody serves the partition: what has a number up to this goes on.
    BeginTurn(u8, u64),
    Next(u8, u64),
    /// So many milliseconds pass, and what is late ends.
    Pass(u64),
}

/// In the order in which they came.
#[derive(Default)]
struct Oracle {
    waiting: Vec<Waiting>,
    turns: Vec<u8>,
    now_ms: u64,
    last: u64,
}

struct Waiting {
    partition: u8,
    name: u128,
    number: u64,
    since_ms: u64,
}

/// What an operation gives.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Kept(Keeping),
    Began(bool),
    Next(Option<u64>),
    Late(Vec<u64>),
}

impl Oracle {
    fn apply(&mut self, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Keep {
                partition,
                name,
                has_room,
            } => Outcome::Kept(self.keep(partition, name, has_room)),
            Operation::BeginTurn(partition, up_to) => {
                let begins = !self.turns.contains(&partition)
                    && self.first(partition).is_some_and(|first| first <= up_to);
                if begins {
                    self.turns.push(partition);
                }
                Outcome::Began(begins)
            }
            Operation::Next(partition, up_to) => {
                let next = self.first(partition).filter(|first| *first <= up_to);
                self.turns.retain(|turn| *turn != partition);
                if let Some(number) = next {
                    self.turns.push(partition);
                    self.waiting.retain(|one| one.number != number);
                }
                Outcome::Next(next)
            }
            Operation::Pass(ms) => {
                self.now_ms += ms;
                let now_ms = self.now_ms;
                let is_late = |one: &Waiting| one.since_ms + PATIENCE_MS <= now_ms;
                let mut late: Vec<_> = self.waiting.iter().filter(|one| is_late(one)).collect();
                late.sort_by_key(|one| (one.since_ms, one.number));
                let late = late.iter().map(|one| one.number).collect();
                self.waiting.retain(|one| !is_late(one));
                Outcome::Late(late)
            }
        }
    }

    fn keep(&mut self, partition: u8, name: u128, has_room: bool) -> Keeping {
        let now_ms = self.now_ms;
        if let Some(known) = self.waiting.iter_mut().find(|one| one.name == name) {
            known.since_ms = now_ms;
            return Keeping::Copy;
        }
        if !has_room {
            return Keeping::Refused;
        }
        self.last += 1;
        self.waiting.push(Waiting {
            partition,
            name,
            number: self.last,
            since_ms: now_ms,
        });
        Keeping::Kept
    }

    fn first(&self, partition: u8) -> Option<u64> {
        let mut of_it = self.waiting.iter().filter(|one| one.partition == partition);
        of_it.next().map(|one| one.number)
    }

    fn waits(&self, partition: u8) -> bool {
        self.first(partition).is_some() || self.turns.contains(&partition)
    }
}

#[test]
fn what_waits_goes_on_in_its_order_or_is_late() {
    for seed in seeds(200) {
        run(seed);
    }
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let (mut oracle, mut kept) = (Oracle::default(), KeptRequests::new(PATIENCE));
    let mut names = 0;
    for _ in 0..1000 {
        let operation = draw(&mut random, &mut names);
        let expected = oracle.apply(&operation);
        let now = Instant::from_nanos(oracle.now_ms * 1_000_000);
        let outcome = match operation {
            Operation::Keep {
                partition,
                name,
                has_room,
            } => {
                let number = oracle.last;
                let request = || has_room.then_some(number);
                Outcome::Kept(kept.keep(now, Partition(partition), name, request))
            }
            Operation::BeginTurn(partition, up_to) => {
                Outcome::Began(kept.begin_turn(Partition(partition), |number| *number <= up_to))
            }
            Operation::Next(partition, up_to) => {
                Outcome::Next(kept.next(Partition(partition), |number| *number <= up_to))
            }
            Operation::Pass(_) => Outcome::Late(kept.take_late(now)),
        };
        assert_eq!(outcome, expected, "seed {seed}: {operation:?}");
        assert_eq!(kept.len(), oracle.waiting.len(), "seed {seed}");
        let since_ms = oracle.waiting.iter().map(|one| one.since_ms).min();
        let late = since_ms.map(|ms| Instant::from_nanos(ms * 1_000_000) + PATIENCE);
        assert_eq!(kept.next_late(), late, "seed {seed}");
        for partition in 0..PARTITIONS {
            let waits = kept.waits(Partition(partition));
            assert_eq!(waits, oracle.waits(partition), "seed {seed}: {operation:?}");
        }
    }
}

/// A request mostly has a name of its own, and at times that of an earlier one, which has the same partition.
fn draw(random: &mut Random, names: &mut u128) -> Operation {
    let partition = random.below(PARTITIONS.into()) as u8;
    let up_to = match random.below(3) {
        0 => random.below(400),
        _ => u64::MAX,
    };
    match random.below(10) {
        0..4 => {
            let is_copy = *names > 0 && random.below(3) == 0;
            let name = match is_copy {
                true => *names - u128::from(random.below(10).min(*names as u64)),
                false => *names + 1,
            };
            *names = name.max(*names);
            Operation::Keep {
                partition: (name % u128::from(PARTITIONS)) as u8,
                name,
                has_room: random.below(10) > 0,
            }
        }
        4..6 => Operation::BeginTurn(partition, up_to),
        6..9 => Operation::Next(partition, up_to),
        _ => Operation::Pass(random.below(800)),
    }
}

const PARTITIONS: u8 = 4;
const PATIENCE_MS: u64 = 2000;
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS);
