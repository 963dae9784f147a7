//! PUBLISH (RFC 3903): the life of a publication, which requests are refused,
//! and what watchers receive.

use crate::world::{DIALOG, World, body, dialog, digest_config, header, open_config};
use busyhour_registrar::watch::WatchPolicy;
use busyhour_server::server::{Limits, ServerConfig};

const PRESENCE: &str = "Event: presence\r\nContent-Type: application/pidf+xml\r\n";

#[test]
fn a_publication_is_made_refreshed_changed_and_removed() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    let first = world.publish("alice", PRESENCE, &presence("open", "Here"));
    assert!(first.starts_with("SIP/2.0 200 "), "{first}");
    assert_eq!(header(&first, "Expires"), "3600");
    let notify = world.only_notify();
    assert!(
        body(&notify).contains("<tuple id=\"p1-t\"><status><basic>open</basic>"),
        "{notify}"
    );
    assert!(body(&notify).contains("<note>Here</note>"), "{notify}");

    let refreshed = world.publish("alice", &if_match(&first, "presence"), "");
    assert!(refreshed.starts_with("SIP/2.0 200 "), "{refreshed}");
    assert_ne!(header(&first, "SIP-ETag"), header(&refreshed, "SIP-ETag"));
    assert_eq!(world.notified(), [""; 0], "nothing changed");

    let headers = if_match(&refreshed, "presence") + "Content-Type: application/pidf+xml\r\n";
    let changed = world.publish("alice", &headers, &presence("closed", "Gone"));
    let notify = world.only_notify();
    assert!(
        body(&notify).contains("<tuple id=\"p1-t\"><status><basic>closed"),
        "{notify}"
    );

    let headers = if_match(&changed, "presence") + "Expires: 0\r\n";
    let removed = world.publish("alice", &headers, "");
    assert_eq!(header(&removed, "Expires"), "0");
    assert!(body(&world.only_notify()).contains("<tuple id=\"none\">"));
    let stats = world.stats().publish;
    assert_eq!(
        (
            stats.requests,
            stats.created,
            stats.refreshed,
            stats.modified,
            stats.removed
        ),
        (4, 1, 1, 1, 1)
    );
    assert_eq!(stats.publication_count, 0);
    assert_eq!(
        world.stats().registrar.device_count,
        0,
        "nothing of the device is left"
    );
}

#[test]
fn only_the_last_entity_tag_of_a_package_is_valid() {
    let mut world = World::open();
    let first = world.publish("alice", PRESENCE, &presence("open", "Here"));
    let last = world.publish("alice", &if_match(&first, "presence"), "");
    let stale = world.publish("alice", &if_match(&first, "presence"), "");
    assert!(
        stale.starts_with("SIP/2.0 412 Conditional Request Failed\r\n"),
        "{stale}"
    );
    let other = world.publish("alice", &if_match(&last, "dialog"), "");
    assert!(
        other.starts_with("SIP/2.0 412 "),
        "the tag belongs to another package: {other}"
    );
    let stats = world.stats().publish;
    assert_eq!((stats.condition_failed, stats.publication_count), (2, 1));
}

#[test]
fn a_request_without_a_buffer_for_its_answer_has_no_effect_and_can_be_sent_again() {
    let mut world = World::open();
    let mut publish = |headers: &str, body: &str| {
        let request = world.request("PUBLISH", "alice", None, "p", headers, body);
        world.receive_without_room(&request);
        assert_eq!(world.sent(), [""; 0]);
        // The client sends the request again, since it has received no answer.
        world.receive(&request);
        let answer = world.sent().remove(0);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        let stats = world.stats().publish;
        (
            answer,
            stats.publication_count,
            stats.created,
            stats.refreshed,
        )
    };
    let (answer, count, created, _) = publish(PRESENCE, &presence("open", "Here"));
    assert_eq!((count, created), (1, 1));
    let (answer, .., refreshed) = publish(&if_match(&answer, "presence"), "");
    assert_eq!(refreshed, 1);
    let over = if_match(&answer, "presence") + "Expires: 0\r\n";
    let (_, count, ..) = publish(&over, "");
    assert_eq!(count, 0);
}

#[test]
fn publications_that_end_together_cause_one_notify() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    let messages = "Event: message-summary\r\nExpires: 60\r\n\
        Content-Type: application/simple-message-summary\r\n";
    let presence_of = format!("{PRESENCE}Expires: 60\r\n");
    for (headers, body) in [
        (messages, "Messages-Waiting: yes\r\n".to_owned()),
        (&*presence_of, presence("open", "Here")),
        (messages, "Messages-Waiting: yes\r\n".to_owned()),
    ] {
        let answer = world.publish("alice", headers, &body);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    let before = world.stats().mailbox.published;
    world.notified();
    world.pass(60_000);
    assert_eq!(world.stats().publish.expired, 3);
    assert_eq!(world.stats().mailbox.published, before + 1);
    assert!(body(&world.only_notify()).contains("<tuple id=\"none\">"));
}

#[test]
fn a_publication_expires() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    let headers = format!("{PRESENCE}Expires: 60\r\n");
    let answer = world.publish("alice", &headers, &presence("open", "Here"));
    world.notified();
    world.pass(59_999);
    assert_eq!(world.notified(), [""; 0]);
    world.pass(1);
    assert!(body(&world.only_notify()).contains("<tuple id=\"none\">"));
    let late = world.publish("alice", &if_match(&answer, "presence"), "");
    assert!(late.starts_with("SIP/2.0 412 "), "{late}");
    let stats = world.stats();
    assert_eq!(
        (stats.publish.expired, stats.publish.publication_count),
        (1, 0)
    );
    assert_eq!(stats.registrar.device_count, 0);
}

#[test]
fn several_publications_and_the_registration_make_one_document() {
    let mut world = World::open();
    world.register("alice", 600);
    world.publish("alice", PRESENCE, &presence("open", "Desk"));
    world.publish("alice", PRESENCE, &presence("closed", "Mobile"));
    let notify = world.watch("w", "alice", "presence");
    let body = body(&notify);
    assert!(
        body.contains("<tuple id=\"b1\"><status><basic>open"),
        "{body}"
    );
    assert!(
        body.contains("<tuple id=\"p1-t\">") && body.contains("<tuple id=\"p2-t\">"),
        "{body}"
    );
    assert!(body.contains("Desk") && body.contains("Mobile"), "{body}");
    let document = roxmltree::Document::parse(body).unwrap();
    assert_eq!(
        document.root_element().attribute("entity"),
        Some("sip:alice@example.com")
    );
}

#[test]
fn watchers_of_one_package_are_not_notified_of_another() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    world.publish("alice", DIALOG, &dialog("early"));
    assert_eq!(world.notified(), [""; 0]);
    let notify = world.watch("d", "alice", "dialog");
    assert!(
        body(&notify).contains("<dialog id=\"p1-1\" direction=\"recipient\">"),
        "{notify}"
    );
    assert!(body(&notify).contains("<state>early</state>"), "{notify}");
}

/// RFC 4480 §3.2: that somebody talks on the telephone is presence as well.
#[test]
fn a_published_call_that_was_answered_is_told_to_watchers_of_presence() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    world.publish("alice", DIALOG, &dialog("confirmed"));
    let told = world.notified();
    assert_eq!(told.len(), 1, "{told:#?}");
    assert!(body(&told[0]).contains("<on-the-phone/>"), "{told:#?}");
}

#[test]
fn watchers_are_notified_in_the_order_of_the_publications() {
    let mut world = World::open();
    world.watch("w", "alice", "dialog");
    let mut last = world.publish("alice", DIALOG, &dialog("early"));
    for state in ["confirmed", "terminated", "early", "terminated"] {
        let headers = if_match(&last, "dialog") + "Content-Type: application/dialog-info+xml\r\n";
        last = world.publish("alice", &headers, &dialog(state));
    }
    let told = world.notified();
    assert_eq!(
        told.len(),
        2,
        "the first state, and the last one of those that came meanwhile: {told:#?}"
    );
    assert!(told[0].contains("<state>early</state>"), "{told:#?}");
    assert!(told[1].contains("<state>terminated</state>"), "{told:#?}");
    assert!(told[0].contains("version=\"1\"") && told[1].contains("version=\"2\""));
    assert_eq!(world.stats().watch.conflated, 3);
}

/// Two parts of the headers, the answer, and what it must contain.
const REFUSED_HEADERS: [(&str, &str, &str, &str); 11] = [
    (
        "Event: reg-ish\r\n",
        "",
        "489 ",
        "Allow-Events: presence, dialog, message-summary",
    ),
    ("", "", "489 ", "Allow-Events: presence"),
    (
        "Event: presence\r\n",
        "",
        "415 ",
        "Accept: application/pidf+xml",
    ),
    (
        "Event: presence\r\n",
        "Content-Type: text/plain\r\n",
        "415 ",
        "Accept: ",
    ),
    (
        PRESENCE,
        "Content-Encoding: br\r\n",
        "415 ",
        "Accept-Encoding: deflate, gzip",
    ),
    (
        PRESENCE,
        "Content-Encoding: gzip\r\n",
        "400 Body Cannot Be Decoded",
        "",
    ),
    (PRESENCE, "Expires: 10\r\n", "423 ", "Min-Expires: 60"),
    (PRESENCE, "Expires: x\r\n", "400 ", ""),
    (PRESENCE, "SIP-If-Match: a, b\r\n", "400 SIP-If-Match", ""),
    (PRESENCE, "SIP-If-Match: a\r\n", "412 ", ""),
    (PRESENCE, "Require: magic\r\n", "420 ", "Unsupported: magic"),
];

/// Headers, a body and the answer.
const REFUSED_BODIES: [(&str, &str, &str); 4] = [
    (
        "Event: presence\r\n",
        "",
        "400 A New Publication Needs A Body",
    ),
    (PRESENCE, "<presence", "400 Body Is No XML"),
    (PRESENCE, "<presence/>", "400 Body Has Another Root Element"),
    (
        DIALOG,
        "<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"0\" \
         state=\"partial\" entity=\"sip:alice@example.com\"/>",
        "400 Dialogs Must",
    ),
];

#[test]
fn an_invalid_publication_is_refused_with_its_reason() {
    let mut world = World::open();
    let whole = presence("open", "x");
    for (headers, more, status, has) in REFUSED_HEADERS {
        let answer = world.publish("alice", &format!("{headers}{more}"), &whole);
        let is_refused = answer.starts_with(&format!("SIP/2.0 {status}"));
        assert!(
            is_refused && answer.contains(has),
            "{headers}{more}\n{answer}"
        );
    }
    for (headers, body, status) in REFUSED_BODIES {
        let answer = world.publish("alice", headers, body);
        let is_refused = answer.starts_with(&format!("SIP/2.0 {status}"));
        assert!(is_refused, "{body}\n{answer}");
    }
    let foreign = world.request("PUBLISH", "alice", None, "f", PRESENCE, &whole);
    world.receive(&foreign.replace(
        "PUBLISH sip:alice@example.com",
        "PUBLISH sip:a@elsewhere.org",
    ));
    assert!(world.sent()[0].starts_with("SIP/2.0 4"));
    assert_eq!(world.stats().publish.publication_count, 0);
    assert_eq!(world.stats().registrar.device_count, 0);
}

#[test]
fn only_the_account_itself_may_publish() {
    let mut world = World::with(digest_config());
    let answer = world.publish_as("alice", "alice", PRESENCE, &presence("open", "x"));
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let answer = world.publish_as("bob", "alice", PRESENCE, &presence("open", "x"));
    assert!(
        answer.starts_with("SIP/2.0 403 Not Your Address\r\n"),
        "{answer}"
    );
    let stats = world.stats().publish;
    assert_eq!((stats.created, stats.publication_count), (1, 1));
}

#[test]
fn publications_are_bounded_in_number_and_size() {
    let mut world = World::with(ServerConfig {
        limits: Limits {
            publications_max: 3,
            publications_per_device_max: 2,
            ..Limits::default()
        },
        watch: WatchPolicy {
            publication_len_max: 400,
            ..WatchPolicy::default()
        },
        ..open_config()
    });
    let mut publish = |user: &str, note: &str| {
        let answer = world.publish(user, PRESENCE, &presence("open", note));
        answer.lines().next().unwrap().to_owned()
    };
    assert_eq!(publish("alice", "1"), "SIP/2.0 200 OK");
    assert_eq!(publish("alice", "2"), "SIP/2.0 200 OK");
    assert_eq!(publish("alice", "3"), "SIP/2.0 480 Too Many Publications");
    assert_eq!(
        publish("bob", &"x".repeat(400)),
        "SIP/2.0 413 Request Entity Too Large"
    );
    assert_eq!(publish("bob", "4"), "SIP/2.0 200 OK");
    assert_eq!(publish("carol", "5"), "SIP/2.0 503 Service Unavailable");
    let stats = world.stats();
    assert_eq!(
        (stats.publish.too_many, stats.publish.publication_count),
        (1, 3)
    );
    assert_eq!(stats.traffic.refused_table_full, 1);
    let reached = stats.limits_reached();
    assert!(reached.contains(&("limits.publications_per_device", 1)));
}

#[test]
fn a_publication_that_grows_when_it_is_written_is_refused() {
    let mut world = World::open();
    let quotes = "'".repeat(2_000);
    let children = "<q:a/>".repeat(330);
    let grows = format!(
        "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" xmlns:q=\"{quotes}\">{children}</presence>"
    );
    assert!(grows.len() <= WatchPolicy::default().publication_len_max);
    let answer = world.publish("alice", PRESENCE, &grows);
    assert!(
        answer.starts_with("SIP/2.0 400 Body Is Too Long Written Out\r\n"),
        "{answer}"
    );
    assert_eq!(world.stats().publish.publication_count, 0);
}

#[test]
fn one_notify_has_room_for_all_publications_of_an_address() {
    let mut world = World::with(ServerConfig {
        limits: Limits {
            publications_per_device_max: 64,
            ..Limits::default()
        },
        watch: WatchPolicy {
            publication_len_max: 32_768,
            ..WatchPolicy::default()
        },
        ..open_config()
    });
    let mut long = |headers: &str, len: usize| {
        world.publish("alice", headers, &presence("open", &"x".repeat(len)))
    };
    let first = long(PRESENCE, 24_000);
    assert!(first.starts_with("SIP/2.0 200 "), "{first}");
    let answer = long(PRESENCE, 26_000);
    assert!(answer.starts_with("SIP/2.0 413 "), "{answer}");
    let second = long(PRESENCE, 20_000);
    assert!(second.starts_with("SIP/2.0 200 "), "{second}");
    let changes = if_match(&first, "presence") + "Content-Type: application/pidf+xml\r\n";
    let answer = long(&changes, 30_000);
    assert!(answer.starts_with("SIP/2.0 413 "), "{answer}");
    let answer = long(&changes, 25_000);
    assert!(
        answer.starts_with("SIP/2.0 200 "),
        "the tag is still valid: {answer}"
    );
    let notify = world.watch("w", "alice", "presence");
    assert!(body(&notify).len() > 45_000 && notify.len() < 65_507);
}

#[test]
fn a_retransmitted_publish_is_answered_and_has_no_effect() {
    let mut world = World::open();
    let request = world.request(
        "PUBLISH",
        "alice",
        None,
        "p",
        PRESENCE,
        &presence("open", "x"),
    );
    world.receive(&request);
    let first = world.sent();
    world.receive(&request);
    assert_eq!(world.sent(), first);
    assert_eq!(world.stats().publish.created, 1);
}

/// RFC 3903 §6.4 leaves it to the server when soft state ends. A telephone that is switched off
/// takes back its registration, and seldom what it has published.
#[test]
fn what_a_telephone_has_published_ends_with_its_registration() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    world.register("alice", 600);
    world.only_notify();
    let answer = world.publish("alice", PRESENCE, &presence("open", "Here"));
    assert!(body(&world.only_notify()).contains("<note>Here</note>"));
    let mailbox = "Event: message-summary\r\nContent-Type: application/simple-message-summary\r\n";
    world.publish("alice", mailbox, "Messages-Waiting: yes\r\n");

    world.register("alice", 0);
    let notify = world.only_notify();
    assert!(body(&notify).contains("<basic>closed</basic>"), "{notify}");
    assert!(!body(&notify).contains("<note>Here</note>"), "{notify}");
    let stats = world.stats().publish;
    assert_eq!(
        (stats.unregistered, stats.publication_count),
        (1, 1),
        "the mailbox stays"
    );
    let late = world.publish("alice", &if_match(&answer, "presence"), "");
    assert!(late.starts_with("SIP/2.0 412 "), "{late}");
}

#[test]
fn what_a_telephone_has_published_ends_when_its_registration_is_not_refreshed() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    world.register("alice", 600);
    world.publish("alice", PRESENCE, &presence("open", "Here"));
    world.notified();
    world.pass(600_100);
    let notify = world.only_notify();
    assert!(!body(&notify).contains("<note>Here</note>"), "{notify}");
    assert_eq!(world.stats().publish.unregistered, 1);
}

#[test]
fn what_was_published_without_a_registration_lasts_as_long_as_it_was_granted() {
    let mut world = World::open();
    world.watch("w", "alice", "presence");
    world.publish("alice", PRESENCE, &presence("open", "Here"));
    world.register("alice", 600);
    world.notified();
    world.register("alice", 0);
    let notify = world.only_notify();
    assert!(body(&notify).contains("<note>Here</note>"), "{notify}");
    assert_eq!(world.stats().publish.unregistered, 0);
}

/// The headers of a request that changes an earlier publication.
fn if_match(answer: &str, package: &str) -> String {
    let etag = header(answer, "SIP-ETag");
    format!("Event: {package}\r\nSIP-If-Match: {etag}\r\n")
}

fn presence(basic: &str, note: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\
         <presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:alice@example.com\">\
         <tuple id=\"t\"><status><basic>{basic}</basic></status><note>{note}</note></tuple>\
         </presence>"
    )
}
