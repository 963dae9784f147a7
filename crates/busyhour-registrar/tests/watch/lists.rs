//! Lists of resources (RFC 4662): full state first, then what has changed, whatever is lost.

use super::{Watcher, alice, assert_has, panel::Panel};
use busyhour::bus::Name;
use busyhour_registrar::watch::{
    End, ExtensionState, LineState, ListedResource, ResourceList, ResourceStanding, ResourceStates,
    RunNumber, State, WatchPolicy,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

#[test]
fn the_first_notify_tells_all_resources_and_the_next_ones_what_has_changed() {
    let mut lamps = Lamps::subscribe(4, "Event: dialog\r\nExpires: 600");
    assert_eq!(lamps.watcher.poll(), None, "the list is not known yet");
    lamps.list_is(4);
    assert!(lamps.poll());
    assert!(lamps.panel.is_full);
    assert_eq!((lamps.panel.told, lamps.panel.version), (4, Some(0)));
    assert_eq!(lamps.panel.names[&uri(2)], "Lamp 2");
    lamps.watcher.answer(1, 200);
    assert!(!lamps.poll(), "nothing is new");
    lamps.set(2, LineState::Ringing);
    assert!(lamps.poll());
    assert!(!lamps.panel.is_full);
    assert_eq!((lamps.panel.told, lamps.panel.version), (1, Some(1)));
    assert_has(lamps.panel.lamps[&uri(2)].as_ref().unwrap(), "early");
    assert_has(
        lamps.panel.lamps[&uri(2)].as_ref().unwrap(),
        "version=\"1\"",
    );
}

#[test]
fn changes_while_a_notify_is_unanswered_come_together_in_the_next() {
    let mut lamps = Lamps::active(40);
    lamps.set(7, LineState::Ringing);
    assert!(lamps.poll());
    for line in [LineState::InUse, LineState::Idle, LineState::Busy] {
        lamps.set(8, line);
        lamps.set(9, line);
        assert!(!lamps.poll(), "one NOTIFY at a time");
    }
    lamps.watcher.answer(2, 200);
    assert!(lamps.poll());
    assert_eq!(lamps.panel.told, 2);
    lamps.assert_right();
}

#[test]
fn a_change_that_shows_nothing_new_is_not_told() {
    let mut lamps = Lamps::active(3);
    lamps.set(1, LineState::Ringing);
    lamps.set(1, LineState::Idle);
    assert!(!lamps.poll(), "it is as it was told");
    lamps.set(0, LineState::Busy);
    lamps.set(1, LineState::Unavailable);
    assert!(lamps.poll());
    assert_eq!(lamps.panel.told, 2);
    lamps.watcher.answer(2, 200);
    lamps.set(0, LineState::InUse);
    lamps.set(2, LineState::Ringing);
    assert!(lamps.poll());
    assert_eq!(
        lamps.panel.told, 1,
        "in use and busy are one lamp in dialog"
    );
}

#[test]
fn what_does_not_fit_into_a_notify_follows_at_once() {
    let mut lamps = Lamps::subscribe_with(50, "Event: dialog\r\nExpires: 600", 1300);
    lamps.list_is(50);
    let mut notifies = 0;
    while lamps.poll() {
        notifies += 1;
        assert_eq!(
            lamps.panel.is_full,
            notifies == 1,
            "a full state is begun once"
        );
        let len = lamps.last_len;
        assert!(len <= 1300 || lamps.panel.told == 1, "{len} bytes");
        lamps.watcher.answer(notifies, 200);
    }
    assert!(notifies >= 25, "{notifies}");
    lamps.assert_right();
}

#[test]
fn over_a_connection_a_panel_is_told_whole() {
    let mut lamps = Lamps::subscribe_with(60, "Event: dialog", 1300);
    lamps.list_is(60);
    assert!(lamps.poll());
    lamps.watcher.answer(1, 200);
    let tcp = busyhour_sip::Flow {
        transport: busyhour_sip::Transport::Tcp,
        ..super::flow()
    };
    lamps.watcher.refresh_over(tcp, 2, "Event: dialog").unwrap();
    assert!(lamps.poll());
    assert_eq!((lamps.panel.is_full, lamps.panel.told), (true, 60));
    lamps.assert_right();
}

#[test]
fn a_refresh_is_answered_by_the_full_state() {
    let mut lamps = Lamps::active(3);
    lamps.watcher.refresh(2, "Event: dialog").unwrap();
    assert!(lamps.poll());
    assert!(lamps.panel.is_full);
    assert_eq!(lamps.panel.version, Some(1));
    lamps.settle(2);
    lamps.assert_right();
}

#[test]
fn a_list_that_has_changed_is_told_in_full() {
    let mut lamps = Lamps::active(3);
    lamps.list_is(5);
    lamps.settle(2);
    assert_eq!(lamps.panel.lamps.len(), 5);
    lamps.list_is(1);
    lamps.settle(lamps.watcher.subscription.last_cseq() + 1);
    assert_eq!(lamps.panel.lamps.len(), 1);
    lamps.assert_right();
}

#[test]
fn a_watcher_that_goes_is_told_no_state_and_one_that_fetches_all_of_it() {
    let mut lamps = Lamps::active(50);
    lamps
        .watcher
        .refresh(2, "Event: dialog\r\nExpires: 0")
        .unwrap();
    let last = lamps.watcher.poll().unwrap();
    assert_has(&last, "Subscription-State: terminated;reason=timeout\r\n");
    assert_has(&last, "Content-Length: 0\r\n");
    let cseq = lamps.watcher.subscription.last_cseq();
    lamps.watcher.answer(cseq, 200);
    assert_eq!(lamps.watcher.subscription.ended(), Some(End::Unsubscribed));

    let mut fetch = Lamps::subscribe_with(50, "Event: dialog\r\nExpires: 0", 1300);
    fetch.list_is(50);
    let mut cseq = 0;
    while fetch.poll() {
        cseq += 1;
        let is_last = fetch.last.contains("Subscription-State: terminated");
        assert!(is_last || fetch.last.contains("Subscription-State: active;expires=0"));
        fetch.watcher.answer(cseq, 200);
        assert_eq!(fetch.watcher.subscription.ended().is_some(), is_last);
    }
    fetch.assert_right();
}

#[test]
fn resources_that_are_not_here_or_not_for_this_watcher_say_so() {
    let mut lamps = Lamps::subscribe(3, "Event: dialog");
    lamps.list_with(3, |place| match place {
        0 => ResourceStanding::NotFound,
        1 => ResourceStanding::Rejected,
        _ => ResourceStanding::Watched,
    });
    lamps.settle(1);
    let lamp = |place| lamps.panel.lamps[&uri(place)].as_deref();
    assert_eq!(lamp(0), Some("terminated noresource"));
    assert_eq!(lamp(1), Some("terminated rejected"));
    assert_has(lamp(2).unwrap(), "dialog-info");
}

#[test]
fn a_list_goes_on_in_the_next_run_with_higher_versions() {
    let mut lamps = Lamps::active(3);
    let stored = lamps.watcher.subscription.stored(RunNumber::OfServer(1));
    let policy = WatchPolicy::default();
    lamps.watcher.subscription = busyhour_registrar::watch::Subscription::restore(
        &stored,
        |_| RunNumber::OfServer(2),
        &policy,
        busyhour_registrar::Advertised::default(),
        super::at(600_000),
        lamps.watcher.now,
    )
    .unwrap();
    assert!(lamps.watcher.subscription.is_of_list());
    lamps.list_is(3);
    assert!(lamps.poll());
    assert!(lamps.panel.is_full && lamps.panel.version > Some(1000));
    lamps.settle(lamps.watcher.subscription.last_cseq());
    lamps.assert_right();
}

/// What linphonec 5.1.65 was seen to need: another letter in Event, and the id of each part as it stands in `cid`.
#[test]
fn liblinphone_is_told_a_list_of_presence_as_it_reads_it() {
    let policy = WatchPolicy {
        list_datagram_len_max: 30_000,
        ..WatchPolicy::default()
    };
    let told = |headers: &str| {
        let mut lamps = Lamps::subscribe(2, headers);
        lamps.list_is(2);
        let first = lamps.watcher.poll().unwrap();
        let stored = lamps.watcher.subscription.stored(RunNumber::OfServer(1));
        lamps.watcher.subscription = busyhour_registrar::watch::Subscription::restore(
            &stored,
            |_| RunNumber::OfServer(2),
            &policy,
            busyhour_registrar::Advertised::default(),
            super::at(600_000),
            lamps.watcher.now,
        )
        .unwrap();
        lamps.list_is(2);
        [first, lamps.watcher.poll().unwrap()]
    };
    let ids = |notify: &str, name: &str| -> Vec<String> {
        let pieces = notify.split(name).skip(1);
        let end = |piece: &str| piece.find(['"', '\r']).unwrap();
        pieces.map(|it| it[..end(it)].to_owned()).collect()
    };
    for agent in [
        "Linphonec/5.1.65",
        "LinphoneiOS/5.0 (x)",
        "x (belle-sip/5.2.0)",
    ] {
        let headers = format!("Event: presence\r\nExpires: 600\r\nUser-Agent: {agent}");
        for notify in told(&headers) {
            assert_has(&notify, "\r\nEvent: Presence\r\n");
            let parts = ids(&notify, "\r\nContent-Id: ");
            assert_eq!(parts[1..], ids(&notify, " cid=\""), "{notify}");
            assert_eq!(parts.len(), 3);
        }
    }
    for headers in [
        "Event: presence\r\nExpires: 600\r\nUser-Agent: Yealink SIP-T46S",
        "Event: dialog\r\nExpires: 600\r\nUser-Agent: Linphonec/5.1.65",
    ] {
        let package = headers[7..].split('\r').next().unwrap();
        for notify in told(headers) {
            assert_has(&notify, &format!("\r\nEvent: {package}\r\n"));
            let cids = ids(&notify, " cid=\"")
                .into_iter()
                .map(|id| format!("<{id}>"));
            let parts = ids(&notify, "\r\nContent-ID: ");
            assert_eq!(parts[1..], cids.collect::<Vec<_>>(), "{notify}");
        }
    }
}

#[test]
fn rates_hold_changes_back_and_repeat_what_is_known() {
    let mut lamps = Lamps::subscribe(2, "Event: dialog;max-rate=0.5;min-rate=0.1");
    lamps.list_is(2);
    assert!(lamps.poll());
    assert_has(&lamps.last, ";max-rate=0.5;min-rate=0.1\r\n");
    lamps.settle(1);
    let from = lamps.watcher.now;
    lamps.set(0, LineState::Ringing);
    assert!(!lamps.poll(), "two seconds have not passed");
    assert_eq!(
        lamps.watcher.subscription.deadline(),
        Some(from + std::time::Duration::from_secs(2))
    );
    lamps.watcher.pass(2000);
    assert!(lamps.poll());
    lamps
        .watcher
        .answer(lamps.watcher.subscription.last_cseq(), 200);
    assert!(!lamps.poll());
    lamps.watcher.pass(10_000);
    assert_eq!(
        lamps.watcher.subscription.deadline(),
        Some(lamps.watcher.now)
    );
    assert!(lamps.poll(), "nothing has changed for ten seconds");
    assert_eq!((lamps.panel.told, lamps.panel.is_full), (0, false));
}

/// Changes, answers, refreshes, a full connection, other lists: the panel is right in the end,
/// and until then it shows nothing that never was.
#[test]
fn no_lamp_is_wrong_after_quiet() {
    for seed in 0..200 {
        let mut random = Random(seed * 2 + 1);
        let count = 1 + random.below(40);
        let len_max = [1300, 2500, 30_000][random.below(3)];
        let mut lamps = Lamps::subscribe_with(count, "Event: dialog", len_max);
        lamps.list_is(count);
        let mut cseq = 1;
        for _ in 0..300 {
            let subscription = &mut lamps.watcher.subscription;
            match random.below(12) {
                0..5 => {
                    let line =
                        [LineState::Idle, LineState::Ringing, LineState::InUse][random.below(3)];
                    let place = random.below(lamps.count);
                    lamps.set(place, line);
                }
                5..8 => {
                    let last = subscription.last_cseq();
                    subscription.answered(last, 200);
                }
                8 | 9 => {
                    cseq += 1;
                    lamps.watcher.refresh(cseq, "Event: dialog").unwrap();
                }
                10 if random.below(10) == 0 => lamps.list_is(1 + random.below(40)),
                _ => lamps.watcher.pass(random.below(300) as u64),
            }
            // What is put off right after it was written never left.
            match lamps.watcher.poll() {
                Some(notify) if notify != lamps.last && random.below(8) == 0 => {
                    lamps.watcher.subscription.put_off(lamps.watcher.now);
                }
                Some(notify) => {
                    lamps.panel.take(&notify);
                    lamps.last = notify;
                }
                None => {}
            }
        }
        lamps.quiet();
        lamps.assert_right();
    }
}

#[test]
fn a_change_costs_the_same_on_a_long_list() {
    let parts = |count| {
        let mut lamps = Lamps::active(count);
        let reads_before = lamps.states.reads();
        lamps.set(count - 1, LineState::Ringing);
        assert!(lamps.poll());
        lamps.states.reads() - reads_before
    };
    assert_eq!((parts(10), parts(5_000)), (1, 1), "one state is read");
}

struct Lamps {
    watcher: Watcher,
    panel: Panel,
    states: Arc<States>,
    count: usize,
    last: String,
    last_len: usize,
}

impl Lamps {
    fn subscribe(count: usize, headers: &str) -> Self {
        Self::subscribe_with(count, headers, 30_000)
    }

    /// With so many bytes for a NOTIFY over datagrams.
    fn subscribe_with(count: usize, headers: &str, list_datagram_len_max: usize) -> Self {
        let mut watcher = Watcher::subscribe(headers);
        let policy = WatchPolicy {
            list_datagram_len_max,
            ..WatchPolicy::default()
        };
        let opened = std::mem::replace(&mut watcher.subscription, Watcher::active().subscription);
        watcher.subscription = opened.to_list(None, &policy);
        Self {
            watcher,
            panel: Panel::default(),
            states: Arc::default(),
            count,
            last: String::new(),
            last_len: 0,
        }
    }

    /// One that has been told everything; `count` lamps on one connection.
    fn active(count: usize) -> Self {
        let mut lamps = Self::subscribe(count, "Event: dialog");
        lamps.list_is(count);
        lamps.settle(1);
        lamps
    }

    fn list_is(&mut self, count: usize) {
        self.list_with(count, |_| ResourceStanding::Watched);
    }

    fn list_with(&mut self, count: usize, standing: impl Fn(usize) -> ResourceStanding) {
        self.count = count;
        let resources = (0..count).map(|place| ListedResource {
            resource: Name::new(&uri(place)),
            name: Some(format!("Lamp {place}").into()),
            standing: standing(place),
        });
        let list = ResourceList {
            uri: alice().as_str().into(),
            name: None,
            resources: resources.collect(),
        };
        self.watcher
            .subscription
            .list_is(Arc::new(list), self.states.clone());
    }

    fn set(&mut self, place: usize, line: LineState) {
        self.states.lines.lock().unwrap().insert(place, line);
        self.watcher.subscription.resources_changed([place as u32]);
    }

    fn poll(&mut self) -> bool {
        let Some(notify) = self.watcher.poll() else {
            return false;
        };
        self.last_len = notify.len();
        if notify.contains("multipart/related") {
            self.panel.take(&notify);
        }
        self.last = notify;
        true
    }

    /// Answers everything, from the NOTIFY with this CSeq number on.
    fn settle(&mut self, cseq: u32) {
        let mut cseq = cseq;
        loop {
            self.poll();
            if !self.watcher.answer(cseq, 200) {
                break;
            }
            cseq += 1;
        }
    }

    fn quiet(&mut self) {
        for _ in 0..1000 {
            let last = self.watcher.subscription.last_cseq();
            self.watcher.answer(last, 200);
            self.watcher.pass(2_000);
            self.poll();
        }
    }

    #[track_caller]
    fn assert_right(&self) {
        assert_eq!(self.panel.lamps.len(), self.count);
        let lines = self.states.lines.lock().unwrap();
        for place in 0..self.count {
            let lamp = self.panel.lamps[&uri(place)]
                .as_deref()
                .unwrap_or("nothing");
            let line = lines.get(&place).copied().unwrap_or(LineState::Idle);
            let shown = match line {
                LineState::Ringing => "<state>early</state>",
                LineState::InUse | LineState::Busy => "<state>confirmed</state>",
                _ => "<state>terminated</state>",
            };
            assert!(lamp.contains(shown), "lamp {place} is {line:?}:\n{lamp}");
        }
    }
}

/// The states of the lamps.
#[derive(Debug, Default)]
struct States {
    lines: Mutex<BTreeMap<usize, LineState>>,
    reads: Mutex<usize>,
}

impl States {
    fn reads(&self) -> usize {
        *self.reads.lock().unwrap()
    }
}

impl ResourceStates for States {
    fn state(&self, place: usize) -> Option<State> {
        *self.reads.lock().unwrap() += 1;
        let line = self.lines.lock().unwrap().get(&place).copied();
        Some(State::Extension(ExtensionState {
            extension: Name::new(&format!("{place}")),
            line: line.unwrap_or(LineState::Idle),
        }))
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn uri(place: usize) -> String {
    format!("sip:{place}@example.com")
}
