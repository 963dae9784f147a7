//! The simulated world of telephones and lamps.

use super::{
    telephone::Story,
    users::{Servers, Users, assert_no_calls},
};
use crate::{
    client::{NEVER, SECOND},
    life,
    network::Faults,
    random::Random,
    site::Site,
};
use busyhour_store::CallRecordRow;
use std::collections::BTreeMap;

pub struct World {
    site: Site,
    plan: Vec<(u64, Step)>,
    users: Users,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Start,
    Crash,
    ShutDown,
    Quiet,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xca11);
        let faults = faults(&mut random);
        let plan = plan(&mut random);
        let mut config = life::config(false);
        config.calls.session_s = random.pick(&[0, 90, 900]);
        let mut site = Site::new(seed, random, faults, config);
        let servers = match plan.len() > 2 {
            true => Servers::InTurn,
            false => Servers::One,
        };
        let users = Users::new(servers, &mut site);
        Self { site, plan, users }
    }

    /// Makes the run print every datagram.
    pub fn logged(mut self) -> Self {
        self.site.is_logged = true;
        self
    }

    /// Runs to the end and checks; returns a hash of all that happened.
    pub fn run(mut self) -> u64 {
        let quiet_at = self.plan.last().map_or(0, |(at, _)| *at);
        self.run_until(quiet_at + self.users.quiet_time());
        self.users.check_lamps(self.site.now, "after quiet");
        let now = self.site.now;
        self.users.hang_up_all(&mut self.site);
        self.run_until(now + 5 * SECOND);
        let when = "after all have hung up";
        self.users.check_lamps(self.site.now, when);
        self.run_until(now + 100 * SECOND);
        self.check_tables();
        self.check_records();
        self.users.stop();
        self.site.deafen();
        // A subscription without refreshes ends after at most 150 s, its NOTIFYs stay
        // unanswered for 32 s, and answers are kept for 32 s.
        self.run_until(self.site.now + 230 * SECOND);
        self.site.life().assert_nothing_pinned();
        self.site.end()
    }

    fn run_until(&mut self, end: u64) {
        loop {
            let next = self.next_event();
            if next > end {
                break;
            }
            self.site.now = next;
            self.advance();
        }
        self.site.now = end;
        self.site.run_server();
    }

    fn next_event(&self) -> u64 {
        let step = self.plan.first().map_or(NEVER, |(at, _)| *at);
        let own = step.min(self.users.next_wake());
        self.site.next_event().min(own)
    }

    fn advance(&mut self) {
        self.site.run_server();
        while self
            .plan
            .first()
            .is_some_and(|(at, _)| *at <= self.site.now)
        {
            let (_, step) = self.plan.remove(0);
            self.site.log(|| format!("--- {step:?}"));
            match step {
                Step::Start => self.site.start(),
                Step::Crash => self.site.crash(),
                Step::ShutDown => self.site.shut_down(),
                Step::Quiet => self.site.quiet(),
            }
        }
        while let Some(packet) = self.site.take_packet() {
            self.users.receive(&packet, &mut self.site);
        }
        self.users.wake(&mut self.site);
        self.site.run_server();
    }

    fn check_tables(&self) {
        let life = self.site.life();
        assert_no_calls(&life.stats(), &life.calls());
    }

    /// Each call has one record of each server that carried it, and the last one says what its
    /// caller was told. Those that this server did not see from their beginning have none of it.
    fn check_records(&self) {
        let starts = &self.site.starts;
        let life_of = |record: &CallRecordRow| {
            let began_at = self.site.life().in_world_by_calendar(record.began_at_ns);
            starts.partition_point(|start| *start <= began_at)
        };
        let mut records = BTreeMap::new();
        for record in self.site.life().call_records() {
            let (call_id, life) = (record.call_id.clone(), life_of(&record));
            let before = records.insert((call_id, life), record);
            assert_eq!(before, None, "a call has two records of one server");
        }
        let started_at = starts.last().copied().unwrap_or(0);
        for (call_id, story) in self.users.stories() {
            let Story { carried_at, status } = *story;
            let is_whole = carried_at > started_at + 5 * SECOND;
            let record = records.get(&(call_id.as_str().into(), starts.len()));
            if !is_whole || status == 0 {
                continue;
            }
            let is_answered = status < 300;
            assert!(record.is_some() || !is_answered, "no record of {call_id}");
            let Some(record) = record else {
                continue;
            };
            assert_eq!(record.status, status, "{record:#?}");
            let is_recorded = record.answered_at_ns.is_some();
            assert!(is_recorded || !is_answered, "{record:#?}");
        }
    }
}

fn faults(random: &mut Random) -> Faults {
    Faults {
        loss_permille: random.pick(&[0, 20, 100, 200]),
        duplicate_permille: random.pick(&[0, 20, 100, 300]),
        slow_permille: random.pick(&[0, 20, 100, 300]),
        garbage_permille: random.pick(&[0, 0, 20]),
    }
}

/// The runs of the server, then a time without faults.
fn plan(random: &mut Random) -> Vec<(u64, Step)> {
    let mut plan = vec![(0, Step::Start)];
    let mut now = 0;
    for _ in 0..random.pick(&[0, 0, 1, 2]) {
        now += random.within(60 * SECOND, 180 * SECOND);
        plan.push((
            now,
            random.pick(&[Step::Crash, Step::Crash, Step::ShutDown]),
        ));
        now = (now / SECOND + random.within(6, 15)) * SECOND;
        plan.push((now, Step::Start));
    }
    now += random.within(120 * SECOND, 300 * SECOND);
    plan.push((now, Step::Quiet));
    plan
}
