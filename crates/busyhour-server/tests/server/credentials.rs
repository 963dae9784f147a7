//! What a client may do, depending on the credentials that it sends.

use crate::{
    Fixture, client,
    exchange::{digest_config, proof, proven, with_proof},
    log_lines, register, register_as,
};
use busyhour_server::server::CredentialJudgement;
use std::net::SocketAddr;

#[test]
fn overheard_credentials_are_not_accepted() {
    let mut server = Fixture::with(digest_config());
    let heard =
        server.accepted(|request, challenge| proven(request, challenge, "alice", "alice", 1));
    server.refuses_as_stale(&stolen(&heard));
    let stats = server.stats().registrar;
    assert_eq!(
        (stats.replayed, stats.nonce_count, stats.binding_count),
        (1, 1, 1)
    );
}

#[test]
fn credentials_without_a_count_are_accepted_once() {
    let mut server = Fixture::with(digest_config());
    let heard = server.accepted(|request, challenge| {
        // A nonce count without `qop` is not protected, so it is ignored.
        let proof = proof(request, challenge, "alice", "alice");
        with_proof(request, &format!("{proof}, nc=00000001"))
    });
    assert!(!heard.contains("qop"), "{heard}");
    server.refuses_as_stale(&stolen(&heard).replace("nc=00000001", "nc=00000002"));
    let stats = server.stats().registrar;
    assert_eq!((stats.replayed, stats.binding_count), (1, 1));
}

#[test]
fn an_overheard_request_with_a_changed_byte_is_no_retransmission() {
    let mut server = Fixture::with(digest_config());
    let heard =
        server.accepted(|request, challenge| proven(request, challenge, "alice", "alice", 1));
    server.pass(33);
    assert_eq!(server.stats().traffic.transaction_count, 0, "forgotten");
    server.refuses_as_stale(&heard.replace("sip:a@192.0.2.7", "sip:b@192.0.2.8"));
    let stats = server.stats().registrar;
    assert_eq!((stats.replayed, stats.binding_count), (1, 1));
}

#[test]
fn digest_admits_users_with_the_right_password_to_their_own_address_only() {
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
        "a challenge uses no memory"
    );

    server.receive(&proven(&request, &challenge, "alice", "wrong", 1));
    assert!(server.sent()[0].starts_with("SIP/2.0 403 Wrong User Or Password\r\n"));
    server.receive(&proven(&request, &challenge, "bob", "bob", 1));
    assert!(server.sent()[0].starts_with("SIP/2.0 403 Not Your Address\r\n"));
    server.receive(&proven(&request, &challenge, "alice", "alice", 1));
    let used = server.sent().remove(0);
    assert!(used.starts_with("SIP/2.0 401 "), "by bob: {used}");
    server.receive(&proven(&request, &used, "alice", "alice", 1));
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 OK\r\n"));
    let stats = server.stats().registrar;
    assert_eq!(
        (stats.challenged, stats.forbidden, stats.accepted),
        (2, 2, 1)
    );
}

#[test]
fn a_nonce_becomes_stale_and_does_not_outlive_the_server() {
    let mut server = Fixture::with(digest_config());
    let request = register(1, "Contact: <sip:a@192.0.2.7>");
    let answer = |server: &mut Fixture| {
        server.receive(&request);
        let challenge = server.sent().remove(0);
        proven(&request, &challenge, "alice", "alice", 1)
    };
    let aged = answer(&mut server);
    server.pass(301);
    server.refuses_as_stale(&aged);
    let overheard = answer(&mut server);
    server.receive(&overheard);
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 OK\r\n"));
    server.restart(digest_config());
    // The server no longer knows that it was used.
    server.refuses_as_stale(&overheard.replace("192.0.2.7", "198.51.100.66"));
}

#[test]
fn the_network_learns_which_credentials_answer_a_challenge() {
    let mut server = Fixture::with(digest_config());
    let request = register(1, "Contact: <sip:a@192.0.2.7>");
    let heard =
        server.accepted(|request, challenge| proven(request, challenge, "alice", "alice", 1));
    assert_eq!(server.sent.take_judged(), [CredentialJudgement::Answer]);
    let again = |request: &str| request.replace("z9hG4bK", "z9hG4bKnext");
    server.receive(&again(&heard));
    server.pass(301);
    server.receive(&again(&again(&heard)));
    assert_eq!(
        server.sent.take_judged(),
        [CredentialJudgement::OldAnswer; 2],
        "nonces of ours, used and old"
    );
    let challenge = server.sent().pop().unwrap();
    let wrong = proven(&request, &challenge, "alice", "guessed", 1);
    let proxied = heard.replace("Authorization", "Proxy-Authorization");
    let foreign = with_foreign_nonce(&heard);
    for (number, nothing) in [request, wrong.clone(), foreign, proxied]
        .iter()
        .enumerate()
    {
        let branch = format!("z9hG4bK{number}");
        server.receive(&nothing.replace("z9hG4bK", &branch));
        let answer = server.sent().remove(0);
        assert!(answer.starts_with("SIP/2.0 40"), "{answer}");
    }
    assert_eq!(server.sent.take_judged(), []);
    server.pass(301);
    server.receive(&wrong.replace("z9hG4bK", "z9hG4bKold"));
    let answer = server.sent().remove(0);
    assert!(answer.contains("stale=true"), "{answer}");
    assert_eq!(
        server.sent.take_judged(),
        [CredentialJudgement::OldAnswer],
        "what answers an old nonce is not checked"
    );
}

/// An attacker with a forged address can use up all answers to first requests from
/// there. A client that has received a nonce at that address is challenged all the
/// same.
#[test]
fn a_refresh_is_challenged_although_others_used_all_tokens_of_its_address() {
    let mut server = Fixture::with(digest_config());
    let heard =
        server.accepted(|request, challenge| proven(request, challenge, "alice", "alice", 1));
    server.pass(301);
    let forger = SocketAddr::new(client().ip(), 4444);
    let forged = register_as("bob", 1, "Contact: <sip:b@192.0.2.66>");
    let foreign = with_foreign_nonce(&heard);
    for request in [&forged, &foreign] {
        (0..5_000).for_each(|_| server.receive_from(forger, request.as_bytes()));
        assert!(server.sent().len() < 5_000);
        server.receive_from(forger, request.as_bytes());
        assert_eq!(server.sent(), [""; 0], "no token is left");
    }
    let refresh = heard
        .replace("CSeq: 1 ", "CSeq: 2 ")
        .replace("z9hG4bK", "z9hG4bKnext");
    server.refuses_as_stale(&refresh);
    // A nonce that was used is enough, too.
    server.receive_from(forger, forged.as_bytes());
    assert_eq!(server.sent(), [""; 0]);
    server.receive(&refresh);
    let challenge = server.sent().remove(0);
    let (bare, _) = refresh.split_once("Authorization").unwrap();
    let bare = format!("{bare}Content-Length: 0\r\n\r\n");
    let proven = proven(&bare, &challenge, "alice", "alice", 1);
    server.receive(&proven);
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 200 "));
    (0..2_000).for_each(|_| server.receive_from(forger, forged.as_bytes()));
    server.sent();
    server.refuses_as_stale(&stolen(&proven));
}

/// Neither ever gets an answer that says what is wrong.
#[test]
fn the_log_says_why_a_telephone_gives_up_at_the_challenge() {
    let lines = log_lines::LogLines::default();
    let _logged = lines.keep();
    let mut server = Fixture::with(digest_config());
    let request = register(1, "Contact: <sip:a@192.0.2.7>");
    let logged = "telephone does not answer the challenge";
    // Its request is sent again after 4 s at the latest; after that it begins anew.
    for seconds in [0, 4, 30] {
        server.pass(seconds);
        server.receive(&request);
        assert!(server.sent()[0].starts_with("SIP/2.0 401 "));
        let told = lines.take();
        assert_eq!(
            told.matches(logged).count(),
            usize::from(seconds == 30),
            "{told}"
        );
        if seconds == 30 {
            for part in ["has_account=true", "user=\"alice\"", "MD5", "source="] {
                assert!(told.contains(part), "{part}: {told}");
            }
        }
    }

    server.receive(&request);
    let challenge = server.sent().remove(0);
    let proof = proof(&request, &challenge, "alice", "alice");
    let more = "algorithm=MD5-sess, qop=auth, nc=00000001, cnonce=\"c\"";
    server.receive(&with_proof(&request, &format!("{proof}, {more}")));
    server.settle();
    assert!(server.sent()[0].starts_with("SIP/2.0 401 "));
    lines.has(&[
        "credentials do not fit the challenge",
        "algorithm or qop not offered",
        "algorithm=\"MD5-sess\"",
        "user=\"alice\"",
    ]);
}

impl Fixture {
    /// Registers alice with what `prove` makes of the request and its
    /// challenge; returns what was sent after that.
    fn accepted(&mut self, prove: impl FnOnce(&str, &str) -> String) -> String {
        let request = register(1, "Contact: <sip:a@192.0.2.7>");
        self.receive(&request);
        let proven = prove(&request, &self.sent().remove(0));
        self.receive(&proven);
        self.settle();
        assert!(self.sent()[0].starts_with("SIP/2.0 200 "));
        proven
    }

    /// The same credentials are challenged again, and bind nothing.
    fn refuses_as_stale(&mut self, request: &str) {
        self.receive(request);
        self.settle();
        let answer = self.sent().remove(0);
        assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
        assert!(answer.contains("stale=true"), "{answer}");
    }
}

/// The request with a nonce that the server did not issue.
fn with_foreign_nonce(proven: &str) -> String {
    let (before, nonce) = proven.split_once("nonce=\"").unwrap();
    let (_, behind) = nonce.split_once('"').unwrap();
    format!("{before}nonce=\"{}\"{behind}", "0".repeat(40))
}

/// The credentials in a request of another client.
fn stolen(proven: &str) -> String {
    proven
        .replace("sip:a@192.0.2.7", "sip:thief@198.51.100.1")
        .replace("CSeq: 1 ", "CSeq: 2 ")
        .replace("branch=z9hG4bK", "branch=z9hG4bKthief")
}
