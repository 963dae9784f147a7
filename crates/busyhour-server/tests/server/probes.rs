//! The server sends probes to devices from which it receives nothing.

use crate::{Fixture, exchange::ok, local, open_config, register, register_as, subscribe};
use busyhour_iax2::CallTokens;
use busyhour_registrar::Reach;
use busyhour_server::server::ServerConfig;
use busyhour_sip::Flow;
use std::{net::SocketAddr, time::Duration};

#[test]
fn a_device_that_does_not_answer_counts_as_unreachable_until_it_does() {
    let mut server = Fixture::with(asking());
    server.ask(&register(1, "Contact: <sip:a@192.0.2.9:5070>;expires=3600"));
    server.receive_as(lamp(), &subscribe(1, "", "Event: presence"));
    server.settle();
    let sent = server.watch_for(110);
    let questions = of(&sent, "OPTIONS ");
    assert!(questions.len() >= 3, "{sent:?}");
    assert!(questions[0].starts_with("OPTIONS sip:a@192.0.2.9:5070 SIP/2.0\r\n"));
    let told = of(&sent, "NOTIFY ");
    assert!(told[0].contains("<basic>open</basic>"), "{told:?}");
    assert!(
        told.last().unwrap().contains("<basic>closed</basic>"),
        "{told:?}"
    );
    assert_eq!(server.stats().registrar.unreachable, 1);
    assert_eq!(
        server.stats().registrar.binding_count,
        1,
        "its lease continues"
    );

    let sent = server.watch_for(65);
    let questions = of(&sent, "OPTIONS ");
    assert!(
        (1..=2).contains(&questions.len()),
        "once in a minute: {sent:?}"
    );
    server.receive(&ok(questions[0]));
    let told = server.watch_for(1);
    assert!(
        of(&told, "NOTIFY ")[0].contains("<basic>open</basic>"),
        "{told:?}"
    );
    assert_eq!(server.stats().registrar.probes_answered, 1);
}

#[test]
fn a_device_that_answers_or_sends_often_enough_stays_reachable() {
    let mut server = Fixture::with(asking());
    server.ask(&register(1, "Contact: <sip:a@192.0.2.9:5070>;expires=3600"));
    for _ in 0..20 {
        server.pass(25);
        server.receive("\r\n\r\n");
    }
    assert_eq!(
        server.stats().registrar.probed,
        0,
        "the device sends keep-alives"
    );
    let mut asked = 0;
    for _ in 0..600 {
        server.pass(1);
        let sent = server.sent();
        for question in of(&sent, "OPTIONS ") {
            asked += 1;
            server.receive(&ok(question).replace("200 OK", "481 Nothing Like It"));
        }
    }
    assert!((8..=11).contains(&asked), "once in a minute: {asked}");
    assert_eq!(server.stats().registrar.unreachable, 0);
}

#[test]
fn many_devices_that_register_at_once_are_probed_evenly() {
    const DEVICES: usize = 1200;
    let mut server = Fixture::with(asking());
    for number in 0..DEVICES {
        let at: SocketAddr = ([10, 0, (number / 256) as u8, number as u8], 5060).into();
        let contact = format!("Contact: <sip:d{number}@{at}>;expires=3600");
        server.receive_as(at, &register_as(&format!("d{number}"), 1, &contact));
    }
    server.settle();
    server.sent();
    // Each device is probed for the first time at its own moment of the minute.
    let mut most = 0;
    let mut first = 0;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..95 {
        server.pass(1);
        let sent = server.sent();
        let new = of(&sent, "OPTIONS ");
        let new = new.iter().filter(|one| {
            let line = one.lines().next().unwrap_or_default().to_owned();
            seen.insert(line)
        });
        let new = new.count();
        first += new;
        most = most.max(new);
    }
    assert_eq!(first, DEVICES);
    assert!(most < 60, "{most} in one second, where 20 are even");
}

#[test]
fn no_device_is_probed_by_default() {
    let mut server = Fixture::open();
    server.ask(&register(1, "Contact: <sip:a@192.0.2.9:5070>;expires=3600"));
    server.pass(1000);
    assert_eq!(of(&server.sent(), "OPTIONS ").len(), 0);
}

#[test]
fn a_device_that_may_listen_elsewhere_than_it_sends_from_is_not_probed() {
    let mut server = Fixture::with(asking());
    let source = ([192, 0, 2, 9], 40_000).into();
    for (user, host) in [("same", "192.0.2.9:5070"), ("another", "192.0.2.11:40000")] {
        let contact = format!("Contact: <sip:{user}@{host}>;expires=3600");
        server.receive_as(source, &register_as(user, 1, &contact));
    }
    server.settle();
    server.pass(200);
    let registrar = server.stats().registrar;
    assert_eq!((registrar.binding_count, registrar.flow_count), (2, 0));
    assert_eq!((registrar.probed, registrar.unreachable), (0, 0));
    let translated = "Contact: <sip:inside@192.168.1.5:5060>;expires=3600";
    server.receive_as(source, &register_as("inside", 1, translated));
    server.settle();
    server.pass(200);
    let registrar = server.stats().registrar;
    assert_eq!((registrar.flow_count, registrar.unreachable), (1, 1));
}

#[test]
fn a_flow_without_a_local_address_of_its_own_is_not_followed() {
    let mut server = Fixture::with(asking());
    let register = register(1, "Contact: <sip:a@192.0.2.9:5070>;expires=3600");
    let unspecified = ([0, 0, 0, 0], 5060).into();
    let source = ([192, 0, 2, 9], 5070).into();
    server.receive_over(Flow::udp(unspecified, source), &register);
    server.settle();
    server.pass(200);
    let registrar = server.stats().registrar;
    assert_eq!((registrar.binding_count, registrar.flow_count), (1, 0));
    assert_eq!((registrar.probed, registrar.unreachable), (0, 0));
}

#[test]
fn a_device_behind_an_address_translation_is_probed_more_often() {
    let mut server = Fixture::with(ServerConfig {
        nat_probe_interval: Duration::from_secs(30),
        ..open_config()
    });
    let source = ([192, 0, 2, 9], 40_000).into();
    for (user, host) in [
        ("inside", "192.168.1.5:5060"),
        ("outside", "192.0.2.9:40000"),
    ] {
        let contact = format!("Contact: <sip:{user}@{host}>;expires=3600");
        server.receive_as(source, &register_as(user, 1, &contact));
    }
    server.settle();
    server.sent();
    let mut asked = 0;
    for _ in 0..120 {
        server.pass(1);
        for question in of(&server.sent(), "OPTIONS ") {
            assert!(question.starts_with("OPTIONS sip:inside@192.168.1.5:5060 "));
            asked += 1;
            server.receive_as(source, &ok(question));
        }
    }
    assert!((3..=4).contains(&asked), "{asked}");
    let registrar = server.stats().registrar;
    assert_eq!((registrar.flow_count, registrar.unreachable), (1, 0));
}

/// A telephone that answers nothing, with probes far apart: its translation hears of it every 20 s.
#[test]
fn a_silent_device_behind_an_address_translation_is_sent_keep_alives() {
    let mut server = Fixture::with(ServerConfig {
        nat_probe_interval: Duration::from_secs(3_600),
        nat_keep_alive: Duration::from_secs(20),
        ..open_config()
    });
    let source = ([192, 0, 2, 9], 40_000).into();
    for (user, host) in [
        ("inside", "192.168.1.5:5060"),
        ("outside", "192.0.2.8:5070"),
    ] {
        let source = match user {
            "inside" => source,
            _ => ([192, 0, 2, 8], 5070).into(),
        };
        let contact = format!("Contact: <sip:{user}@{host}>;expires=3600");
        server.receive_as(source, &register_as(user, 1, &contact));
    }
    server.settle();
    server.sent();
    let mut count = 0;
    for _ in 0..200 {
        server.pass(1);
        for (flow, message) in server.sent.take_all() {
            assert_eq!((flow.remote, &message[..]), (source, &b"\r\n\r\n"[..]));
            count += 1;
        }
    }
    assert!((9..=10).contains(&count), "{count}");
    assert_eq!(server.stats().registrar.kept_alive, count);
    for _ in 0..20 {
        server.receive_as(source, "\r\n\r\n");
        server.pass(10);
    }
    assert!(
        server.sent.take_all().is_empty(),
        "it is not silent any more"
    );
}

#[test]
fn restored_contacts_are_asked_once_and_believed_when_they_answer() {
    const DEVICES: u8 = 60;
    let mut server = Fixture::open();
    let place = |number: u8| SocketAddr::from(([10, 0, 0, number], 5060));
    for number in 0..DEVICES {
        let contact = format!("Contact: <sip:d@{}>;expires=3600", place(number));
        server.receive_as(
            place(number),
            &register_as(&format!("d{number}"), 1, &contact),
        );
    }
    server.settle();
    server.restart(ServerConfig {
        verify_within: Duration::from_secs(60),
        ..open_config()
    });
    server.receive_as(
        lamp(),
        &subscribe(1, "", "Event: presence").replace("alice", "d0"),
    );
    server.settle();
    let reaches = |server: &Fixture| {
        let page = server.server.bindings(None, 100, None).bindings;
        page.iter().map(|one| one.binding.contact.reach()).collect()
    };
    let all: Vec<Reach> = reaches(&server);
    assert_eq!(all, [Reach::Unverified; DEVICES as usize]);
    // d0 does not answer, d1 registers, and the others answer.
    let contact = format!("Contact: <sip:d@{}>;expires=3600", place(1));
    server.receive_as(place(1), &register_as("d1", 2, &contact));
    server.settle();
    let (mut asked, mut told, mut most) = (0, Vec::new(), 0);
    for _ in 0..90 {
        server.pass(1);
        let sent: Vec<_> = server.sent.take_all();
        let mut at_once = 0;
        for (flow, message) in sent {
            let message = String::from_utf8(message.to_vec()).unwrap();
            if message.starts_with("NOTIFY ") {
                server.receive_as(lamp(), &ok(&message));
                told.push(message);
            } else if message.starts_with("OPTIONS ") {
                at_once += 1;
                if flow.remote != place(0) {
                    server.receive_as(flow.remote, &ok(&message));
                }
            }
        }
        asked += at_once;
        most = most.max(at_once);
    }
    assert_eq!(
        asked,
        usize::from(DEVICES) - 2 + 3,
        "d0 is asked three times"
    );
    assert!(most < 8, "{most} in one second, where one is even");
    assert!(
        told[0].contains("<basic>open</basic>"),
        "calls try it: {told:?}"
    );
    assert!(
        told.last().unwrap().contains("<basic>closed</basic>"),
        "{told:?}"
    );
    let all: Vec<Reach> = reaches(&server);
    let lost = all.iter().filter(|reach| **reach == Reach::Unreachable);
    assert_eq!(lost.count(), 1);
    let found = all.iter().filter(|reach| **reach == Reach::Reachable);
    assert_eq!(found.count(), usize::from(DEVICES) - 1);
    let registrar = server.stats().registrar;
    assert_eq!(registrar.verified, u64::from(DEVICES) - 1);
    assert_eq!(registrar.unreachable, 1);
    // It is still there, and nobody else is watched any more.
    assert_eq!(registrar.flow_count, 1);
    server.receive_as(place(0), "\r\n\r\n");
    assert_eq!(server.stats().registrar.flow_count, 0);
    assert!(
        reaches(&server)
            .iter()
            .all(|reach: &Reach| reach.is_believed())
    );
}

impl Fixture {
    fn receive_as(&mut self, from: SocketAddr, text: &str) {
        self.receive_over(Flow::udp(local(), from), text);
    }

    fn receive_over(&mut self, flow: Flow, text: &str) {
        let datagram = self.runtime.buffers().copy_from(text.as_bytes()).unwrap();
        self.server.message(flow, &datagram);
        self.simulation().run_until_idle();
    }

    fn receive_iax2(&mut self, frame: &[u8]) {
        let datagram = self.runtime.buffers().copy_from(frame).unwrap();
        self.server
            .iax2_datagram(Flow::udp(local(), lamp()), &datagram);
        self.simulation().run_until_idle();
    }

    /// What is sent within `seconds` seconds, while the watcher answers and the phone
    /// does not.
    fn watch_for(&mut self, seconds: u64) -> Vec<String> {
        let mut all = self.sent();
        for second in 0..seconds {
            let from = if second == 0 { 0 } else { all.len() };
            self.pass(1);
            all.extend(self.sent());
            let told: Vec<_> = of(&all[from..], "NOTIFY ").into_iter().map(ok).collect();
            told.iter()
                .for_each(|answer| self.receive_as(lamp(), answer));
        }
        all
    }
}

fn asking() -> ServerConfig {
    ServerConfig {
        probe_interval: Duration::from_secs(60),
        ..open_config()
    }
}

fn lamp() -> SocketAddr {
    ([192, 0, 2, 10], 5060).into()
}

fn of<'s>(sent: &'s [String], begin: &str) -> Vec<&'s str> {
    let sent = sent.iter().map(String::as_str);
    sent.filter(|one| one.starts_with(begin)).collect()
}

#[test]
fn a_device_of_iax2_is_poked_and_its_pong_is_acknowledged() {
    let mut server = Fixture::with(ServerConfig {
        call_tokens: CallTokens::Optional,
        domains: vec!["example.com".to_owned()],
        ..asking()
    });
    // REGREQ with a user name and a refresh of 3600 s, then the ACK of its REGACK.
    let request = b"\x80\x05\0\0\0\0\0\0\0\0\x06\x0d\x06\x01a\x13\x02\x0e\x10";
    server.receive_iax2(request);
    server.settle();
    let answer = server.sent.take_last();
    assert_eq!(answer[10..12], [6, 0x0f], "a REGACK: {answer:?}");
    let call = [answer[0] & 0x7f, answer[1]];
    server.receive_iax2(&[&[0x80, 5], &call[..], &answer[4..8], &[1, 1, 6, 4]].concat());
    assert_eq!(server.stats().registrar.binding_count, 1);

    let mut asked = 0;
    for _ in 0..200 {
        server.pass(1);
        for (flow, frame) in server.sent.take_all() {
            assert_eq!(
                (flow.remote, &frame[10..12]),
                (lamp(), &[6, 0x1e][..]),
                "a POKE"
            );
            assert_eq!(frame[2..4], [0, 0], "the POKE is outside of any call");
            asked += 1;
            let pong = [
                &[0x80, 9, frame[0] & 0x7f, frame[1]],
                &frame[4..8],
                &[0, 1, 6, 3],
            ];
            server.receive_iax2(&pong.concat());
            let ack = server.sent.take_last();
            assert_eq!(ack[10..12], [6, 4], "an ACK: {ack:?}");
            assert_eq!((&ack[2..4], ack[9]), (&[0, 9][..], 1));
        }
    }
    assert!((2..=4).contains(&asked), "{asked}");
    assert_eq!(server.stats().registrar.unreachable, 0);
    // From now on the device does not answer.
    server.pass(200);
    assert_eq!(server.stats().registrar.unreachable, 1);
}
