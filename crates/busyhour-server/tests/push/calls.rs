use crate::{
    exchange::digest_config,
    scripted::ScriptedClient,
    world::{ALICE, BOB, BOB_AT_HOME, CAROL, Phone, World, respond},
};
use busyhour_server::server::{CallConfig, HttpFailure, PushConfig, PushService, ServerConfig};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

const URL: &str = "http://push.example/wake";
const PN: &str = ";pn-provider=acme;pn-param=p;pn-prid=b0b";

struct Sleeping {
    world: World,
    client: Arc<ScriptedClient>,
}

impl Sleeping {
    /// Alice, and bob who has fallen asleep.
    fn new() -> Self {
        let mut this = Self::awake(PN);
        this.world.pass(11_000);
        this
    }

    fn awake(parameters: &str) -> Self {
        let client = Arc::new(ScriptedClient::default());
        let service = PushService::Webhook(None);
        let push = PushConfig::new("acme", service, URL.parse().unwrap());
        let mut world = World::with(ServerConfig {
            http: client.clone(),
            push: vec![push],
            ..digest_config()
        });
        world.register(ALICE);
        world.register(CAROL);
        let mut this = Self { world, client };
        let answer = this.register(BOB, 10, parameters);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        this
    }

    fn register(&mut self, phone: Phone, cseq: u32, parameters: &str) -> String {
        let Phone { user, address, .. } = phone;
        let contact = format!("Contact: <sip:{user}@{address}{parameters}>\r\n");
        self.register_with(phone, cseq, &contact)
    }

    fn register_with(&mut self, phone: Phone, cseq: u32, contact: &str) -> String {
        let Phone { user, address, .. } = phone;
        let to = format!("<sip:{user}@example.com>");
        let id = format!("register-{address}");
        let request = self
            .world
            .request(phone, "REGISTER", "sip:example.com", &to, &id, contact);
        let request = request.replace("CSeq: 1 ", &format!("CSeq: {cseq} "));
        self.world.ask(phone, &request)
    }

    /// What the service is asked.
    #[track_caller]
    fn asked(&self, outcome: Result<u16, HttpFailure>) -> Value {
        let request = self.client.end(URL, outcome);
        serde_json::from_slice(&request.body).unwrap()
    }

    fn all(&mut self, phone: Phone) -> Vec<String> {
        let mut messages = Vec::new();
        while let Some(message) = self.world.try_read(phone) {
            messages.push(message);
        }
        messages
    }

    fn starts(&mut self, phone: Phone) -> Vec<String> {
        let messages = self.all(phone);
        let start = |it: &String| it.split(' ').take(2).collect::<Vec<_>>().join(" ");
        messages.iter().map(start).collect()
    }
}

#[test]
fn a_registration_is_told_that_its_service_is_known_and_how_early_to_refresh() {
    let mut sleeping = Sleeping::awake(PN);
    for (parameters, cseq) in [(PN, 20), (";pn-provider=acme", 30)] {
        let answer = sleeping.register(BOB, cseq, parameters);
        assert!(
            answer.contains("\r\nFeature-Caps: *;+sip.pns=\"acme\";+sip.pnsreg=\"120\"\r\n"),
            "{answer}"
        );
    }
    let answer = sleeping.register(BOB, 40, "");
    assert!(!answer.contains("Feature-Caps"), "{answer}");
    let answer = sleeping.register(BOB, 50, ";pn-provider=other;pn-prid=x");
    assert!(
        answer.starts_with("SIP/2.0 555 Push Notification Service Not Supported\r\n"),
        "{answer}"
    );
    assert_eq!(sleeping.world.server.stats().push.unsupported, 1);
}

#[test]
fn a_call_waits_for_the_telephone_and_goes_where_it_registers_then() {
    let mut sleeping = Sleeping::new();
    sleeping.world.call(ALICE, "bob", "c1");
    let asked = sleeping.asked(Ok(200));
    assert_eq!(asked["type"], "call");
    assert_eq!(asked["aor"], "sip:bob@example.com");
    assert_eq!(
        (&asked["prid"], &asked["param"]),
        (&"b0b".into(), &"p".into())
    );
    assert_eq!(asked["call_id"], "c1");
    sleeping.world.pass(2_000);
    assert_eq!(sleeping.starts(ALICE), ["SIP/2.0 100"], "nobody rings yet");
    assert_eq!(sleeping.starts(BOB), [""; 0]);
    assert_eq!(sleeping.world.server.stats().push.waiting_count, 1);
    // It has another address now.
    let at_home = sleeping.register(BOB_AT_HOME, 1, PN);
    assert!(at_home.starts_with("SIP/2.0 200 "), "{at_home}");
    sleeping.world.pass(100);
    let invite = sleeping.world.read(BOB_AT_HOME);
    assert!(
        invite.starts_with("INVITE sip:bob@192.0.2.18:5060;pn-provider"),
        "{invite}"
    );
    sleeping
        .world
        .send(BOB_AT_HOME, &respond(BOB_AT_HOME, &invite, "180 Ringing"));
    sleeping
        .world
        .send(BOB_AT_HOME, &respond(BOB_AT_HOME, &invite, "200 OK"));
    assert_eq!(sleeping.starts(ALICE), ["SIP/2.0 180", "SIP/2.0 200"]);
    let stats = sleeping.world.server.stats().push;
    assert_eq!(
        (stats.accepted, stats.woken, stats.waiting_count),
        (1, 1, 0)
    );
    // Who has just registered is awake.
    sleeping.world.call(CAROL, "bob", "c2");
    assert!(sleeping.client.waiting().is_empty());
}

/// The desk telephone rings at once; the mobile is forked to when it has registered, and answers.
#[test]
fn the_desk_rings_until_the_mobile_that_was_woken_and_came_late_answers() {
    let (desk, mobile) = (BOB_AT_HOME, BOB);
    let mut sleeping = Sleeping::awake(PN);
    let answer = sleeping.register(desk, 1, "");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    sleeping.world.pass(11_000);
    sleeping.world.call(ALICE, "bob", "c1");
    let at_desk = sleeping.world.read_request(desk, "INVITE");
    sleeping
        .world
        .send(desk, &respond(desk, &at_desk, "180 Ringing"));
    assert_eq!(sleeping.starts(ALICE), ["SIP/2.0 100", "SIP/2.0 180"]);
    assert_eq!(sleeping.asked(Ok(200))["prid"], "b0b");
    sleeping.world.pass(3_000);
    assert_eq!(sleeping.starts(mobile), [""; 0], "it is on its way");

    let answer = sleeping.register(mobile, 20, PN);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    sleeping.world.pass(100);
    let at_mobile = sleeping.world.read_request(mobile, "INVITE");
    assert_eq!(sleeping.starts(desk), [""; 0], "it rings on");
    sleeping
        .world
        .send(mobile, &respond(mobile, &at_mobile, "200 OK"));
    let answer = sleeping.world.read_status(ALICE, "200");
    assert!(answer.contains(mobile.address), "{answer}");
    let cancel = sleeping.world.read_request(desk, "CANCEL");
    sleeping.world.send(desk, &respond(desk, &cancel, "200 OK"));
    let ended = respond(desk, &at_desk, "487 Request Terminated");
    sleeping.world.send(desk, &ended);
    sleeping.world.read_request(desk, "ACK");
    let stats = sleeping.world.server.stats();
    assert_eq!((stats.push.woken, stats.push.waiting_count), (1, 0));
    assert_eq!(stats.calls.dialogs.call_count, 1);
}

#[test]
fn a_telephone_that_does_not_wake_up_is_a_480_with_the_reason_and_a_record() {
    let mut sleeping = Sleeping::new();
    sleeping.world.call(ALICE, "bob", "c1");
    sleeping.asked(Ok(200));
    sleeping.world.pass(19_000);
    assert_eq!(sleeping.starts(ALICE), ["SIP/2.0 100"]);
    sleeping.world.pass(2_000);
    let answers = sleeping.all(ALICE);
    assert!(
        answers[0].starts_with("SIP/2.0 480 Device Did Not Wake Up\r\n"),
        "{answers:?}"
    );
    let stats = sleeping.world.server.stats();
    assert_eq!((stats.push.not_woken, stats.push.waiting_count), (1, 0));
    assert_eq!(
        stats.calls.outcomes.unavailable + stats.calls.outcomes.no_answer,
        1
    );
}

#[test]
fn a_service_that_fails_is_asked_again_and_one_that_knows_nobody_ends_the_registration() {
    let mut sleeping = Sleeping::new();
    sleeping.world.call(ALICE, "bob", "c1");
    for (outcome, pause) in [(Ok(503), 1_100), (Err(HttpFailure::Late), 2_100)] {
        sleeping.asked(outcome);
        sleeping.world.pass(pause);
    }
    sleeping.asked(Ok(500));
    sleeping.world.pass(100);
    let answers = sleeping.all(ALICE);
    assert!(
        answers
            .last()
            .unwrap()
            .starts_with("SIP/2.0 480 Device Cannot Be Woken\r\n"),
        "{answers:?}"
    );
    let stats = sleeping.world.server.stats().push;
    assert_eq!((stats.sent, stats.retried, stats.failed), (3, 2, 1));

    sleeping.world.pass(40_000);
    sleeping.all(ALICE);
    sleeping.world.call(ALICE, "bob", "c2");
    sleeping.asked(Ok(410));
    sleeping.world.pass(100);
    let answers = sleeping.all(ALICE);
    assert!(
        answers
            .last()
            .unwrap()
            .starts_with("SIP/2.0 480 Device Is Gone\r\n"),
        "{answers:?}"
    );
    assert_eq!(sleeping.world.server.bindings_of("bob").bindings.len(), 0);
    assert_eq!(sleeping.world.server.stats().push.unregistered, 1);
}

#[test]
fn a_caller_who_gives_up_and_others_who_call_wake_nobody_twice() {
    let mut sleeping = Sleeping::new();
    let invite = sleeping.world.call(ALICE, "bob", "c1");
    sleeping.world.call(CAROL, "bob", "c2");
    assert_eq!(sleeping.client.waiting().len(), 1, "one push for both");
    sleeping.asked(Ok(200));
    let cancel = invite
        .replace("INVITE sip", "CANCEL sip")
        .replace(" INVITE\r\n", " CANCEL\r\n");
    sleeping.world.send(ALICE, &cancel);
    let starts = sleeping.starts(ALICE);
    assert!(starts.contains(&"SIP/2.0 487".to_owned()), "{starts:?}");
    sleeping.register(BOB, 20, PN);
    sleeping.world.pass(100);
    let invites = sleeping.all(BOB);
    assert_eq!(invites.len(), 1, "{invites:?}");
    assert!(invites[0].contains("Call-ID: c2\r\n"));
}

/// 60 an hour for all: half of what the others have left.
#[test]
fn one_caller_wakes_a_telephone_thirty_times_an_hour_and_leaves_some_for_others() {
    let mut sleeping = Sleeping::new();
    for (caller, count) in [(ALICE, 30), (CAROL, 15)] {
        for number in 0..count {
            let id = format!("{}{number}", caller.user);
            sleeping.world.call(caller, "bob", &id);
            sleeping.asked(Ok(200));
            sleeping.world.pass(21_000);
            sleeping.all(caller);
        }
        sleeping.world.call(caller, "bob", "once-more");
        assert!(sleeping.client.waiting().is_empty());
        let answers = sleeping.all(caller);
        let last = answers.last().unwrap();
        assert!(
            last.starts_with("SIP/2.0 480 Woken Too Often\r\n"),
            "{last}"
        );
    }
    assert_eq!(sleeping.world.server.stats().push.limited, 2);
}

#[test]
fn a_sleeping_telephone_is_woken_before_its_registration_ends_also_after_a_restart() {
    let mut sleeping = Sleeping::new();
    sleeping.world.restart();
    sleeping.world.pass(3_600_000 - 120_000 - 12_000);
    assert!(sleeping.client.waiting().is_empty());
    sleeping.world.pass(2_000);
    assert_eq!(sleeping.asked(Ok(200))["type"], "refresh");
    sleeping.register(BOB, 20, PN);
    sleeping.world.pass(1_000_000);
    assert!(sleeping.client.waiting().is_empty(), "it has refreshed");
    assert_eq!(sleeping.world.server.stats().push.refreshes, 1);
}

#[test]
fn nobody_is_to_be_woken_for_contacts_that_are_gone() {
    let mut sleeping = Sleeping::awake(PN);
    let planned = |sleeping: &Sleeping| sleeping.world.server.stats().push.refresh_count;
    let timers = sleeping.world.runtime.stats().timers.pending_count;
    for round in 0..10 {
        let first = sleeping.register(BOB, 20 + 2 * round, PN);
        assert!(first.starts_with("SIP/2.0 200 "), "{first}");
        assert_eq!(planned(&sleeping), 1);
        let all = "Contact: *\r\nExpires: 0\r\n";
        let gone = sleeping.register_with(BOB, 21 + 2 * round, all);
        assert!(gone.starts_with("SIP/2.0 200 "), "{gone}");
        assert_eq!(planned(&sleeping), 0);
    }
    sleeping.world.pass(60_000);
    assert!(sleeping.world.runtime.stats().timers.pending_count <= timers);
}

/// A telephone that may not be woken is one that cannot be reached.
#[test]
fn the_voicemail_takes_the_call_of_a_telephone_that_may_not_be_woken() {
    let client = Arc::new(ScriptedClient::default());
    let service = PushService::Webhook(None);
    let push = PushConfig {
        hourly_max: 1,
        ..PushConfig::new("acme", service, URL.parse().unwrap())
    };
    let world = World::with(ServerConfig {
        http: client.clone(),
        push: vec![push],
        calls: CallConfig {
            voicemail: Some("carol".into()),
            ..CallConfig::default()
        },
        ..digest_config()
    });
    let mut sleeping = Sleeping { world, client };
    for phone in [ALICE, CAROL] {
        sleeping.world.register(phone);
    }
    sleeping.register(BOB, 10, PN);
    sleeping.world.pass(11_000);
    sleeping.world.call(ALICE, "bob", "c1");
    sleeping.asked(Ok(200));
    // The time between two pushes, and for this one.
    sleeping.world.pass(30_000);
    sleeping.all(CAROL);
    sleeping.all(ALICE);
    sleeping.world.call(ALICE, "bob", "c2");
    let invites = sleeping.all(CAROL);
    let invite = invites.first().expect("a call for the voicemail");
    assert!(invite.contains(";cause=404 SIP/2.0"), "{invite}");
}

/// How long it is believed to be awake is the operator's to say: applications differ in when they are suspended.
#[test]
fn for_as_long_as_is_set_a_telephone_is_believed_to_be_awake() {
    for (seconds, is_woken) in [(60, false), (2, true)] {
        let client = Arc::new(ScriptedClient::default());
        let push = PushConfig {
            awake_for: Duration::from_secs(seconds),
            ..PushConfig::new("acme", PushService::Webhook(None), URL.parse().unwrap())
        };
        let world = World::with(ServerConfig {
            http: client.clone(),
            push: vec![push],
            ..digest_config()
        });
        let mut sleeping = Sleeping { world, client };
        sleeping.world.register(ALICE);
        sleeping.register(BOB, 10, PN);
        sleeping.world.pass(3_000);
        sleeping.world.call(ALICE, "bob", "c1");
        let heard = sleeping.starts(BOB);
        let is_called = heard.iter().any(|it| it.starts_with("INVITE "));
        assert_eq!(is_called, !is_woken, "{heard:?}");
        let waiting = sleeping.world.server.stats().push.waiting_count;
        assert_eq!(waiting, u64::from(is_woken));
    }
}
