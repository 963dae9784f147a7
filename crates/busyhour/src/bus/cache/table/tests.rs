use super::*;
use crate::bus::cache::pinned;
use proptest::{collection::vec, prelude::*};
use std::collections::HashSet;

#[derive(Clone)]
struct Number(u64);

impl Event for Number {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.0
    }
}

/// What happens to a table while some laggard has to fetch from it later.
#[derive(Clone, Debug)]
enum Step {
    Put(u64),
    Remove(u64),
    /// Nobody lags any more, and at the next change somebody begins to.
    CatchUp,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..60_u64).prop_map(Step::Put),
        3 => (0..60_u64).prop_map(Step::Remove),
        1 => Just(Step::CatchUp),
    ]
}

struct Model {
    table: CacheTable<Number>,
    writer: CacheWriter<Number>,
    hash: fn(u64) -> u64,
    /// The version at which the laggard began to lag.
    since: u64,
}

impl Model {
    fn new(hash: fn(u64) -> u64) -> Self {
        let (table, writer) = CacheTable::new();
        let since = 0;
        Self {
            table,
            writer,
            hash,
            since,
        }
    }

    fn place(&self, key: u64) -> Option<SlotPosition> {
        let (mut seen, hash) = (Seen::NOTHING, (self.hash)(key));
        pinned(|pin| self.table.look(hash, &key, pin, &mut seen));
        let place = self.table.place(&self.writer, hash, &seen);
        place.expect("nobody else writes")
    }

    fn get(&self, key: u64) -> Option<u64> {
        let found = pinned(|pin| self.table.get((self.hash)(key), &key, pin));
        found.map(|event| event.0)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Put(key) => {
                let (place, event) = (self.place(key), SharedEvent::new(Number(key)));
                let (since, mut copy) = (self.since, EventCopy::NONE);
                let event = (event, &mut copy);
                let key = ((self.hash)(key), place);
                (self.table).put(&mut self.writer, key, event, since);
            }
            Step::Remove(key) => {
                let place = self.place(key).filter(SlotPosition::is_live);
                if let Some(place) = place {
                    self.table.clear(&mut self.writer, place, self.since);
                }
            }
            Step::CatchUp => {
                self.table.purge(&mut self.writer, 0, &[], |_| ());
                self.since = self.writer.version();
            }
        }
    }

    /// What a look at every slot finds, oldest first.
    fn found(&self, version: u64) -> Vec<u64> {
        let slots = self.table.writer_slots(&self.writer);
        let found = slots.iter().filter_map(|slot| slot.change_since(version));
        let mut found: Vec<_> = found.map(|change| change.version()).collect();
        found.sort_unstable();
        found
    }
}

proptest! {
    #[test]
    fn noted_changes_are_those_that_a_look_at_every_slot_finds(
        steps in vec(step(), 1..300),
    ) {
        let mut model = Model::new(|key| key);
        for step in &steps {
            model.step(step);
            let since = model.since;
            let changes = model.table.changes_since(&model.writer, since);
            let mut versions: Vec<_> = changes.iter().map(CachedChange::version).collect();
            versions.sort_unstable();
            prop_assert_eq!(versions, model.found(since), "since {}", since);
        }
    }
}

/// Only even slots are searched from, few tags are different, and the keys around the end of the array
/// have slots at its begin.
fn crowded(key: u64) -> u64 {
    ((key % 5) << 56) | (key / 3 * 2)
}

fn scattered(key: u64) -> u64 {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32)
}

#[test]
fn a_lookup_finds_what_is_there_in_arrays_with_tags_and_without() {
    for hash in [crowded, scattered] {
        let (mut model, mut oracle) = (Model::new(hash), HashSet::new());
        let mut lens = HashSet::new();
        for number in 0..9_000_u64 {
            // Grows beyond the largest array with tags, while one of three keys is removed.
            let key = number * 7_919 % 9_000;
            model.step(&Step::Put(key));
            oracle.insert(key);
            if number % 3 == 0 {
                model.step(&Step::Remove(number / 2));
                oracle.remove(&(number / 2));
            }
            for key in [key, number / 2, number] {
                assert_eq!(model.get(key).is_some(), oracle.contains(&key), "{key}");
            }
            let len = model.table.writer_slots(&model.writer).len();
            if lens.insert(len) {
                for key in 0..9_000 {
                    assert_eq!(model.get(key), oracle.get(&key).copied(), "{key} of {len}");
                }
            }
        }
        assert!(
            [8, 512, 1024, 4096, 8192]
                .iter()
                .all(|len| lens.contains(len))
        );
    }
}

/// Lookups find them without tags as well, and more slowly, so only this tells whether tags are of use.
#[test]
fn of_an_array_with_tags_the_first_guess_is_nearly_always_the_key() {
    let mut model = Model::new(scattered);
    let count = 3_000;
    (0..count).for_each(|key| model.step(&Step::Put(key)));
    let guessed = |key: &u64| {
        pinned(|pin| {
            let cells = model.table.pinned_slots(pin).probable(scattered(*key));
            let is_key = |event: &Number| (event.0 == *key).then_some(());
            let probe = cells.map(|cells| cells.probe(scattered(*key), pin, is_key));
            matches!(probe, Some(EntryProbe::Found(Some(()))))
        })
    };
    let right = (0..count).filter(guessed).count() as u64;
    assert!(right * 100 >= count * 95, "{right} of {count}");
}

#[test]
fn a_laggard_that_has_missed_little_is_brought_up_to_date_by_what_is_noted() {
    let mut model = Model::new(|key| key);
    for key in 0..1_000 {
        model.step(&Step::Put(key));
    }
    model.step(&Step::CatchUp);
    for key in [500, 7, 500] {
        model.step(&Step::Put(key));
    }
    let noted = model
        .writer
        .recent
        .since(model.since, model.writer.version());
    assert_eq!(noted.expect("all of them are noted").count(), 3);
    let changes = model.table.changes_since(&model.writer, model.since);
    let keys: Vec<_> = changes.iter().map(|change| change.event.0).collect();
    assert_eq!(keys, [7, 500], "each key once, the oldest change first");
}
