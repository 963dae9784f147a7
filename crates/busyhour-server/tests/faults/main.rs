//! The real program with all faults at once: a network that loses 30 % of the
//! datagrams, duplicates and reorders them; `kill -9`; a disk that takes no more
//! writes; a database that crashes; a clock that is set; watchers that are
//! frozen.
//!
//! No acknowledged binding is lost. When the faults have ended, no watcher keeps
//! a wrong state. Every datagram that reached the server's socket is counted.
//!
//! With `BUSYHOUR_TEST_SCALE=400` there are 100,000 devices and 20,000 watchers;
//! with `--release` and `--nocapture` it takes some minutes and prints its
//! figures. In a network namespace of its own: `unshare -n sh -c 'ip link set lo
//! up; …'`.

#[path = "../support/mod.rs"]
mod support;

mod call;
mod clock;
mod device;
mod disk;
mod fleet;
mod host;
mod watcher;

use call::Plan;
use device::Device;
use fleet::{Crew, Fleet};
use host::{Host, Store};
use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use support::{
    postgres::Postgres,
    random::Random,
    relay::{Faults, Relay},
};
use watcher::Watcher;

#[test]
fn nothing_is_lost_through_kills_a_full_disk_and_a_clock_that_is_set() {
    let mut world = World::start(Store::Sqlite);
    world.wait_for_acknowledgements(0.4);
    world.kill("in the middle of the first registrations");

    world.sleepers.freeze(true);
    world.wait_for_acknowledgements(0.6);
    world.fill_disk();
    world.wait_for_acknowledgements(0.2);
    world.fill_disk_and_kill();
    world.sleepers.freeze(false);

    for hours in [1, -1, 0] {
        world.set_clock(hours);
        world.wait_for_acknowledgements(0.2);
        world.kill("while the clock is wrong");
    }
    world.end_well();
}

/// The disk really returns ENOSPC. A file may still have room for a write here:
/// a log that has grown once needs no more. So there are few devices, and the
/// disk is full early.
#[test]
fn nothing_is_lost_on_a_disk_without_space_and_it_is_used_again_once_there_is() {
    let mut world = World::start(Store::SmallDisk);
    world.wait_for_acknowledgements(0.1);
    world.host.fill_disk(true);
    world.wait_for_stat("/store/behind_failed", |count| count >= FAILURES);
    let error = world.host.server().stats()["store"]["behind_error"].to_string();
    assert!(error.contains("disk is full"), "{error}");
    // There is room in the journal.
    world.wait_for_acknowledgements(0.1);
    world.host.fill_disk(false);
    world.wait_for_stat("/store/behind_ns", |age| age < 1_000_000_000);
    world.wait_for_acknowledgements(0.1);
    world.host.fill_disk(true);
    world.wait_for_acknowledgements(0.1);
    world.kill("while the disk is full");
    world.wait_for_acknowledgements(0.1);
    world.end_well();
}

#[test]
fn nothing_is_lost_through_a_crash_of_the_database() {
    let postgres = Postgres::start();
    postgres.database("busyhour");
    let mut world = World::start(Store::Postgres(postgres));
    world.wait_for_acknowledgements(0.4);
    world.sleepers.freeze(true);
    world.crash_database();
    world.wait_for_acknowledgements(0.4);
    world.sleepers.freeze(false);

    world.kill("after the database came back");
    world.end_well();
}

/// A server, a bad network, and the clients behind it.
struct World {
    host: Host,
    relay: Relay,
    /// Devices and watchers.
    people: Fleet,
    /// Watchers that are frozen for some time.
    sleepers: Fleet,
    device_count: u32,
    seed: u64,
    begun_at: Instant,
    last_life_at: Instant,
    kills: u32,
}

impl World {
    fn start(store: Store) -> Self {
        let scale: u32 = std::env::var("BUSYHOUR_TEST_SCALE").map_or(1, |scale| {
            scale.parse().expect("BUSYHOUR_TEST_SCALE is a number")
        });
        let scale = if matches!(store, Store::SmallDisk) {
            1
        } else {
            scale
        };
        let device_count = DEVICES * scale;
        let watcher_count = device_count / 5;
        let mut random = Random::new();
        let host = Host::start(store, device_count);
        let relay = Relay::start(host.sip, 2, FAULTS, random.fork());
        relay.open();
        let plan = plan(device_count);
        let mut fleet = |line, devices, watched: &mut dyn Iterator<Item = u32>| {
            Fleet::start(relay.address(line), devices, watched, plan, random.fork())
        };
        // Several watchers watch one device, and most devices have none.
        let watched = move |number: u32| 1 + number * 7 % (device_count / 10);
        let people = fleet(0, device_count, &mut (0..watcher_count).map(watched));
        let sleepers = fleet(1, 0, &mut (0..watcher_count / 10).map(watched));
        Self {
            people,
            sleepers,
            host,
            relay,
            device_count,
            seed: random.seed,
            begun_at: Instant::now(),
            last_life_at: Instant::now(),
            kills: 0,
        }
    }

    /// Waits until `share` of all devices were acknowledged once more.
    fn wait_for_acknowledgements(&self, share: f64) {
        let more = (f64::from(self.device_count) * share) as u64;
        let wanted = self.people.lock().acknowledged + more;
        let is_so = || self.people.lock().acknowledged >= wanted;
        self.wait(is_so, || format!("{wanted} acknowledgements"));
    }

    /// Kills the server and starts it again: acknowledged bindings must be
    /// there before any device registers again.
    fn kill(&mut self, when: &str) {
        self.relay.close();
        self.host.kill();
        self.kills += 1;
        self.host.begin();
        self.compare(when);
        self.last_life_at = Instant::now();
        self.relay.open();
    }

    fn compare(&self, when: &str) {
        let bindings = self.host.bindings();
        let people = self.people.lock();
        let judge = |device: &Device| device.judge(bindings.get(&device.aor()).copied());
        let wrong: Vec<String> = people
            .devices
            .iter()
            .filter_map(|device| judge(device).err())
            .collect();
        assert!(wrong.is_empty(), "{when}, seed {}: {wrong:#?}", self.seed);
    }

    /// The disk is full for some time; the server recovers by itself.
    fn fill_disk(&self) {
        let failed = self.host.server().stat("/store/failed");
        self.host.fill_disk(true);
        self.wait_for_stat("/store/failed", |count| count >= failed + FAILURES);
        self.host.fill_disk(false);
    }

    fn fill_disk_and_kill(&mut self) {
        let failed = self.host.server().stat("/store/failed");
        self.host.fill_disk(true);
        self.wait_for_stat("/store/failed", |count| count >= failed + FAILURES);
        self.kill("while the disk is full");
    }

    /// Sets the server's clock, and waits until the server reports the change.
    fn set_clock(&self, hours: i64) {
        self.host.set_clock(hours * 3600);
        let now = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("after 1970")
        };
        let hour = || (now().as_secs() as i64 / 3600 + hours).rem_euclid(24);
        let is_so = || {
            let people = self.people.lock();
            let date = people.date.split(' ').nth(4);
            date.is_some_and(|time| time.starts_with(&format!("{:02}:", hour())))
        };
        self.wait(is_so, || format!("a date {hours} hours away"));
    }

    fn crash_database(&mut self) {
        let people = &self.people;
        self.host.crash_database(|server| {
            // Waits until a request was refused, or no request waits for an
            // answer.
            let failures =
                || server.stat("/registrar/store_failures") + server.stat("/store/refused");
            let before = failures();
            support::wait_until(
                || failures() > before || people.lock().complaint.is_some(),
                || format!("no failure: {}", server.stats()),
            );
        });
    }

    /// Each device makes one more request, and then the traffic ends: every
    /// watcher must have the right state.
    fn end_well(mut self) {
        self.wait(
            || self.unknown() == 0,
            || format!("{} watchers", self.unknown()),
        );
        for fleet in [&self.people, &self.sleepers] {
            fleet.lock().end_well();
        }
        let is_done = || self.people.lock().devices.iter().all(Device::is_done);
        self.wait(is_done, || "every device's last acknowledgement".to_owned());
        self.relay.set_faults(Faults::NONE);
        // All watchers must know it without a request, except those that the
        // server counts as given up.
        let given_up = || self.host.server().stat("/watch/given_up") as usize;
        let is_told = || self.mistaken().len() <= given_up();
        self.wait(is_told, || format!("being told: {:#?}", self.mistaken()));
        let told_without_asking = self.watcher_count() - self.mistaken().len();
        for fleet in [&self.people, &self.sleepers] {
            fleet.lock().refresh_again();
        }
        self.wait(
            || self.mistaken().is_empty(),
            || format!("the truth: {:#?}", self.mistaken()),
        );
        self.compare("in the end");
        self.people.stop();
        self.sleepers.stop();
        let is_counted = || self.counted() == self.relay.fates().to_server;
        self.wait(is_counted, || {
            format!("{} of {:?}", self.counted(), self.relay.fates())
        });
        self.report(told_without_asking);
    }

    /// The number of watchers that have received nothing from the running
    /// server.
    fn unknown(&self) -> usize {
        let is_unknown = |watcher: &&Watcher| !watcher.is_confirmed_since(self.last_life_at);
        let unknown = |fleet: &Fleet| fleet.lock().watchers.iter().filter(is_unknown).count();
        unknown(&self.people) + unknown(&self.sleepers)
    }

    fn watcher_count(&self) -> usize {
        let count = |fleet: &Fleet| fleet.lock().watchers.len();
        count(&self.people) + count(&self.sleepers)
    }

    /// Watchers that have a wrong state, or have received nothing from the running
    /// server.
    fn mistaken(&self) -> Vec<String> {
        let people = self.people.lock();
        let truth: Vec<Option<bool>> = people.devices.iter().map(Device::is_bound).collect();
        let mistaken = |crew: &Crew| {
            let wrong = |watcher: &&Watcher| {
                let belief = watcher.belief_since(self.last_life_at);
                belief.is_none() || belief != truth[watcher.device as usize - 1]
            };
            let watchers = crew.watchers.iter().filter(wrong);
            watchers.map(Watcher::describe).collect::<Vec<_>>()
        };
        let mut all = mistaken(&people);
        all.extend(mistaken(&self.sleepers.lock()));
        all
    }

    /// The number of datagrams that the server's socket received, as the server
    /// counts them.
    fn counted(&self) -> u64 {
        let stats = self.host.server().stats();
        let count = |name: &str| stats["network"][name].as_u64().expect("a counter");
        count("received") + count("kernel_dropped")
    }

    fn report(&self, told_without_asking: usize) {
        let watcher_count = self.watcher_count();
        let (people, sleepers) = (self.people.lock(), self.sleepers.lock());
        println!(
            "{} devices, {watcher_count} watchers ({told_without_asking} told unasked), {} kills, \
             {:.0} s, {} acknowledged, {} notified",
            self.device_count,
            self.kills,
            self.begun_at.elapsed().as_secs_f64(),
            people.acknowledged,
            people.notified + sleepers.notified
        );
        println!("the network: {:?}", self.relay.fates());
        let stats = self.host.server().stats();
        for part in ["network", "traffic", "registrar", "watch", "store"] {
            println!("{part} of the last life: {}", stats[part]);
        }
    }

    fn wait_for_stat(&self, pointer: &str, wanted: impl Fn(u64) -> bool) {
        let is_so = || wanted(self.host.server().stat(pointer));
        self.wait(is_so, || {
            format!("{pointer} in {}", self.host.server().stats())
        });
    }

    /// Waits until `is_so`; fails if it is not so for long, or if the server
    /// does what no server may do.
    fn wait(&self, is_so: impl Fn() -> bool, what: impl Fn() -> String) {
        let given_up_at = Instant::now() + PATIENCE;
        while !is_so() {
            for fleet in [&self.people, &self.sleepers] {
                let complaint = fleet.lock().complaint.clone();
                assert_eq!(complaint, None, "seed {}", self.seed);
            }
            let is_late = Instant::now() >= given_up_at;
            assert!(
                !is_late,
                "seed {}, this did not happen: {}\n{}",
                self.seed,
                what(),
                self.host.server().log()
            );
            // This only leaves the processor to the others.
            thread::sleep(PACE);
        }
    }
}

/// Some minutes for any number of devices, and seconds for a few.
fn plan(device_count: u32) -> Plan {
    let pause = Duration::from_secs_f64(f64::from(device_count) / REGISTRATIONS_PER_SECOND);
    let pause = pause.max(Duration::from_millis(1500));
    Plan {
        // A fifth of the value in the RFC if there are few devices, so that the
        // test takes less time. Many devices that retransmitted so soon would
        // keep a busy machine busy for ever.
        t1: Duration::from_millis(if device_count > DEVICES { 500 } else { 100 }),
        pause,
        subscription: (4 * pause).max(Duration::from_secs(30)),
        refresh: pause,
        is_last: false,
    }
}

const FAULTS: Faults = Faults {
    lost_percent: 30,
    doubled_percent: 20,
    delayed_percent: 30,
};
const DEVICES: u32 = 250;
const REGISTRATIONS_PER_SECOND: f64 = 1200.0;
/// More failed transactions than this are no accident.
const FAILURES: u64 = 3;
/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(600);
/// The time between two checks of a condition; no test depends on its length.
const PACE: Duration = Duration::from_millis(60);
