//! Requests that wait for their partitions, beside a plain list of them.

#[path = "support/seeds.rs"]
mod seeds;

use busyhour::clock::Instant;
use busyhour_cluster::{Keeping, KeptPlace, KeptRequests, Partition};
use seeds::{Random, seeds};
use std::{collections::BTreeMap, time::Duration};

/// What is done with them.
#[derive(Debug)]
enum Operation {
    Keep {
        partition: u8,
        name: u128,
        has_room: bool,
    },
    /// One that has gone on, or that did not have to wait, could not be done.
    PutBack {
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
    /// The places of those that went on and had been put back before.
    places: BTreeMap<u128, u64>,
    last_place: u64,
    turns: Vec<u8>,
    now_ms: u64,
    last: u64,
}

struct Waiting {
    partition: u8,
    name: u128,
    number: u64,
    since_ms: u64,
    /// Of those that were put back.
    place: u64,
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
            Operation::PutBack { name, has_room } => {
                let place = self.places.get(&name).copied();
                let place = place.unwrap_or_else(|| {
                    self.last_place += 1;
                    self.last_place
                });
                let keeping = self.keep(partition_of(name), name, has_room);
                if let Some(one) = self.waiting.iter_mut().find(|one| one.name == name) {
                    one.place = one.place.min(place);
                }
                Outcome::Kept(keeping)
            }
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
                    self.take_out(number);
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
            place: u64::MAX,
        });
        Keeping::Kept
    }

    fn take_out(&mut self, number: u64) {
        let at = self.waiting.iter().position(|one| one.number == number);
        let one = self.waiting.remove(at.expect("it waits"));
        match one.place {
            u64::MAX => self.places.remove(&one.name),
            place => self.places.insert(one.name, place),
        };
    }

    fn first(&self, partition: u8) -> Option<u64> {
        let of_it = self.waiting.iter().filter(|one| one.partition == partition);
        let first = of_it.min_by_key(|one| (one.place, one.number));
        first.map(|one| one.number)
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
    let (mut names, mut places) = (0, BTreeMap::new());
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
                let request = || has_room.then_some((number, name));
                Outcome::Kept(kept.keep(now, Partition(partition), name, request))
            }
            Operation::PutBack { name, has_room } => {
                let (number, partition) = (oracle.last, Partition(partition_of(name)));
                let place = places.get(&name).copied().unwrap_or_default();
                let request = || has_room.then_some((number, name));
                Outcome::Kept(kept.put_back(now, partition, name, place, request))
            }
            Operation::BeginTurn(partition, up_to) => Outcome::Began(
                kept.begin_turn(Partition(partition), |(number, _)| *number <= up_to),
            ),
            Operation::Next(partition, up_to) => {
                let next = kept.next(Partition(partition), |(number, _)| *number <= up_to);
                Outcome::Next(next.map(|(place, (number, name))| {
                    places.insert(name, place);
                    number
                }))
            }
            Operation::Pass(_) => {
                let late = kept.take_late(now).into_iter();
                Outcome::Late(late.map(|(number, _)| number).collect())
            }
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
    let has_room = random.below(10) > 0;
    match random.below(12) {
        0..4 => {
            let name = draw_name(random, names, 3);
            Operation::Keep {
                partition: partition_of(name),
                name,
                has_room,
            }
        }
        4..6 => Operation::BeginTurn(partition, up_to),
        6..9 => Operation::Next(partition, up_to),
        9 => Operation::Pass(random.below(800)),
        _ => Operation::PutBack {
            // Mostly it is one that has waited.
            name: draw_name(random, names, 1),
            has_room,
        },
    }
}

/// One of so many has an earlier name.
fn draw_name(random: &mut Random, names: &mut u128, one_in: u64) -> u128 {
    let name = match *names > 0 && random.below(one_in) == 0 {
        true => *names - u128::from(random.below(10).min(*names as u64)),
        false => *names + 1,
    };
    *names = name.max(*names);
    name
}

fn partition_of(name: u128) -> u8 {
    (name % u128::from(PARTITIONS)) as u8
}

const PARTITIONS: u8 = 4;
const PATIENCE_MS: u64 = 2000;
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS);

/// As it goes on, so it comes back: what is put back keeps its place among those that were put back before.
#[test]
fn what_is_put_back_keeps_its_place() {
    let (mut kept, now) = (KeptRequests::new(PATIENCE), Instant::from_nanos(0));
    let partition = Partition(1);
    let keep = |kept: &mut KeptRequests<u128>, name| {
        assert_eq!(
            kept.keep(now, partition, name, || Some(name)),
            Keeping::Kept
        );
    };
    let put_back = |kept: &mut KeptRequests<u128>, name, place| {
        let keeping = kept.put_back(now, partition, name, place, || Some(name));
        assert_eq!(keeping, Keeping::Kept, "{name}");
    };
    [1, 2].into_iter().for_each(|name| keep(&mut kept, name));
    assert!(kept.begin_turn(partition, |_| true));
    let next = |kept: &mut KeptRequests<u128>| kept.next(partition, |_| true);
    let taken = [next(&mut kept), next(&mut kept)].map(|it| it.expect("it waits"));
    [3, 4].into_iter().for_each(|name| keep(&mut kept, name));
    // One that did not have to wait at first.
    put_back(&mut kept, 0, KeptPlace::BEHIND);
    for (place, name) in taken {
        put_back(&mut kept, name, place);
    }
    // Two go on and come back once more, in the other order.
    let taken = [next(&mut kept), next(&mut kept)].map(|it| it.expect("it waits"));
    for (place, name) in taken.into_iter().rev() {
        put_back(&mut kept, name, place);
    }
    let order: Vec<u128> = std::iter::from_fn(|| next(&mut kept).map(|(_, name)| name)).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
    assert!(!kept.waits(partition));
}
