//! The simulated world of telephones and lamps.

use super::{
    dialog::Name,
    lamp::{Told, dialogs_of},
    message::user,
    telephone::{Story, Telephone},
};
use crate::{
    client::{Context, NEVER, SECOND, address},
    life,
    network::{Faults, Packet},
    random::Random,
    site::Site,
    watcher::Watcher,
};
use busyhour_sip::Message;
use busyhour_store::CallRecordRow;
use std::collections::{BTreeMap, BTreeSet};

pub struct World {
    site: Site,
    plan: Vec<(u64, Step)>,
    telephones: Vec<Telephone>,
    lamps: Vec<Watcher>,
    /// The server ends in the middle of calls.
    restarts: bool,
    listens_at: u64,
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
        let mut world = Self {
            restarts: plan.len() > 2,
            plan,
            site: Site::new(seed, random, faults, config),
            telephones: Vec::new(),
            lamps: Vec::new(),
            listens_at: LISTEN,
        };
        world.populate();
        world
    }

    /// Makes the run print every datagram.
    pub fn logged(mut self) -> Self {
        self.site.is_logged = true;
        self
    }

    /// Runs to the end and checks; returns a hash of all that happened.
    pub fn run(mut self) -> u64 {
        let quiet_at = self.plan.last().map_or(0, |(at, _)| *at);
        let quiet = match self.telephones.iter().all(Telephone::knows_timers) {
            true => SESSION_QUIET,
            false => PROBING_QUIET,
        };
        self.run_until(quiet_at + quiet);
        self.check_lamps("after quiet");
        let now = self.site.now;
        for telephone in &mut self.telephones {
            let address = telephone.address;
            let hang_up = |context: &mut Context<'_>| telephone.hang_up_all(context);
            self.site.act(address, hang_up);
        }
        self.run_until(now + 5 * SECOND);
        self.check_lamps("after all have hung up");
        self.run_until(now + 100 * SECOND);
        self.check_tables();
        self.check_records();
        self.lamps.iter_mut().for_each(Watcher::stop);
        self.telephones.clear();
        self.site.deafen();
        // A subscription without refreshes ends after at most 150 s, its NOTIFYs stay
        // unanswered for 32 s, and answers are kept for 32 s.
        self.run_until(self.site.now + 230 * SECOND);
        self.site.life().assert_nothing_pinned();
        self.site.end()
    }

    fn populate(&mut self) {
        let random = &mut self.site.random;
        let count = random.within(3, 6) as usize;
        for number in 0..count {
            let user = match number {
                0..3 => number,
                _ => self.site.random.within(0, USERS as u64) as usize,
            };
            // What lasts beyond a restart is known again by its refresh.
            let knows_timers = self.restarts || self.site.random.permille(500);
            let address = address(2, number);
            let begin = |context: &mut Context<'_>| {
                Telephone::new(number, user, address, knows_timers, context)
            };
            self.telephones.push(self.site.act(address, begin));
        }
        for number in 0..USERS {
            let address = address(1, number);
            let begin = |context: &mut Context<'_>| {
                Watcher::new(number, address, number, false, context).of_calls()
            };
            self.lamps.push(self.site.act(address, begin));
        }
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
        let telephones = self.telephones.iter().map(Telephone::next_wake);
        let lamps = self.lamps.iter().map(Watcher::next_wake);
        let actors = telephones.chain(lamps).fold(NEVER, u64::min);
        let own = step.min(actors).min(self.listens_at);
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
            self.deliver(&packet);
        }
        self.wake_actors();
        self.site.run_server();
    }

    fn deliver(&mut self, packet: &Packet) {
        let to = packet.to;
        if let Some(telephone) = self.telephones.iter_mut().find(|it| it.address == to) {
            let receive = |context: &mut Context<'_>| telephone.receive(&packet.bytes, context);
            self.site.act(to, receive);
        }
        if let Some(lamp) = self.lamps.iter_mut().find(|it| it.address == to) {
            let message = Message::parse(&packet.bytes).expect("a complete message");
            self.site.act(to, |context| lamp.receive(&message, context));
            // Never is a dialog told twice.
            dialogs_of(lamp.document());
        }
    }

    fn wake_actors(&mut self) {
        let now = self.site.now;
        let is_time_to_listen = self.listens_at <= now;
        let talks = match is_time_to_listen {
            true => self.all_talks(),
            false => BTreeSet::new(),
        };
        for telephone in &mut self.telephones {
            if telephone.next_wake() > now && !is_time_to_listen {
                continue;
            }
            // It may move, and what it sent comes from its new address.
            let before = telephone.address;
            let act = |context: &mut Context<'_>| {
                if is_time_to_listen {
                    telephone.listen(&talks, context);
                }
                telephone.wake(context);
                (telephone.address, std::mem::take(context.sent))
            };
            let (address, sent) = self.site.act(before, act);
            let send = |context: &mut Context<'_>| context.sent.extend(sent);
            self.site.act(address, send);
        }
        if is_time_to_listen {
            self.listens_at = now + LISTEN;
        }
        for lamp in self.lamps.iter_mut().filter(|it| it.next_wake() <= now) {
            self.site.act(lamp.address, |context| lamp.wake(context));
        }
    }

    fn all_talks(&self) -> BTreeSet<Name> {
        let talks = self.telephones.iter().flat_map(Telephone::talks);
        talks.map(|(name, _)| name.clone()).collect()
    }

    /// Each lamp shows the dialogs that the telephones say they have.
    fn check_lamps(&self, when: &str) {
        for (number, lamp) in self.lamps.iter().enumerate() {
            let telephones = self.telephones.iter().filter(|it| it.user == number);
            let mut truth = BTreeMap::new();
            for telephone in telephones {
                let is_settled = !telephone.is_off(self.site.now) && !telephone.is_undecided();
                assert!(
                    is_settled,
                    "a telephone of {} has not settled",
                    user(number)
                );
                for (name, holds) in telephone.talks() {
                    let told = Told {
                        state: "confirmed".to_owned(),
                        // A refresh need not say who held whom before a restart.
                        holds: if self.restarts { [false; 2] } else { holds },
                    };
                    truth.insert(name.clone(), told);
                }
            }
            let mut shown = dialogs_of(lamp.document());
            if self.restarts {
                shown.values_mut().for_each(|told| told.holds = [false; 2]);
            }
            assert_eq!(shown, truth, "the lamp of {} {when}", user(number));
        }
    }

    fn check_tables(&self) {
        let stats = self.site.life().stats().calls;
        let (proxy, dialogs) = (&stats.proxy, &stats.dialogs);
        let left = [
            stats.charged_bytes,
            proxy.transaction_count,
            proxy.branch_count,
            proxy.held_bytes,
            dialogs.call_count,
            dialogs.lingering_count,
        ];
        assert_eq!(left, [0; 6], "{stats:#?}");
        assert!(self.site.life().calls().is_empty());
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
        let stories = self.telephones.iter().flat_map(|it| &it.stories);
        for (call_id, story) in stories {
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

const USERS: usize = 4;
/// Longer than a session lasts that is not refreshed.
const SESSION_QUIET: u64 = 420 * SECOND;
/// Longer than it takes to ask about a dialog of which nothing is heard.
const PROBING_QUIET: u64 = 1_000 * SECOND;
/// How often telephones notice whether media come.
const LISTEN: u64 = 20 * SECOND;
