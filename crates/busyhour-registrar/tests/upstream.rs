//! What a registrar behind is told: one long registration of each address, through losses,
//! refusals, crashes here and starts there.

use busyhour::clock::{Instant, UnixTime};
use busyhour_registrar::upstream::{
    UpstreamAnswer, UpstreamAsk, UpstreamPolicy, UpstreamRefusal, UpstreamRow, UpstreamStep,
    UpstreamTable,
};
use std::{collections::HashMap, sync::Arc, time::Duration};

const ALICE: &str = "sip:alice@example.com";
const HOUR_S: u32 = 3600;

/// A table, with what it has stored, on a clock of its own.
struct Bench {
    table: UpstreamTable,
    now: Instant,
    stored: HashMap<Arc<str>, UpstreamRow>,
    told: Vec<UpstreamStep>,
}

/// A request as it leaves.
#[derive(Debug, Clone, PartialEq)]
struct Sent {
    aor: Arc<str>,
    number: u64,
    ask: UpstreamAsk,
    is_again: bool,
}

fn policy() -> UpstreamPolicy {
    UpstreamPolicy {
        expires_s: HOUR_S,
        pending_max: 4,
        rate: 10,
        entries_max: 1000,
        patience: seconds(HOUR_S.into()),
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn unix(now: Instant) -> UnixTime {
    UnixTime::from_secs(0) + (now - Instant::ZERO)
}

/// One that says no more than its status.
fn answer(status: u16) -> UpstreamAnswer {
    UpstreamAnswer {
        status,
        is_listed: (200..300).contains(&status),
        expires_s: None,
        min_expires_s: None,
        retry_after_s: None,
        is_challenge: status == 401,
        service_route: None,
    }
}

impl Bench {
    fn new(seed: u64) -> Self {
        Self::with_policy(policy(), seed)
    }

    fn with_policy(policy: UpstreamPolicy, seed: u64) -> Self {
        let mut table = UpstreamTable::new(policy, seed);
        let now = Instant::from_nanos(1_000_000_000);
        table.end_restore(now);
        Self {
            table,
            now,
            stored: HashMap::new(),
            told: Vec::new(),
        }
    }

    fn want(&mut self, aor: &str, is_wanted: bool) {
        self.table.want(self.now, aor, is_wanted);
    }

    /// Stores what is to be stored, and returns what is to be sent.
    fn follow(&mut self, steps: Vec<UpstreamStep>) -> Vec<Sent> {
        let mut sent = Vec::new();
        for step in steps {
            match step {
                UpstreamStep::Send {
                    aor,
                    number,
                    ask,
                    first,
                    is_again,
                } => {
                    if let Some(row) = first {
                        self.stored.insert(aor.clone(), row);
                    }
                    sent.push(Sent {
                        aor,
                        number,
                        ask,
                        is_again,
                    });
                }
                UpstreamStep::Store { aor, row } => match row {
                    Some(row) => drop(self.stored.insert(aor, row)),
                    None => drop(self.stored.remove(&aor)),
                },
                told => self.told.push(told),
            }
        }
        sent
    }

    /// What is sent within this time.
    fn pass(&mut self, span: Duration) -> Vec<Sent> {
        let (end, mut sent) = (self.now + span, Vec::new());
        loop {
            let steps = self.table.poll(self.now, unix(self.now));
            sent.extend(self.follow(steps));
            match self.table.next_deadline().filter(|due| *due <= end) {
                Some(due) => {
                    assert!(due > self.now, "it would be asked for ever");
                    self.now = due;
                }
                None => break,
            }
        }
        self.now = end;
        sent
    }

    fn answer(&mut self, number: u64, answer: &UpstreamAnswer) -> Option<u64> {
        let mut steps = Vec::new();
        let (now, unix) = (self.now, unix(self.now));
        let again = self.table.answered(now, unix, number, answer, &mut steps);
        self.follow(steps);
        again
    }

    /// Passes the time, and answers each new request with this status; what was asked.
    fn serve(&mut self, span: Duration, status: u16) -> Vec<Sent> {
        let (end, mut all) = (self.now + span, Vec::new());
        while self.now < end {
            let sent = self.pass(Duration::from_millis(100));
            for one in &sent {
                self.answer(one.number, &answer(status));
            }
            all.extend(sent);
        }
        all
    }

    /// Only what was stored is left, and the telephones.
    fn crash(&mut self, seed: u64, wanted: &[&str]) {
        self.table = UpstreamTable::new(policy(), seed);
        for (aor, row) in &self.stored {
            self.table
                .restore(self.now, unix(self.now), aor, row.clone());
        }
        for aor in wanted {
            self.table.want(self.now, aor, true);
        }
        assert_eq!(self.table.poll(self.now, unix(self.now)), [], "too early");
        self.table.end_restore(self.now);
    }
}

/// RFC 3608 §5: the route of the last 200 counts, while the registration lasts; it survives a crash.
#[test]
fn the_service_route_of_the_last_answer_is_known_as_long_as_the_registration() {
    let mut bench = Bench::new(7);
    let by = |route: &str| UpstreamAnswer {
        service_route: Some(route.into()),
        ..answer(200)
    };
    bench.want(ALICE, true);
    let sent = bench.pass(Duration::ZERO);
    assert_eq!(bench.table.service_route(bench.now, ALICE), None);
    bench.answer(sent[0].number, &by("<sip:one;lr>"));
    let known = |bench: &Bench| bench.table.service_route(bench.now, ALICE);
    assert_eq!(known(&bench).as_deref(), Some("<sip:one;lr>"));
    bench.crash(8, &[ALICE]);
    assert_eq!(known(&bench).as_deref(), Some("<sip:one;lr>"));

    // Another one is stored at once: calls need it after a crash as well.
    let mut renewed = Vec::new();
    while !renewed.iter().any(|it: &Sent| it.ask != UpstreamAsk::Query) {
        renewed = bench.pass(seconds(1));
        for one in &renewed {
            bench.answer(one.number, &by("<sip:two;lr>"));
        }
    }
    bench.crash(9, &[ALICE]);
    assert_eq!(known(&bench).as_deref(), Some("<sip:two;lr>"));
    bench.want(ALICE, false);
    bench.serve(seconds(2), 200);
    assert_eq!(known(&bench), None);
}

#[test]
fn one_long_registration_goes_on_and_is_renewed_before_its_end() {
    let mut bench = Bench::new(7);
    bench.want(ALICE, true);
    let sent = bench.pass(Duration::ZERO);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].ask, UpstreamAsk::Register(HOUR_S));
    assert_eq!(bench.stored[ALICE].sure_until, None, "before it leaves");
    let again = bench.answer(sent[0].number, &answer(401));
    let again = again.expect("it is sent with credentials");
    assert_eq!(bench.answer(again, &answer(200)), None);
    assert!(bench.stored[ALICE].sure_until.is_some());

    // 3,600 refreshes of the telephone are a renewal, and queries.
    let mut sent = Vec::new();
    for _ in 0..3600 {
        bench.want(ALICE, true);
        sent.extend(bench.serve(seconds(1), 200));
    }
    let renewals = sent.iter().filter(|it| it.ask != UpstreamAsk::Query);
    let renewals = renewals.count();
    assert!((1..=2).contains(&renewals), "{renewals}");
    assert!((100..=120).contains(&(sent.len() - renewals)), "queries");

    bench.want(ALICE, false);
    let sent = bench.serve(seconds(2), 200);
    assert_eq!(sent[0].ask, UpstreamAsk::End);
    assert!(bench.stored.is_empty());
    assert!(bench.table.is_empty());
    assert_eq!(
        (bench.table.told_count(), bench.table.pending_count()),
        (0, 0)
    );
}

/// A wake-up for each renewal costs more than the renewal.
#[test]
fn renewals_leave_in_groups_and_in_time() {
    const COUNT: usize = 300;
    let policy = UpstreamPolicy {
        expires_s: 60,
        pending_max: COUNT,
        rate: 1000,
        ..policy()
    };
    let mut bench = Bench::with_policy(policy, 7);
    for number in 0..COUNT {
        bench.want(&format!("sip:{number}@example.com"), true);
    }
    let first = bench.pass(Duration::from_millis(400));
    assert_eq!(first.len(), COUNT);
    let begin = bench.now;
    for one in &first {
        bench.answer(one.number, &answer(200));
    }
    let mut leaving = Vec::new();
    while leaving.iter().sum::<usize>() < COUNT {
        let due = bench.table.next_deadline().expect("it is renewed");
        bench.now = due;
        let steps = bench.table.poll(due, unix(due));
        let sent = bench.follow(steps);
        let renewals = sent.iter().filter(|it| it.ask != UpstreamAsk::Query);
        let count = renewals.count();
        leaving.extend((count > 0).then_some(count));
    }
    // 72 to 88 hundredths of a minute are 96 tenths of a second.
    assert!(leaving.len() <= 97, "{leaving:?}");
    let after = bench.now - begin;
    assert!(after >= seconds(43), "{after:?}");
    assert!(after < seconds(53), "{after:?}");
}

#[test]
fn a_refusal_reaches_the_next_refresh_and_is_tried_again_ever_more_seldom() {
    let mut bench = Bench::new(7);
    bench.want(ALICE, true);
    assert!(!bench.table.has_refusals());
    let sent = bench.pass(Duration::ZERO);
    bench.answer(sent[0].number, &answer(403));
    assert!(bench.table.has_refusals());
    let refusal = bench.table.refusal(bench.now, ALICE);
    assert_eq!(refusal, Some(UpstreamRefusal::Refused(403)));
    let sent = bench.serve(seconds(3600), 403);
    assert!((12..30).contains(&sent.len()), "{}", sent.len());
    let sent = bench.serve(seconds(300), 200);
    assert!(!sent.is_empty());
    assert_eq!(bench.table.refusal(bench.now, ALICE), None);
    assert!(!bench.table.has_refusals());
}

#[test]
fn a_refusal_is_remembered_for_a_minute_after_the_telephone_has_gone() {
    let mut bench = Bench::new(7);
    bench.want(ALICE, true);
    bench.serve(seconds(2), 404);
    bench.want(ALICE, false);
    bench.serve(seconds(20), 404);
    assert!(bench.stored.is_empty());
    let refusal = bench.table.refusal(bench.now, ALICE);
    assert_eq!(refusal, Some(UpstreamRefusal::Refused(404)));
    bench.serve(seconds(60), 404);
    assert!(bench.table.is_empty());
    assert_eq!(bench.table.refusal(bench.now, ALICE), None);
}

#[test]
fn a_longer_life_and_patience_are_what_was_asked_for() {
    let mut bench = Bench::new(7);
    bench.want(ALICE, true);
    let sent = bench.pass(Duration::ZERO);
    let longer = UpstreamAnswer {
        min_expires_s: Some(7200),
        ..answer(423)
    };
    bench.answer(sent[0].number, &longer);
    let sent = bench.pass(seconds(1));
    assert_eq!(sent[0].ask, UpstreamAsk::Register(7200));
    let later = UpstreamAnswer {
        retry_after_s: Some(120),
        ..answer(503)
    };
    bench.answer(sent[0].number, &later);
    assert_eq!(bench.table.refusal(bench.now, ALICE), None, "for a while");
    assert_eq!(bench.pass(seconds(119)), []);
    assert!(!bench.pass(seconds(2)).is_empty());
    // It stays so for longer than the patience of telephones.
    for _ in 0..40 {
        for one in bench.pass(seconds(100)) {
            bench.answer(one.number, &answer(503));
        }
    }
    let refusal = bench.table.refusal(bench.now, ALICE);
    assert_eq!(refusal, Some(UpstreamRefusal::Unavailable));
}

#[test]
fn a_telephone_that_comes_and_goes_makes_a_request_a_second() {
    let mut bench = Bench::new(7);
    let mut sent = 0;
    for number in 0..1000 {
        bench.want(ALICE, number % 2 == 0);
        sent += bench.serve(Duration::from_millis(100), 200).len();
    }
    assert!((50..=101).contains(&sent), "{sent} in 100 seconds");
}

#[test]
fn who_is_away_is_asked_by_one_and_told_all_again_when_it_is_back() {
    let mut bench = Bench::new(7);
    let all: Vec<_> = (0..20).map(|it| format!("sip:{it}@example.com")).collect();
    for aor in &all {
        bench.want(aor, true);
    }
    bench.serve(seconds(5), 200);
    for aor in &all {
        bench.want(aor, false);
        bench.want(aor, true);
    }
    bench.pass(seconds(7200));
    assert!(bench.table.is_away());
    assert!(bench.told.contains(&UpstreamStep::Away));
    assert!(bench.table.pending_count() <= 1);
    let refusal = bench.table.refusal(bench.now, &all[0]);
    assert_eq!(refusal, Some(UpstreamRefusal::Unavailable));
    let sent = bench.serve(seconds(400), 200);
    assert!(bench.told.contains(&UpstreamStep::Back));
    for aor in &all {
        assert!(sent.iter().any(|one| *one.aor == **aor), "{aor}");
        assert_eq!(bench.table.refusal(bench.now, aor), None);
    }
    assert_eq!(bench.table.failing_count(), 0);
}

#[test]
fn what_has_forgotten_all_is_told_all_again_within_its_pace() {
    let mut bench = Bench::new(7);
    let all: Vec<_> = (0..500).map(|it| format!("sip:{it}@example.com")).collect();
    for aor in &all {
        bench.want(aor, true);
    }
    let sent = bench.serve(seconds(60), 200);
    assert_eq!(sent.iter().filter(|it| !it.is_again).count(), 501);
    bench.pass(Duration::ZERO);
    let query = bench.pass(seconds(30));
    assert_eq!(query[0].ask, UpstreamAsk::Query);
    let empty = UpstreamAnswer {
        is_listed: false,
        ..answer(200)
    };
    bench.answer(query[0].number, &empty);
    let forgotten = |is_all| UpstreamStep::Forgotten { is_all };
    assert_eq!(bench.told, [forgotten(false)], "it may have lost one");
    let sent = bench.pass(seconds(1));
    let mut second = sent.iter().filter(|it| it.ask == UpstreamAsk::Query);
    let second = second.next().expect("another address");
    assert_ne!(second.aor, query[0].aor);
    bench.answer(second.number, &empty);
    assert_eq!(bench.told, [forgotten(false), forgotten(true)]);
    let mut told = std::collections::HashSet::new();
    for second in 0..60 {
        let sent = bench.serve(seconds(1), 200);
        assert!(sent.len() <= 11, "{} in second {second}", sent.len());
        let asks = sent.into_iter().filter(|it| it.ask != UpstreamAsk::Query);
        told.extend(asks.map(|one| one.aor));
    }
    assert_eq!(told.len(), 500);
}

#[test]
fn there_is_an_end_to_addresses() {
    let mut bench = Bench::new(7);
    for number in 0..1001 {
        bench.want(&format!("sip:{number}@example.com"), true);
    }
    assert_eq!(bench.table.len(), 1000);
    let refusal = bench.table.refusal(bench.now, "sip:1000@example.com");
    assert_eq!(refusal, Some(UpstreamRefusal::Full));
    assert_eq!(bench.table.refusal(bench.now, "sip:0@example.com"), None);
}

/// The fault of an earlier draft: the registrar had ended the registration, but its answer was
/// lost by a crash, after which the telephone was there again.
#[test]
fn a_crash_while_the_end_is_under_way_does_not_hide_it() {
    let mut bench = Bench::new(7);
    bench.want(ALICE, true);
    bench.serve(seconds(2), 200);
    bench.want(ALICE, false);
    assert_eq!(bench.pass(seconds(1))[0].ask, UpstreamAsk::End);
    bench.crash(8, &[ALICE]);
    assert_eq!(
        bench.pass(Duration::ZERO)[0].ask,
        UpstreamAsk::Register(HOUR_S)
    );
}

#[test]
fn a_crash_tells_nothing_anew_that_is_sure() {
    let mut bench = Bench::new(7);
    bench.want(ALICE, true);
    bench.serve(seconds(2), 200);
    bench.crash(8, &[ALICE]);
    assert_eq!(bench.serve(seconds(1500), 200), []);
    assert!(!bench.serve(seconds(1800), 200).is_empty());
}

/// The registrar behind, as simply as it can be.
#[derive(Default)]
struct Registrar {
    contacts: HashMap<Arc<str>, Instant>,
}

impl Registrar {
    fn take(&mut self, now: Instant, sent: &Sent, is_refused: bool) -> UpstreamAnswer {
        self.contacts.retain(|_, until| *until > now);
        if is_refused {
            return answer(403);
        }
        let mut expires_s = None;
        match sent.ask {
            UpstreamAsk::Register(asked_s) => {
                // It grants less than it was asked for.
                let granted_s = asked_s.min(1800);
                expires_s = Some(granted_s);
                let until = now + seconds(granted_s.into());
                self.contacts.insert(sent.aor.clone(), until);
            }
            UpstreamAsk::End => drop(self.contacts.remove(&sent.aor)),
            UpstreamAsk::Query => {}
        }
        UpstreamAnswer {
            expires_s,
            is_listed: self.contacts.contains_key(&sent.aor),
            ..answer(200)
        }
    }
}

struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Whatever is lost or refused, and whenever the server or the registrar crashes: all that the
/// registrar has is stored at each moment, no address has two requests at a time, and in the end
/// the registrar has what has a telephone, and nothing else.
#[test]
fn after_losses_and_crashes_the_registrar_has_what_is_wanted() {
    for seed in 0..300 {
        run(seed);
    }
}

fn run(seed: u64) {
    let (mut bench, mut dice) = (Bench::new(seed), Dice(seed));
    let all: Vec<_> = (0..6).map(|it| format!("sip:{it}@example.com")).collect();
    let mut wanted = [false; 6];
    let mut registrar = Registrar::default();
    for step in 0..900_u64 {
        let is_calm = step > 400;
        if !is_calm && dice.throw(3) == 0 {
            let number = dice.throw(6) as usize;
            wanted[number] ^= true;
            bench.want(&all[number], wanted[number]);
        }
        if !is_calm && dice.throw(40) == 0 {
            let known = (0..6).filter(|number| wanted[*number]);
            let known: Vec<_> = known.map(|number| all[number].as_str()).collect();
            bench.crash(seed + step, &known);
        }
        if !is_calm && dice.throw(60) == 0 {
            registrar.contacts.clear();
        }
        let span = if dice.throw(30) == 0 { 200 } else { 1 };
        for sent in bench.pass(seconds(span + dice.throw(4))) {
            if !is_calm && dice.throw(3) == 0 {
                continue;
            }
            let is_refused = !is_calm && dice.throw(10) == 0;
            let answer = registrar.take(bench.now, &sent, is_refused);
            if is_calm || dice.throw(3) > 0 {
                bench.answer(sent.number, &answer);
            }
        }
        for (aor, until) in registrar.contacts.iter().filter(|(_, it)| **it > bench.now) {
            let row = bench.stored.get(aor);
            let may_until = row.map(|row| row.may_until);
            assert!(
                may_until >= Some(unix(*until)),
                "seed {seed}: {aor} is lost"
            );
        }
        let live = wanted.iter().filter(|is_wanted| **is_wanted).count();
        assert!(bench.table.failing_count() <= live, "seed {seed}");
        assert!(bench.table.told_count() <= bench.table.len(), "seed {seed}");
        assert!(bench.table.pending_count() <= 4, "seed {seed}");
    }
    let now = bench.now;
    registrar.contacts.retain(|_, until| *until > now);
    for (number, aor) in all.iter().enumerate() {
        let is_there = registrar.contacts.contains_key(aor.as_str());
        assert_eq!(is_there, wanted[number], "seed {seed}: {aor}");
        assert_eq!(bench.table.refusal(now, aor), None, "seed {seed}: {aor}");
    }
    let live = wanted.iter().filter(|is_wanted| **is_wanted).count();
    assert_eq!(bench.table.told_count(), live, "seed {seed}");
    assert_eq!(bench.stored.len(), live, "seed {seed}");
}
