//! Digest authentication, from the challenge to the result.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use busyhour::clock::UnixTime;
use busyhour_sip::auth::{
    Algorithm, Answer, AuthOutcome, Authenticator, HexDigest, RealmError, Refusal, Secret,
    challenge_response,
};
use busyhour_sip::{DigestChallenge, DigestCredentials};

const NOW: UnixTime = UnixTime::from_secs(1_800_000_000);
const METHOD: &str = "REGISTER";
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const URI: &str = "sip:example.org";

fn server() -> Authenticator {
    Authenticator::new("example.org", [9; 32], &Algorithm::ALL).expect("a valid realm")
}

/// The credentials of `alice`, with the challenge's algorithm and `password`.
fn credentials(algorithm: Algorithm, password: &str, counted: bool) -> String {
    let server = server();
    let challenges: Vec<_> = server
        .challenges(NOW, HERE, 5, false)
        .map(|challenge| challenge.to_string())
        .collect();
    let parsed = challenges
        .iter()
        .filter_map(|text| DigestChallenge::parse(text).flatten());
    let challenge = parsed
        .into_iter()
        .find(|challenge| challenge.algorithm == algorithm.name())
        .expect("offered");
    let answer = Answer::new(&challenge, "alice", password, METHOD, URI).expect("known");
    if counted {
        answer.counted(3, "abc").to_string()
    } else {
        answer.to_string()
    }
}

#[test]
fn a_hash_answers_the_challenge_of_its_realm_and_of_no_other() {
    let server = server();
    let challenge = server.challenges(NOW, HERE, 5, false).next();
    let challenge = challenge.expect("offered").to_string();
    let challenge = DigestChallenge::parse(&challenge).flatten();
    let challenge = challenge.expect("digest");
    let plain = Secret::plaintext("wonder");
    let hashed = Secret::hashes_of("alice", "example.org", "wonder");
    let answer = |secret, hashed_for| {
        let answer = Answer::of_secret(&challenge, "alice", (secret, hashed_for), METHOD, URI);
        answer.map(|answer| answer.counted(3, "abc").to_string())
    };
    let known = answer(&hashed, "example.org");
    assert!(known.is_some());
    assert_eq!(known, answer(&plain, "example.org"));
    assert_eq!(known, answer(&plain, "example.net"));
    assert_eq!(answer(&hashed, "example.net"), None);
}

fn judge(text: &str, secret: Option<&Secret>) -> AuthOutcome {
    let credentials = DigestCredentials::parse(text)
        .flatten()
        .expect("credentials");
    server().verify(NOW, HERE, METHOD, &credentials, secret)
}

#[test]
fn every_algorithm_with_and_without_count() {
    let plain = Secret::plaintext("wonder");
    for algorithm in Algorithm::ALL {
        let ha1 = algorithm.hash(&[b"alice", b"example.org", b"wonder"]);
        let stored =
            HexDigest::from_hex(algorithm, &ha1.to_string().to_uppercase()).expect("an HA1");
        let hashed = Secret::hashed([(algorithm, stored)]);
        for secret in [&plain, &hashed] {
            let counted = judge(&credentials(algorithm, "wonder", true), Some(secret));
            assert_eq!(
                counted,
                AuthOutcome::Accepted {
                    nonce_count: Some(3)
                }
            );
            let old_form = judge(&credentials(algorithm, "wonder", false), Some(secret));
            assert_eq!(old_form, AuthOutcome::Accepted { nonce_count: None });
        }
        let wrong = judge(&credentials(algorithm, "wander", true), Some(&plain));
        assert_eq!(wrong, AuthOutcome::Refused(Refusal::Secret));
    }
}

#[test]
fn an_unknown_account_and_a_missing_hash_count_as_a_wrong_secret() {
    let text = credentials(Algorithm::Sha256, "", true);
    assert_eq!(
        judge(&text, None),
        AuthOutcome::Refused(Refusal::Secret),
        "an empty password opens nothing"
    );
    let md5 = Algorithm::Md5.hash(&[b"alice", b"example.org", b""]);
    let hashed = Secret::hashed([(Algorithm::Md5, md5)]);
    assert_eq!(
        judge(&text, Some(&hashed)),
        AuthOutcome::Refused(Refusal::Secret)
    );
}

#[test]
fn each_changed_field_is_refused() {
    let secret = Secret::plaintext("wonder");
    let text = credentials(Algorithm::Sha256, "wonder", true);
    let cases = [
        (
            "realm=\"example.org\"",
            "realm=\"example.com\"",
            Refusal::Realm,
        ),
        (
            "algorithm=SHA-256",
            "algorithm=SHA-256-sess",
            Refusal::Algorithm,
        ),
        ("qop=auth", "qop=auth-int", Refusal::Qop),
        ("nc=00000003", "nc=3", Refusal::Qop),
        ("cnonce=\"abc\"", "cnonce=\"\"", Refusal::Qop),
        ("nc=00000003", "nc=00000004", Refusal::Secret),
        ("cnonce=\"abc\"", "cnonce=\"abd\"", Refusal::Secret),
        (
            "uri=\"sip:example.org\"",
            "uri=\"sip:example.net\"",
            Refusal::Secret,
        ),
        ("username=\"alice\"", "username=\"alicf\"", Refusal::Secret),
        ("response=\"", "response=\"0", Refusal::Secret),
    ];
    for (from, to, refusal) in cases {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        assert_eq!(
            judge(&changed, Some(&secret)),
            AuthOutcome::Refused(refusal),
            "{to}"
        );
    }
}

#[test]
fn a_nonce_that_is_old_or_of_another_key_or_source_is_stale_whatever_the_secret() {
    let text = credentials(Algorithm::Md5, "wonder", true);
    let credentials = DigestCredentials::parse(&text)
        .flatten()
        .expect("credentials");
    let secret = Secret::plaintext("wonder");
    let at = |seconds| NOW + Duration::from_secs(seconds);
    let server = server().nonce_life(Duration::from_secs(60));
    let fresh = server.verify(at(60), HERE, METHOD, &credentials, Some(&secret));
    assert_eq!(
        fresh,
        AuthOutcome::Accepted {
            nonce_count: Some(3)
        }
    );
    let wrong = Secret::plaintext("x");
    let restarted =
        Authenticator::new("example.org", [8; 32], &Algorithm::ALL).expect("a valid realm");
    let elsewhere = "192.0.2.2".parse().expect("an address");
    let day = Authenticator::HEARD_LIFE.as_secs();
    for secret in [Some(&secret), Some(&wrong), None] {
        let judge = |server: &Authenticator, seconds, source| {
            server.verify(at(seconds), source, METHOD, &credentials, secret)
        };
        let ours = AuthOutcome::Stale { is_ours: true };
        assert_eq!(judge(&server, 61, HERE), ours);
        assert_eq!(judge(&server, day, HERE), ours);
        let foreign = AuthOutcome::Stale { is_ours: false };
        assert_eq!(judge(&server, day + 1, HERE), foreign, "it is too long ago");
        assert_eq!(judge(&restarted, 0, HERE), foreign);
        assert_eq!(judge(&server, 0, elsewhere), foreign);
    }
}

#[test]
fn challenges_come_in_the_order_of_preference() {
    let texts: Vec<_> = server()
        .challenges(NOW, HERE, 1, true)
        .map(|challenge| challenge.to_string())
        .collect();
    let parsed: Vec<_> = texts
        .iter()
        .filter_map(|text| DigestChallenge::parse(text).flatten())
        .collect();
    let names: Vec<_> = parsed.iter().map(|challenge| challenge.algorithm).collect();
    assert_eq!(names, ["SHA-512-256", "SHA-256", "MD5"]);
    assert!(
        parsed
            .iter()
            .all(|challenge| challenge.stale && challenge.offers_auth())
    );
}

#[test]
fn an_algorithm_that_is_not_offered_is_refused() {
    let text = credentials(Algorithm::Md5, "wonder", true);
    let credentials = DigestCredentials::parse(&text)
        .flatten()
        .expect("credentials");
    let strict =
        Authenticator::new("example.org", [9; 32], &[Algorithm::Sha256]).expect("a valid realm");
    let verdict = strict.verify(
        NOW,
        HERE,
        METHOD,
        &credentials,
        Some(&Secret::plaintext("wonder")),
    );
    assert_eq!(verdict, AuthOutcome::Refused(Refusal::Algorithm));
}

#[test]
fn realms_that_cannot_be_quoted_are_refused() {
    for realm in ["", "a\"b", "a\\b", "a\r\nb"] {
        assert_eq!(
            Authenticator::new(realm, [0; 32], &[]).map(drop),
            Err(RealmError),
            "{realm:?}"
        );
    }
    assert!(Authenticator::new("Büro am Markt", [0; 32], &[]).is_ok());
}

#[test]
fn a_secret_works_with_the_protocols_it_was_made_for() {
    let plain = Secret::plaintext("wonder");
    assert_eq!(plain.password(), Some("wonder"));
    assert_eq!(plain.hashes(), []);
    let [sha512, _, md5] = Algorithm::ALL;
    let ha1 = |algorithm: Algorithm| algorithm.hash(&[b"alice", b"example.org", b"wonder"]);
    let one = Secret::hashed([(sha512, ha1(sha512))]);
    assert_eq!(one.password(), None);
    assert_eq!(one.hashes(), [(sha512, ha1(sha512))]);
    assert!(one.works_with(sha512) && !one.works_with(md5) && plain.works_with(md5));
    let all = Secret::hashes_of("alice", "example.org", "wonder");
    let hashes = Algorithm::ALL.map(|algorithm| (algorithm, ha1(algorithm)));
    assert_eq!(all.hashes(), hashes);
    // The MD5 of the challenge followed by the password (RFC 5456 §8.6.15); it cannot be
    // computed from a hash.
    let response = Algorithm::Md5.hash(&[b"12345wonder"]);
    assert_eq!(plain.challenge_response("12345"), Some(response));
    assert_eq!(challenge_response("12345", "wonder"), response);
    assert_eq!(all.challenge_response("12345"), None);
}

#[test]
fn hashes_must_be_complete_and_names_may_have_any_case() {
    let digits = Algorithm::Md5.hash(&[b"x"]).to_string();
    let read = |algorithm, text: &str| HexDigest::from_hex(algorithm, text);
    assert_eq!(
        read(Algorithm::Md5, &digits),
        Some(Algorithm::Md5.hash(&[b"x"]))
    );
    let odd = format!("{}g", &digits[1..]);
    for wrong in ["", &digits[1..], &format!("{digits}0"), &odd] {
        assert_eq!(read(Algorithm::Md5, wrong), None, "{wrong}");
    }
    assert_eq!(read(Algorithm::Sha256, &digits), None);
    let long = digits.repeat(2);
    assert_eq!(
        read(Algorithm::Sha256, &long).map(|hash| hash.to_string()),
        Some(long)
    );
    let lengths = Algorithm::ALL.map(Algorithm::digits);
    assert_eq!(lengths, [64, 64, 32]);
    assert_eq!(Algorithm::from_name("sha-256"), Some(Algorithm::Sha256));
    assert_eq!(Algorithm::from_name(""), Some(Algorithm::Md5), "as of old");
    assert_eq!(Algorithm::from_name("SHA-1"), None);
    assert_eq!(Algorithm::Sha512_256.to_string(), "SHA-512-256");
}

#[test]
fn a_nonce_has_its_time_and_is_recognised_for_a_day() {
    let text = credentials(Algorithm::Md5, "wonder", true);
    let parsed = DigestCredentials::parse(&text).flatten().unwrap();
    assert_eq!(Authenticator::issued_s(parsed.nonce), Some(NOW.as_secs()));
    assert_eq!(Authenticator::issued_s("1234567"), None);
    assert_eq!(Authenticator::issued_s("1234567x"), None);
    assert_eq!(Authenticator::HEARD_LIFE, Duration::from_secs(86_400));
    assert_eq!(server().realm(), "example.org");
}

#[test]
fn secrets_never_show_in_debug_output() {
    let secret = Secret::plaintext("wonder");
    assert_eq!(format!("{secret:?}"), "Secret(…)");
    assert_eq!(
        format!("{:?}", Algorithm::Md5.hash(&[b"x"])),
        "HexDigest(…)"
    );
}
