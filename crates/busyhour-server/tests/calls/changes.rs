//! The stream of changes, read over HTTP.

use crate::{
    established,
    exchange::{Silent, open_config},
    reader::{Host, Reader, Told},
    world::{ALICE, BOB, CAROL, Phone, World, respond, within},
};
use busyhour::runtime::Runtime;
use busyhour_registrar::watch::{MessageCounts, MessageSummary};
use busyhour_server::server::{HintConfig, Server};
use busyhour_sip::{Flow, Transport};
use busyhour_store::MemoryStore;
use std::{sync::Arc, time::Duration};

fn voice(new: u32) -> MessageSummary {
    let counts = MessageCounts {
        new,
        ..MessageCounts::default()
    };
    MessageSummary {
        voice: Some(counts),
        ..MessageSummary::default()
    }
}

fn set_mailbox(server: &Server, id: &str, new: u32) {
    let set = server.set_mailbox(id, voice(new), Box::new(|_| ()));
    assert!(set.is_ok(), "{set:?}");
}

fn set_hint(server: &Server, extension: &str, devices: &[&str]) {
    let hint = HintConfig {
        extension: extension.to_owned(),
        devices: devices.iter().map(|&device| device.to_owned()).collect(),
    };
    server.set_hint(&hint, Box::new(|_| ())).unwrap();
}

/// A REGISTER of its own number.
fn register(world: &mut World, phone: Phone, cseq: u32, parameters: &str) {
    let Phone { user, address, .. } = phone;
    let request = world.request(
        phone,
        "REGISTER",
        "sip:example.com",
        &format!("<sip:{user}@example.com>"),
        &format!("register-{address}"),
        &format!("Contact: <sip:{user}@{address}>{parameters}\r\n"),
    );
    let request = request.replace("CSeq: 1 ", &format!("CSeq: {cseq} "));
    let answer = world.ask(phone, &request);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

/// Registers over a connection, whose end the server learns.
fn register_over_tcp(world: &mut World, phone: Phone) -> Flow {
    let flow = Flow {
        transport: Transport::Tcp,
        connection: 7,
        ..Flow::udp(
            phone.server.parse().unwrap(),
            phone.address.parse().unwrap(),
        )
    };
    let Phone { user, address, .. } = phone;
    let request = world.request(
        phone,
        "REGISTER",
        "sip:example.com",
        &format!("<sip:{user}@example.com>"),
        "over-tcp",
        &format!("Contact: <sip:{user}@{address};transport=tcp>\r\n"),
    );
    let request = request.replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    let send = |world: &mut World, text: &str| {
        let message = world.runtime.buffers().copy_from(text.as_bytes()).unwrap();
        world.server.message(flow, &message);
        world.pass(20);
        world.read(phone)
    };
    let challenge = send(world, &request);
    let proven = world.proven(phone, &request, &challenge);
    let answer = send(world, &proven);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    flow
}

#[track_caller]
fn live(reader: &mut Reader) -> String {
    let told = reader.next();
    assert_eq!(told.event, "live", "{told:?}");
    told.id
}

#[test]
fn every_kind_of_change_is_told_in_order_to_those_who_asked_for_it() {
    let mut world = World::new();
    let host = Host::new(&world.runtime, &world.server);
    // What was before somebody reads is no change.
    register(&mut world, BOB, 1, "");
    let mut all = host.read("", None);
    live(&mut all);
    let mut calls_of_bob = host.read("?kind=call,hint&user=bob", None);
    let mut ringing = host.read("?having=line=ringing", None);
    let mut registered = host.read("?user=sip:alice@example.com&having=contacts", None);
    for reader in [&mut calls_of_bob, &mut ringing, &mut registered] {
        live(reader);
    }

    register(&mut world, ALICE, 10, "");
    // A refresh that changes no contact is not told.
    register(&mut world, ALICE, 20, "");
    register(&mut world, ALICE, 30, ";q=0.5;expires=60");
    world.pass(61_000);
    register(&mut world, ALICE, 40, "");
    register(&mut world, ALICE, 50, ";expires=0");
    assert_eq!(
        all.next_by_subject(9),
        [
            "device sip:alice@example.com: changed idle contact_count=1",
            "device sip:alice@example.com: changed unavailable contact_count=0 gone=true",
            "device sip:alice@example.com: changed idle contact_count=1",
            "device sip:alice@example.com: changed unavailable contact_count=0 gone=true",
            "registration sip:alice@example.com: registered contact_count=1",
            "registration sip:alice@example.com: refreshed contact_count=1",
            "registration sip:alice@example.com: expired contact_count=0 gone=true",
            "registration sip:alice@example.com: registered contact_count=1",
            "registration sip:alice@example.com: unregistered contact_count=0 gone=true",
        ]
    );
    let contacts: Vec<_> = (0..3).map(|_| registered.next().data).collect();
    assert_eq!(contacts[0]["contacts"][0], "sip:alice@192.0.2.7:5060");
    assert_eq!(contacts[1]["event"], "refreshed");
    assert_eq!(contacts[2]["reachable"], serde_json::json!([0]));

    let flow = register_over_tcp(&mut world, CAROL);
    world.server.flow_failed(flow);
    world.pass(1_000);
    assert_eq!(
        all.next_by_subject(5),
        [
            "device sip:carol@example.com: changed idle contact_count=1",
            "device sip:carol@example.com: changed unavailable contact_count=0 gone=true",
            "registration sip:carol@example.com: registered contact_count=1",
            "registration sip:carol@example.com: unreachable contact_count=1",
            "registration sip:carol@example.com: deactivated contact_count=0 gone=true",
        ]
    );

    set_mailbox(&world.server, "alice", 2);
    set_hint(&world.server, "100", &["bob"]);
    assert_eq!(
        all.next_by_subject(2),
        [
            "hint 100: changed idle",
            "mailbox alice: changed voice_new=2"
        ]
    );
    register(&mut world, ALICE, 60, "");
    assert_eq!(all.next_by_subject(2).len(), 2);
    let answer = established(&mut world, "call-1");
    let bye = within(&mut world, BOB, "BYE", 1, &answer, false);
    world.send(BOB, &bye);
    let bye = world.read_request(ALICE, "BYE");
    world.send(ALICE, &respond(ALICE, &bye, "200 OK"));
    world.read_status(BOB, "200");
    assert_eq!(
        all.next_by_subject(9),
        [
            "call call-1: began trying",
            "call call-1: answered confirmed",
            "call call-1: ended remote-bye gone=true",
            "device sip:alice@example.com: changed in-use contact_count=1",
            "device sip:alice@example.com: changed idle contact_count=1",
            "device sip:bob@example.com: changed in-use contact_count=1",
            "device sip:bob@example.com: changed idle contact_count=1",
            "hint 100: changed in-use",
            "hint 100: changed idle",
        ]
    );
    world.call(CAROL, "bob", "call-2");
    let invite = world.read_request(BOB, "INVITE");
    world.send(BOB, &respond(BOB, &invite, "180 Ringing"));
    let rings: Vec<_> = (0..2).map(|_| ringing.next().shown()).collect();
    assert!(
        rings.contains(&"hint 100: changed ringing".to_owned()),
        "{rings:?}"
    );
    let of_bob: Vec<_> = (0..3).map(|_| calls_of_bob.next()).collect();
    let shown: Vec<_> = of_bob.iter().map(Told::shown).collect();
    assert_eq!(
        shown,
        [
            "call call-1: began trying",
            "call call-1: answered confirmed",
            "call call-1: ended remote-bye gone=true",
        ]
    );
    let ended = &of_bob[2].data;
    let of = |name: &str| ended[name].as_str().unwrap_or_default();
    assert_eq!(
        [of("user"), of("callee"), of("to"), of("ended_by")],
        [
            "alice",
            "sip:bob@example.com",
            "sip:bob@example.com",
            "callee"
        ]
    );
    assert_eq!(ended["status"], 200);

    let publish = world.request(
        BOB,
        "PUBLISH",
        "sip:bob@example.com",
        "<sip:bob@example.com>",
        "publish",
        "Event: presence\r\nContent-Type: application/pidf+xml\r\n",
    );
    let body = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:bob@example.com\">\
                <tuple id=\"1\"><status><basic>open</basic></status><note>lunch</note></tuple>\
                </presence>";
    let publish = publish.replace(
        "Content-Length: 0\r\n\r\n",
        &format!("Content-Length: {}\r\n\r\n{body}", body.len()),
    );
    let mut presence = host.read("?kind=device&user=bob&having=presence", None);
    live(&mut presence);
    let answer = world.ask(BOB, &publish);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let published = presence.next();
    let written = published.data["presence"].as_str().unwrap();
    assert!(written.contains("<note>lunch</note>"), "{written}");
    assert_eq!(world.stats().changes.reader_count, 5);
}

#[test]
fn a_reader_that_comes_back_gets_what_it_missed_or_learns_that_it_cannot() {
    let mut world = World::new();
    let host = Host::new(&world.runtime, &world.server);
    set_mailbox(&world.server, "alice", 1);
    register(&mut world, BOB, 1, "");
    set_hint(&world.server, "100", &["bob"]);

    let states = |reader: &mut Reader| {
        let mut states = Vec::new();
        loop {
            let told = reader.next();
            match told.event.as_str() {
                "state" => states.push(told.shown()),
                "live" => break (states, told.id),
                event => panic!("{event}: {states:?}"),
            }
        }
    };
    let sorted = |mut states: Vec<String>| {
        states.sort();
        states
    };
    let mut first = host.read("?snapshot=true", None);
    let (known, _) = states(&mut first);
    assert_eq!(
        sorted(known),
        [
            "device sip:bob@example.com: idle contact_count=1",
            "hint 100: idle",
            "mailbox alice: voice_new=1",
            "registration sip:bob@example.com: contact_count=1",
        ]
    );
    for new in 2..5 {
        set_mailbox(&world.server, "alice", new);
    }
    let ids: Vec<_> = (0..3).map(|_| first.next().id).collect();
    drop(first);
    for new in 5..8 {
        set_mailbox(&world.server, "alice", new);
    }
    world.pass(20);

    // It has lost two events on its way, and the connection.
    let mut again = host.read("?snapshot=true", Some(&ids[0]));
    let missed: Vec<_> = (0..5).map(|_| again.next()).collect();
    let new = |told: &Told| told.data["voice_new"].as_u64().unwrap();
    let numbers: Vec<_> = missed.iter().map(new).collect();
    assert_eq!(numbers, [3, 4, 5, 6, 7], "no gap, no duplicate");
    assert_eq!([&missed[0].id, &missed[1].id], [&ids[1], &ids[2]]);
    let last = live(&mut again);
    assert_eq!(last, missed[4].id);
    set_mailbox(&world.server, "alice", 8);
    let next = again.next();
    assert_eq!((new(&next), next.event.as_str()), (8, "change"));
    // A filter holds for what was missed, too.
    let mut others = host.read("?kind=hint", Some(&ids[0]));
    assert_eq!(live(&mut others), next.id);

    // A server does not know the ids of another one.
    let mut strange = host.read("?kind=mailbox", Some("1f-1"));
    assert_eq!(strange.next().event, "reset");
    assert_eq!(states(&mut strange).0, ["mailbox alice: voice_new=8"]);

    // After a while without readers nothing is kept.
    drop((again, others, strange));
    let is_quiet = || world.stats().changes.reader_count == 0;
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while !is_quiet() {
        assert!(std::time::Instant::now() < deadline, "readers that left");
        std::thread::sleep(Duration::from_millis(5));
    }
    let topic = |name: &str| {
        let stats = world.stats().runtime;
        stats
            .topics
            .into_iter()
            .find(|topic| topic.name == name)
            .unwrap()
    };
    assert!(topic("changes").cached_count > 0);
    world
        .runtime
        .simulation()
        .unwrap()
        .run_for(Duration::from_secs(301));
    assert_eq!(
        (
            topic("changes").cached_count,
            world.stats().changes.kept_len
        ),
        (0, 0)
    );
    let before = topic("changes.mailboxes").published;
    set_mailbox(&world.server, "alice", 9);
    assert_eq!(topic("changes.mailboxes").published, before, "for nobody");

    let mut late = host.read("", Some(&next.id));
    assert_eq!(late.next().event, "reset");
    let (known, _) = states(&mut late);
    assert!(
        known.contains(&"mailbox alice: voice_new=9".to_owned()),
        "{known:?}"
    );
    let stats = world.stats().changes;
    assert_eq!((stats.resumed, stats.reset, stats.lost), (2, 2, 0));
}

/// Sets a mailbox again and again.
struct Busy {
    runtime: Runtime,
    server: Server,
    told: u32,
}

impl Busy {
    fn change(&mut self, count: u32) {
        let name = "m".repeat(128);
        for _ in 0..count {
            self.told += 1;
            set_mailbox(&self.server, &name, self.told);
            if self.told.is_multiple_of(100) {
                self.runtime.simulation().unwrap().run_until_idle();
            }
        }
        self.runtime.simulation().unwrap().run_until_idle();
    }

    /// Until so many changes in a row find no room in the reader's queue.
    fn until_lost(&mut self, count: u32) {
        loop {
            let before = self.lost();
            self.change(count);
            if self.lost() - before == u64::from(count) {
                return;
            }
        }
    }

    /// What the reader's queue had no room for.
    fn lost(&self) -> u64 {
        let subscriptions = self.runtime.subscriptions();
        let mut readers = subscriptions.iter();
        let reader = readers.find(|one| one.name.starts_with("changes for "));
        reader.expect("a reader").lost
    }
}

#[test]
fn a_slow_reader_loses_what_is_not_kept_any_more_and_is_told_how_much() {
    let runtime = Runtime::simulated(1);
    let store = Box::new(MemoryStore::new());
    let server = Server::start(runtime.clone(), open_config(), Arc::new(Silent), store).unwrap();
    let host = Host::new(&runtime, &server);
    let mut reader = host.read("", None);
    live(&mut reader);
    let mut busy = Busy {
        runtime,
        server,
        told: 0,
    };
    // What its queue has no room for is still kept.
    busy.until_lost(500);
    for number in 1..=busy.told {
        let told = reader.next();
        assert_eq!(told.event, "change", "{told:?}");
        assert_eq!(told.data["voice_new"], number, "no gap, no duplicate");
    }
    assert_eq!(busy.server.stats().changes.lost, 0);

    let before = busy.told;
    // More than is kept, while the connection takes none: its buffers may grow until then.
    busy.until_lost(17_000);
    let (mut last, mut received, mut lost) = (u64::from(before), 0, 0);
    while received + lost < u64::from(busy.told - before) {
        let told = reader.next();
        if told.event == "lost" {
            lost += told.data["count"].as_u64().unwrap();
            continue;
        }
        let number = told.data["voice_new"].as_u64().unwrap();
        assert!(number > last, "{number} after {last}");
        (last, received) = (number, received + 1);
    }
    assert!(lost > 0);
    assert_eq!(busy.server.stats().changes.lost, lost);
    busy.change(1);
    let next = reader.next();
    assert_eq!(next.data["voice_new"], busy.told, "it goes on");

    // More at once than can wait for their number: nobody knows what they were, nor that
    // mailboxes were removed among them.
    let emptied = ["first", "last"];
    for id in emptied {
        set_mailbox(&busy.server, id, 1);
    }
    busy.runtime.simulation().unwrap().run_until_idle();
    let remove = |id| {
        let removed = busy.server.remove_mailbox(id, Box::new(|_| ()));
        assert_eq!(removed, Ok(true));
    };
    remove("first");
    for number in 0..65_600 {
        set_mailbox(&busy.server, "alice", number);
    }
    remove("last");
    busy.runtime.simulation().unwrap().run_until_idle();
    let not_numbered = busy.server.stats().changes.not_numbered;
    assert!((1..65_600).contains(&not_numbered), "{not_numbered}");
    let all_lost = || busy.server.stats().changes.lost + not_numbered;
    loop {
        let told = reader.next();
        if told.event == "lost" {
            lost += told.data["count"].as_u64().unwrap();
            if lost == all_lost() {
                break;
            }
        }
    }
    let mut again = host.read("?user=alice", Some(&next.id));
    assert_eq!(again.next().event, "reset");
    let state = again.next();
    assert_eq!(state.data["voice_new"], 65_599, "{state:?}");
    let (run, _) = next.id.split_once('-').unwrap();
    let mut odd = host.read("?kind=call", Some(&format!("{run}-{}", u64::MAX)));
    assert_eq!(odd.next().event, "reset");
    let mut all = host.read("?snapshot=true&kind=mailbox", None);
    let told = std::iter::from_fn(|| Some(all.next()).filter(|told| told.event != "live"));
    let told: Vec<_> = told.map(|told| told.data["user"].clone()).collect();
    assert!(told.contains(&"alice".into()), "{told:?}");
    for id in emptied {
        assert!(!told.contains(&id.into()), "it was removed: {told:?}");
    }
}

#[test]
fn a_stream_of_changes_is_guarded_and_bounded_as_others_are() {
    let world = World::new();
    let host = Host::new(&world.runtime, &world.server);
    let status = |request: &str, headers: &str| host.ask(request, headers).0;
    assert_eq!(status("GET /api/changes?kind=mail", ""), "400");
    assert_eq!(status("GET /api/changes?having=mail", ""), "400");
    assert_eq!(status("GET /api/changes?snapshot=maybe", ""), "400");
    let many = vec!["to"; 17].join(",");
    assert_eq!(
        status(&format!("GET /api/changes?having={many}"), ""),
        "400"
    );
    assert_eq!(status("POST /api/changes", ""), "401");
    assert_eq!(status("GET /api/changes", "Host: evil.example\r\n"), "421");
    // Half of the connections may be streams.
    let _readers: Vec<_> = (0..8).map(|_| host.read("", None)).collect();
    assert_eq!(status("GET /api/changes", ""), "503");
    assert_eq!(world.stats().changes.reader_count, 8);
}

/// A telephone that crashed may use a Call-ID and a tag again.
#[test]
fn a_call_that_takes_the_names_of_another_begins_after_the_other_has_ended() {
    let mut world = World::new();
    let host = Host::new(&world.runtime, &world.server);
    world.register(BOB);
    let mut calls = host.read("?kind=call", None);
    live(&mut calls);
    established(&mut world, "call-1");
    world.call(ALICE, "bob", "call-1");
    let told: Vec<_> = (0..4).map(|_| calls.next().shown()).collect();
    assert_eq!(
        told,
        [
            "call call-1: began trying",
            "call call-1: answered confirmed",
            "call call-1: ended timeout gone=true",
            "call call-1: began trying",
        ]
    );
}
