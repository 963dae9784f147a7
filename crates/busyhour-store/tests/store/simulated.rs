//! The simulated disk keeps what the real ones keep, in thousands of orders of
//! events.

use crate::{
    call_records::{
        old_records_of_calls_are_removed_by_count_and_age,
        records_of_calls_are_found_by_page_user_time_and_outcome,
        records_of_calls_are_read_as_they_were_written,
    },
    suite::{Database, race},
    support::random::Random,
};
use busyhour::clock::{Clock, UnixTime};
use busyhour_store::{AccountAdmin, DiskBehaviour, SimulatedDisk, SimulatedStore, Store};
use std::time::Duration;

struct Simulated {
    disk: SimulatedDisk,
    clock: Clock,
}

impl Simulated {
    fn new(seed: u64) -> Self {
        let behaviour = DiskBehaviour {
            removal_delay_max: Duration::from_millis(seed % 7 * 20),
            ..DiskBehaviour::default()
        };
        Self {
            disk: SimulatedDisk::new(seed, behaviour),
            clock: Clock::simulated(UnixTime::from_secs(1_700_000_000)),
        }
    }

    fn run_while(&self, is_so: impl Fn() -> bool) {
        while is_so() {
            assert!(
                self.disk.next_due().is_some(),
                "no transaction is in progress"
            );
            self.step();
        }
    }

    fn open(&self) -> SimulatedStore {
        self.disk.open(self.clock.clone())
    }
}

impl Database for Simulated {
    fn open(&self, _queue_capacity: usize) -> Box<dyn Store> {
        Box::new(self.open())
    }

    fn step(&self) {
        if let Some(due) = self.disk.next_due() {
            self.clock.as_virtual().expect("virtual").advance_to(due);
            self.disk.run_due();
        }
    }

    fn settle(&self, store: &dyn Store) {
        self.run_while(|| store.stats().queued_len + store.stats().ended_len > 0);
    }

    /// Simulates a power failure, at a time when rows may or may not be removed
    /// yet.
    fn reopen(&self, store: Box<dyn Store>) -> Box<dyn Store> {
        self.run_while(|| store.stats().queued_len > 0);
        self.disk.crash();
        Box::new(self.open())
    }

    fn book(&self) -> Box<dyn AccountAdmin> {
        unreachable!("no command reads a simulated disk")
    }
}

#[test]
fn it_keeps_records_of_calls() {
    records_of_calls_are_read_as_they_were_written(&Simulated::new(1));
    records_of_calls_are_found_by_page_user_time_and_outcome(&Simulated::new(2));
    old_records_of_calls_are_removed_by_count_and_age(&Simulated::new(3));
}

#[test]
fn late_removals_keep_leases_renewed_meanwhile() {
    let mut random = Random::new();
    for _ in 0..200 {
        let database = Simulated::new(random.fork().seed);
        race(&database, &mut random, 2_000);
    }
}
