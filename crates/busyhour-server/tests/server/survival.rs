//! Subscriptions and publications continue after a crash, as bindings do.

use crate::{Fixture, exchange::ok, open_config, register, subscribe, to_tag};
use busyhour_registrar::watch::MessageSummary;
use busyhour_sip::Message;
use busyhour_store::DiskBehaviour;
use std::time::Duration;

#[test]
fn a_subscription_is_answered_when_it_is_durable_and_not_before() {
    let mut server = Fixture::open();
    server.receive(&subscribe(1, "", PRESENCE));
    assert_eq!(server.sent(), [""; 0], "the disk has not answered");
    server.settle();
    let sent = server.sent();
    assert!(sent[0].starts_with("SIP/2.0 200 OK\r\n"), "{sent:?}");
    assert!(sent[1].starts_with("NOTIFY "), "{sent:?}");
    assert_eq!(server.disk.contents().soft_states.len(), 1);
    server.receive(&ok(&sent[1]));
    server.receive(&subscribe(2, &to_tag(&sent[0]), PRESENCE));
    assert_eq!(
        server.sent(),
        [""; 0],
        "the disk has not answered for the refresh either"
    );
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 OK\r\n"));
}

#[test]
fn a_change_that_the_disk_refuses_is_503_and_keeps_the_earlier_state() {
    let mut server = Fixture::open();
    server.disk.set_behaviour(failing());
    server.ask(&subscribe(1, "", PRESENCE));
    let sent = server.sent();
    assert!(sent[0].starts_with("SIP/2.0 503 "), "{sent:?}");
    assert_eq!((sent.len(), server.stats().watch.watcher_count), (1, 0));

    server.disk.set_behaviour(DiskBehaviour::default());
    let tag = watch(&mut server);
    server.disk.set_behaviour(failing());
    server.ask(&subscribe(3, &tag, PRESENCE));
    assert!(server.sent()[0].starts_with("SIP/2.0 503 "));
    assert_eq!(server.stats().watch.watcher_count, 1);
}

#[test]
fn watchers_get_the_full_state_after_a_crash_and_then_every_change() {
    let mut server = Fixture::open();
    let tag = watch(&mut server);
    server.pass(100);
    server.restart(open_config());
    assert_eq!(server.stats().watch.restored, 1);
    server.pass(1);
    let told = server.sent();
    assert_eq!(
        told.len(),
        2,
        "it is retransmitted after 500 ms, and nothing else: {told:?}"
    );
    assert!(told[0].contains("<basic>closed</basic>"), "{told:?}");
    assert!(told[0].contains("Subscription-State: active;expires=500\r\n"));
    let before = cseq(&told[0]);
    assert!(before > 1, "the number is higher than all earlier ones");
    server.receive(&ok(&told[0]));

    server.ask(&register(1, "Contact: <sip:a@192.0.2.7>"));
    let sent = server.sent();
    assert!(sent[1].contains("<basic>open</basic>"), "{sent:?}");
    assert_eq!(cseq(&sent[1]), before + 1);
    server.receive(&ok(&sent[1]));

    server.ask(&subscribe(3, &tag, PRESENCE));
    assert!(server.sent()[0].starts_with("SIP/2.0 200 OK\r\n"));
    // After a second crash, the numbers of the first run are not used again.
    server.restart(open_config());
    server.pass(1);
    assert!(cseq(&server.sent()[0]) > before + 2);
    // A new subscription has another tag, although ids continue.
    let other = subscribe(9, "", PRESENCE).replace("Call-ID: watch", "Call-ID: other");
    server.ask(&other);
    assert_ne!(to_tag(&server.sent()[0]), tag);
}

/// A server ran with a calendar that was ahead. A later server with the right calendar
/// must not use the same numbers again: the watcher would accept none of its NOTIFYs.
#[test]
fn numbers_of_notify_grow_from_run_to_run_whatever_the_calendar_says() {
    let mut server = Fixture::open();
    watch(&mut server);
    let mut last = 1;
    for calendar_s in [540, 0, 300, 10, 0, 0] {
        server.lived = Duration::from_secs(calendar_s);
        server.restart(open_config());
        server.pass(1);
        let told = server.sent();
        let next = cseq(&told[0]);
        assert!(next > last, "{next} after {last}, {calendar_s} s ahead");
        server.receive(&ok(&told[0]));
        last = next;
    }
}

/// A dialog gets so many NOTIFYs without a refresh that a later run would begin with
/// numbers that were used, if the dialog's row had not been written again.
#[test]
fn numbers_of_notify_grow_after_more_of_them_than_a_run_may_use() {
    let mut config = open_config();
    config.watch.notify_interval = Duration::ZERO;
    let mut server = Fixture::with(config.clone());
    server.ask(&subscribe(1, "", "Event: message-summary"));
    let mut told = server.sent().swap_remove(1);
    for count in 1..=17_000 {
        server.receive(&ok(&told));
        let summary = MessageSummary::parse(&format!(
            "Messages-Waiting: yes\r\nVoice-Message: {count}/0\r\n"
        ));
        let set = server
            .server
            .set_mailbox("alice", summary.unwrap(), Box::new(|_| ()));
        set.expect("room");
        server.settle();
        told = server.sent().swap_remove(0);
    }
    assert!(cseq(&told) > 16_384, "{told}");
    server.restart(config);
    server.pass(1);
    assert!(cseq(&server.sent()[0]) > cseq(&told));
}

#[test]
fn many_watchers_are_notified_one_after_the_other_after_a_crash() {
    const WATCHERS: usize = 400;
    let mut server = Fixture::open();
    for number in 0..WATCHERS {
        let request = subscribe(1, "", PRESENCE);
        let request = request.replace("Call-ID: watch", &format!("Call-ID: watch{number}"));
        server.ask(&request.replace("z9hG4bKs1", &format!("z9hG4bKs1{number}")));
        let sent = server.sent();
        server.receive(&ok(&sent[1]));
    }
    server.restart(open_config());
    let simulation = server.runtime.simulation().unwrap();
    simulation.run_for(Duration::from_millis(50));
    let early = server.sent().len();
    assert!(
        (190..=210).contains(&early),
        "{early} were sent within 50 ms"
    );
    simulation.run_for(Duration::from_millis(60));
    assert_eq!(early + server.sent().len(), WATCHERS);
}

#[test]
fn an_ended_subscription_is_not_restored_and_its_row_is_removed() {
    let mut server = Fixture::open();
    let tag = watch(&mut server);
    server.ask(&subscribe(3, &tag, "Event: presence\r\nExpires: 0"));
    let sent = server.sent();
    server.receive(&ok(&sent[1]));
    server.settle();
    assert!(server.disk.contents().soft_states.is_empty());

    watch(&mut server);
    let lived = server.disk.contents().soft_states.len();
    server.pass(700);
    server.restart(open_config());
    assert_eq!((lived, server.stats().watch.restored), (1, 0));
    server.settle();
    assert!(server.disk.contents().soft_states.is_empty());
}

#[test]
fn after_a_normal_shutdown_watchers_subscribe_again() {
    let mut server = Fixture::open();
    watch(&mut server);
    server.server.shutdown(Duration::ZERO);
    server.simulation().run_until_idle();
    let told = server.sent();
    assert!(
        told[0].contains("terminated;reason=deactivated"),
        "{told:?}"
    );
    server.settle();
    assert!(server.disk.contents().soft_states.is_empty());
}

/// Subscribes and answers the first NOTIFY; returns the tag of the
/// subscription.
fn watch(server: &mut Fixture) -> String {
    let branch = format!("z9hG4bKn{}", server.stats().watch.requests);
    let request = subscribe(1, "", PRESENCE).replace("z9hG4bKs1", &branch);
    server.ask(&request);
    let sent = server.sent();
    server.receive(&ok(&sent[1]));
    to_tag(&sent[0])
}

fn cseq(request: &str) -> u32 {
    let message = Message::parse(request.as_bytes()).unwrap();
    message.cseq().unwrap().number
}

const PRESENCE: &str = "Event: presence\r\nExpires: 600";
fn failing() -> DiskBehaviour {
    DiskBehaviour {
        failures_per_mille: 1000,
        ..DiskBehaviour::default()
    }
}

#[test]
fn a_publication_is_durable_before_its_answer_and_survives_a_crash() {
    let mut server = Fixture::open();
    server.receive(&publish(1, "Expires: 600", NOTE));
    assert_eq!(server.sent(), [""; 0], "the disk has not answered");
    server.settle();
    let answer = server.sent().remove(0);
    assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{answer}");
    server.pass(100);
    server.restart(open_config());
    assert_eq!(server.stats().publish.publication_count, 1);
    server.ask(&subscribe(1, "", PRESENCE));
    let told = server.sent().remove(1);
    assert!(told.contains("in a meeting"), "{told}");

    // The device uses the entity-tag that it got before the crash, and the
    // state stays.
    let refresh = format!("Expires: 300\r\nSIP-If-Match: {}", etag(&answer));
    server.ask(&publish(2, &refresh, ""));
    let refreshed = server.sent().remove(0);
    assert!(refreshed.starts_with("SIP/2.0 200 OK\r\n"), "{refreshed}");
    assert_ne!(etag(&refreshed), etag(&answer));
    server.restart(open_config());
    server.ask(&subscribe(2, "", PRESENCE));
    let sent = server.sent();
    let mut told = sent.iter().filter(|one| one.starts_with("NOTIFY "));
    assert!(told.all(|one| one.contains("in a meeting")), "{sent:?}");

    // A removed publication is gone before its removal is acknowledged.
    let remove = format!("Expires: 0\r\nSIP-If-Match: {}", etag(&refreshed));
    server.ask(&publish(3, &remove, ""));
    let sent = server.sent();
    let removed = |one: &String| one.starts_with("SIP/2.0 200 OK\r\n");
    assert!(sent.iter().any(removed), "{sent:?}");
    server.restart(open_config());
    assert_eq!(server.stats().publish.publication_count, 0);
}

#[test]
fn a_publication_expires_also_after_a_crash_and_its_row_is_removed() {
    let mut server = Fixture::open();
    server.ask(&publish(1, "Expires: 600", NOTE));
    server.restart(open_config());
    server.pass(590);
    assert_eq!(server.stats().publish.publication_count, 1);
    server.pass(20);
    assert_eq!(server.stats().publish.publication_count, 0);
    server.settle();
    assert!(server.disk.contents().soft_states.is_empty());
}

#[test]
fn a_publication_ends_with_its_registration_also_after_a_crash() {
    let mut server = Fixture::open();
    server.ask(&register(1, "Contact: <sip:a@192.0.2.7>"));
    server.ask(&publish(1, "Expires: 600", NOTE));
    server.restart(open_config());
    assert_eq!(server.stats().publish.publication_count, 1);
    server.ask(&register(2, "Contact: <sip:a@192.0.2.7>;expires=0"));
    let stats = server.stats().publish;
    assert_eq!((stats.unregistered, stats.publication_count), (1, 0));
    server.settle();
    assert!(server.disk.contents().soft_states.is_empty());
}

#[test]
fn a_publication_that_the_disk_refuses_is_503_and_has_no_effect() {
    let mut server = Fixture::open();
    server.disk.set_behaviour(failing());
    server.ask(&publish(1, "Expires: 600", NOTE));
    let answer = server.sent().remove(0);
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert_eq!(server.stats().publish.publication_count, 0);
}

fn publish(cseq: u32, headers: &str, body: &str) -> String {
    let media = match body {
        "" => "",
        _ => "Content-Type: application/pidf+xml\r\n",
    };
    format!(
        "PUBLISH sip:alice@example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bKp{cseq};rport\r\n\
         From: <sip:alice@example.com>;tag=f3\r\n\
         To: <sip:alice@example.com>\r\n\
         Call-ID: publish\r\n\
         CSeq: {cseq} PUBLISH\r\n\
         Event: presence\r\n\
         {headers}\r\n\
         {media}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn etag(answer: &str) -> &str {
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix("SIP-ETag: "));
    line.expect("an entity-tag")
}

const NOTE: &str = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:alice@example.com\">\
    <tuple id=\"t\"><status><basic>open</basic></status><note>in a meeting</note></tuple></presence>";
