//! Who may do what, by what they prove.

use crate::{Fixture, answer, answered, digest_config, register, register_as, with_answer};

#[test]
fn credentials_that_were_overheard_are_worth_nothing() {
    let mut server = Fixture::with(digest_config());
    let request = register_as("alice", 1, "Contact: <sip:a@192.0.2.7>");
    server.receive(&request);
    let challenge = server.sent().remove(0);
    let proven = answered(&request, &challenge, "alice", "secret");
    server.receive(&proven);
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 "));
    let stolen = proven
        .replace("sip:a@192.0.2.7", "sip:thief@198.51.100.1")
        .replace("CSeq: 1 ", "CSeq: 2 ")
        .replace("branch=z9hG4bK", "branch=z9hG4bKthief");
    server.receive(&stolen);
    server.settle();
    let answer = server.sent().remove(0);
    assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
    assert!(answer.contains("stale=true"), "{answer}");
    let stats = server.stats().registrar;
    assert_eq!(
        (stats.replayed, stats.nonce_count, stats.binding_count),
        (1, 1, 1)
    );
}

#[test]
fn credentials_without_a_count_are_good_once() {
    let mut server = Fixture::with(digest_config());
    let request = register_as("alice", 1, "Contact: <sip:a@192.0.2.7>");
    server.receive(&request);
    let challenge = server.sent().remove(0);
    // A count that no `qop` protects counts for nothing.
    let answer = format!("{}, nc=00000001", answer(&challenge, "alice", "secret"));
    let proven = with_answer(&request, &answer);
    assert!(!proven.contains("qop"), "{proven}");
    server.receive(&proven);
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 "));
    let stolen = proven
        .replace("sip:a@192.0.2.7", "sip:thief@198.51.100.1")
        .replace("CSeq: 1 ", "CSeq: 2 ")
        .replace("branch=z9hG4bK", "branch=z9hG4bKthief")
        .replace("nc=00000001", "nc=00000002");
    server.receive(&stolen);
    server.settle();
    let answer = server.sent().remove(0);
    assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
    assert!(answer.contains("stale=true"), "{answer}");
    let stats = server.stats().registrar;
    assert_eq!((stats.replayed, stats.binding_count), (1, 1));
}

#[test]
fn a_request_that_was_overheard_is_no_retransmission_once_a_byte_of_it_is_changed() {
    let mut server = Fixture::with(digest_config());
    let request = register_as("alice", 1, "Contact: <sip:a@192.0.2.7>");
    server.receive(&request);
    let challenge = server.sent().remove(0);
    let proven = answered(&request, &challenge, "alice", "secret");
    server.receive(&proven);
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 "));
    server.pass(33);
    assert_eq!(server.stats().traffic.transaction_count, 0, "forgotten");
    let stolen = proven.replace("sip:a@192.0.2.7", "sip:b@192.0.2.8");
    server.receive(&stolen);
    server.settle();
    let answer = server.sent().remove(0);
    assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
    let stats = server.stats().registrar;
    assert_eq!((stats.replayed, stats.binding_count), (1, 1));
}

#[test]
fn digest_admits_who_knows_the_password_and_only_to_their_own_address() {
    let mut server = Fixture::with(digest_config());
    let request = register(1, "Contact: <sip:a@192.0.2.7>");
    server.receive(&request);
    let challenge = server.sent().remove(0);
    assert!(
        challenge.starts_with("SIP/2.0 401 Unauthorized\r\n"),
        "{challenge}"
    );
    assert_eq!(challenge.matches("WWW-Authenticate: Digest ").count(), 2);
    assert_eq!(
        server.stats().traffic.transaction_count,
        0,
        "a challenge costs nothing"
    );

    server.receive(&answered(&request, &challenge, "alice", "wrong"));
    assert!(server.sent()[0].starts_with("SIP/2.0 403 Wrong User Or Password\r\n"));
    server.receive(&answered(&request, &challenge, "bob", "secret"));
    assert!(server.sent()[0].starts_with("SIP/2.0 403 Not Your Address\r\n"));
    server.receive(&answered(&request, &challenge, "alice", "secret"));
    let used = server.sent().remove(0);
    assert!(used.starts_with("SIP/2.0 401 "), "by bob: {used}");
    server.receive(&answered(&request, &used, "alice", "secret"));
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 OK\r\n"));
    let stats = server.stats().registrar;
    assert_eq!(
        (stats.challenged, stats.forbidden, stats.accepted),
        (2, 2, 1)
    );
}

#[test]
fn a_nonce_grows_stale_and_does_not_outlive_the_server() {
    let mut server = Fixture::with(digest_config());
    let request = register(1, "Contact: <sip:a@192.0.2.7>");
    let answer = |server: &mut Fixture| {
        server.receive(&request);
        let challenge = server.sent().remove(0);
        answered(&request, &challenge, "alice", "secret")
    };
    let is_stale = |server: &mut Fixture, answer: &str| {
        server.receive(answer);
        let stale = server.sent().remove(0);
        assert!(stale.starts_with("SIP/2.0 401 "), "{stale}");
        assert!(stale.contains("stale=true"), "{stale}");
    };
    let aged = answer(&mut server);
    server.pass(301);
    is_stale(&mut server, &aged);
    let overheard = answer(&mut server);
    server.receive(&overheard);
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 OK\r\n"));
    server.restart(digest_config());
    // Nobody remembers that it was used.
    is_stale(
        &mut server,
        &overheard.replace("192.0.2.7", "198.51.100.66"),
    );
}
