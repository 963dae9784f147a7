//! Accounts that an HTTP service keeps: a real one, which is slow, wrong, silent or gone.

use crate::{
    http_receiver::{Answer, HttpReceiver, Received},
    support::{Place, ServerProcess, busyhour, wait_until},
    telephone::Telephone,
};
use busyhour_sip::auth::Algorithm;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

fn configuration(url: &str, rest: &str) -> String {
    format!(
        "[sip]\ndomains = [\"example.com\"]\nrealm = \"example.com\"\nalgorithms = [\"MD5\", \"SHA-256\"]\n\
         [limits]\nunproven_per_second = 0\n\
         [[account]]\nuser = \"local\"\npassword = \"of local\"\n\
         [[domain]]\nname = \"a.example\"\n\
         [credentials]\nurl = \"{url}\"\n{rest}"
    )
}

/// The value of a field of the query.
fn field<'r>(request: &'r Received, name: &str) -> &'r str {
    let (_, query) = request.path.split_once('?').unwrap_or_default();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .find(|(key, _)| *key == name)
        .map_or("", |(_, value)| value)
}

/// Accounts `alice` and `bob` of each realm, whose passwords are `of` and their names.
fn hashes(request: &Received) -> Answer {
    let (user, realm) = (field(request, "user"), field(request, "realm"));
    let password = format!("of {user}");
    let parts = [user, realm, &password].map(str::as_bytes);
    let (md5, sha256) = (Algorithm::Md5.hash(&parts), Algorithm::Sha256.hash(&parts));
    match user {
        "alice" | "bob" => Answer::Now(
            200,
            format!("{{\"md5\": \"{md5}\", \"sha256\": \"{sha256}\", \"name\": \"{user}\"}}"),
        ),
        _ => Answer::Now(404, String::new()),
    }
}

fn stat(server: &ServerProcess, name: &str) -> u64 {
    server.stat(&format!("/credentials/{name}"))
}

/// The last answer to a REGISTER.
fn answer(server: &ServerProcess, address: &str, password: &str) -> String {
    Telephone::new(server, address, password).register().1
}

fn is_503(answer: &str) -> bool {
    answer.starts_with("SIP/2.0 503 ") && answer.contains("\r\nRetry-After: ")
}

#[test]
fn accounts_of_a_service_register_call_and_are_asked_for_once() {
    let place = Place::new();
    let service = HttpReceiver::start(hashes);
    let secret = place.file("authorization", "Bearer of the shop\n");
    let rest = format!("authorization_file = \"{}\"\n", secret.display());
    let server = place.server(&configuration(&service.url("/credentials"), &rest));
    for _ in 0..3 {
        for (address, password, expected) in [
            ("alice@example.com", "of alice", 200),
            ("bob@a.example", "of bob", 200),
            ("local@example.com", "of local", 200),
            ("bob@example.com", "wrong", 403),
            ("nobody@example.com", "wrong", 403),
        ] {
            let registers = Telephone::new(&server, address, password).registers();
            assert_eq!(registers, expected, "{address}: {}", server.log());
        }
    }
    let asked = service.received();
    let mut paths: Vec<&str> = asked.iter().map(|one| one.path.as_str()).collect();
    paths.sort_unstable();
    let expected = [
        "/credentials?user=alice&realm=example.com",
        "/credentials?user=bob&realm=a.example&domain=a.example",
        "/credentials?user=bob&realm=example.com",
        "/credentials?user=nobody&realm=example.com",
    ];
    assert_eq!(paths, expected);
    assert!(
        asked
            .iter()
            .all(|one| one.header("authorization") == "Bearer of the shop")
    );
    assert_eq!((stat(&server, "found"), stat(&server, "missing")), (3, 1));
    assert_eq!(stat(&server, "waiting_count"), 0);
    assert_eq!(
        (stat(&server, "found_count"), stat(&server, "missing_count")),
        (3, 1)
    );
    // A call, and somebody who watches: both name the sender in the same way.
    let bob = Telephone::new(&server, "bob@example.com", "of bob");
    assert_eq!(bob.registers(), 200);
    let alice = Telephone::new(&server, "alice@example.com", "of alice");
    assert_eq!(alice.call("bob@example.com"), 100);
    assert!(bob.rings().contains("alice@example.com"));
    assert_eq!(alice.subscribe("presence", "bob@example.com"), 200);
    assert_eq!(service.received().len(), expected.len());
    // A restart forgets the accounts and keeps their contacts.
    assert!(server.stop().success());
    let server = place.server(&configuration(&service.url("/credentials"), &rest));
    server.wait_for("/registrar/binding_count", |count| count >= 3);
    let bindings = server.get("/api/bindings/sip:alice@example.com");
    assert!(bindings.contains("sip:alice@127.0.0.1"), "{bindings}");
}

#[test]
fn a_service_that_is_slow_holds_up_nobody_else() {
    let place = Place::new();
    let service = HttpReceiver::start(|request| match field(request, "user") {
        "slow" => Answer::After(Duration::from_secs(3), 404),
        "silent" => Answer::Never,
        _ => hashes(request),
    });
    let server = place.server(&configuration(
        &service.url("/"),
        "timeout_milliseconds = 8000\n",
    ));
    let slow: Vec<_> = ["slow", "silent"]
        .map(|user| {
            let telephone = Telephone::new(&server, &format!("{user}@example.com"), "x");
            std::thread::spawn(move || telephone.register().1)
        })
        .into();
    server.wait_for("/credentials/waiting_count", |count| count == 2);
    assert!(answer(&server, "alice@example.com", "of alice").starts_with("SIP/2.0 200 "));
    assert!(answer(&server, "local@example.com", "of local").starts_with("SIP/2.0 200 "));
    let answers: Vec<_> = slow.into_iter().map(|one| one.join().unwrap()).collect();
    assert!(answers[0].starts_with("SIP/2.0 403 "), "{}", answers[0]);
    assert!(is_503(&answers[1]), "{}", answers[1]);
    assert_eq!(stat(&server, "unanswered"), 1);
    assert_eq!(stat(&server, "waiting_count"), 0);
    server.wait_for_log("has not answered a request as it should");
}

#[test]
fn answers_that_make_no_sense_are_503_for_their_user_alone() {
    let place = Place::new();
    let service = HttpReceiver::start(|request| match field(request, "user") {
        "broken" => Answer::Now(200, "{\"md5\": \"hush-hush".into()),
        "short" => Answer::Now(200, "{\"md5\": \"abc\"}".into()),
        "long" => Answer::Now(200, "x".repeat(100_000)),
        "error" => Answer::Now(500, String::new()),
        "away" => Answer::With(302, "location", "http://192.0.2.1/".into(), String::new()),
        _ => hashes(request),
    });
    let server = place.server(&configuration(&service.url("/"), ""));
    for _ in 0..2 {
        for user in ["broken", "short", "long", "error", "away"] {
            let answer = answer(&server, &format!("{user}@example.com"), "x");
            assert!(is_503(&answer), "{user}: {answer}");
        }
    }
    assert!(stat(&server, "unusable") >= 5);
    assert_eq!(stat(&server, "breaker_open_count"), 0, "others go on");
    assert!(answer(&server, "alice@example.com", "of alice").starts_with("SIP/2.0 200 "));
    assert!(!server.log().contains("hush-hush"));
}

/// While the breaker is open, accounts of the cache go on, and others are asked to come again.
#[test]
fn a_service_that_is_gone_refuses_nobody_for_good() {
    let place = Place::new();
    let is_up = Arc::new(AtomicBool::new(true));
    let up = is_up.clone();
    let service = HttpReceiver::start(move |request| match up.load(Ordering::Relaxed) {
        true => hashes(request),
        false => Answer::Now(503, String::new()),
    });
    let rest = "cache_seconds = 1\nmissing_seconds = 1\n";
    let server = place.server(&configuration(&service.url("/"), rest));
    let alice = Telephone::new(&server, "alice@example.com", "of alice");
    assert_eq!(alice.registers(), 200);
    is_up.store(false, Ordering::Relaxed);
    let begun = Instant::now();
    for number in 0..5 {
        let answer = answer(&server, &format!("user{number}@example.com"), "x");
        assert!(is_503(&answer), "{answer}");
    }
    server.wait_for("/credentials/breaker_open_count", |count| count == 1);
    server.wait_for_log("the service for credentials does not answer");
    let asked = service.received().len();
    assert!(is_503(&answer(&server, "bob@example.com", "of bob")));
    // What the cache has counts longer.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(alice.registers(), 200);
    assert!(stat(&server, "stale_hits") >= 1);
    let wrong = Telephone::new(&server, "alice@example.com", "wrong");
    assert_eq!(wrong.registers(), 403);
    let probes = begun.elapsed().as_secs() / 10;
    assert!(
        service.received().len() as u64 <= asked as u64 + probes,
        "once in ten seconds"
    );
    is_up.store(true, Ordering::Relaxed);
    let bob = Telephone::new(&server, "bob@example.com", "of bob");
    wait_until(|| bob.registers() == 200, || server.log());
    server.wait_for("/credentials/breaker_open_count", |count| count == 0);
    server.wait_for_log("answers again");
}

#[test]
fn ten_thousand_unknown_names_leave_the_accounts_alone() {
    let place = Place::new();
    let service = HttpReceiver::start(hashes);
    let server = place.server(&configuration(&service.url("/"), ""));
    let alice = Telephone::new(&server, "alice@example.com", "of alice");
    assert_eq!(alice.registers(), 200);
    let mallory = Telephone::new(&server, "mallory@example.com", "x");
    let is_long = std::env::var("BUSYHOUR_TEST_SCALE").is_ok();
    let count = if is_long { 10_000 } else { 1000 };
    for number in 0..count {
        let answer = mallory.guess_as(&format!("user{number}"));
        assert!(
            answer.starts_with("SIP/2.0 403 ") || is_503(&answer),
            "{answer}"
        );
    }
    server.wait_for("/credentials/waiting_count", |count| count == 0);
    let known = stat(&server, "missing") + stat(&server, "refused_full");
    assert!(known > 0 && known <= count, "{known}");
    assert!(stat(&server, "missing_count") <= 16_384);
    let before = stat(&server, "found");
    assert_eq!(alice.registers(), 200);
    assert_eq!(stat(&server, "found"), before, "it is still in the cache");
    let bob = Telephone::new(&server, "bob@example.com", "of bob");
    assert_eq!(bob.registers(), 200);
}

/// Whoever shows no nonce of ours makes the server ask nobody; neither does a repetition.
#[test]
fn only_answers_to_a_challenge_are_asked_for_and_each_once() {
    let place = Place::new();
    let behaviour = Arc::new(Mutex::new(Answer::Never));
    let told = behaviour.clone();
    let service = HttpReceiver::start(move |_| told.lock().unwrap().clone());
    let server = place.server(&configuration(
        &service.url("/"),
        "timeout_milliseconds = 6000\n",
    ));
    let alice = Telephone::new(&server, "alice@example.com", "of alice");
    let forged = alice.forged_register();
    assert!(alice.exchange(&forged).starts_with("SIP/2.0 401 "));
    assert_eq!(stat(&server, "asked"), 0);
    let proven = alice.proven_register("alice");
    for _ in 0..20 {
        alice.send(&proven);
    }
    server.wait_for("/credentials/absorbed", |count| count >= 19);
    assert_eq!((stat(&server, "asked"), stat(&server, "waited")), (1, 1));
    let answer = alice.exchange(&proven);
    assert!(is_503(&answer), "{answer}");
}

/// An account that moves from here to the service, and one that is removed here.
#[test]
fn an_account_that_is_removed_here_ends_and_may_be_elsewhere() {
    let place = Place::new();
    let service = HttpReceiver::start(hashes);
    let server = place.server(&configuration(&service.url("/"), ""));
    let change = |words: &[&str]| {
        let mut command = busyhour();
        command.arg("device").args(words);
        command.arg("--config").arg(place.path("busyhour.toml"));
        command.arg("--store-path").arg(place.path("busyhour.db"));
        assert!(command.output().unwrap().status.success());
    };
    let accounts = place.file("devices.csv", "user,password\nalice,here\ncarol,here\n");
    change(&["import", &accounts.display().to_string()]);
    server.wait_for("/registrar/account_count", |count| count == 2);
    for user in ["alice", "carol"] {
        let address = format!("{user}@example.com");
        assert_eq!(Telephone::new(&server, &address, "here").registers(), 200);
    }
    assert_eq!(stat(&server, "asked"), 0);
    change(&["remove", "alice", "carol"]);
    server.wait_for("/registrar/binding_count", |count| count == 0);
    assert_eq!(
        Telephone::new(&server, "carol@example.com", "here").registers(),
        403
    );
    let alice = Telephone::new(&server, "alice@example.com", "of alice");
    assert_eq!(alice.registers(), 200);
    // Another end goes over all devices, and leaves it alone.
    let accounts = place.file("carol.csv", "user,password\ncarol,here\n");
    change(&["import", &accounts.display().to_string()]);
    server.wait_for("/registrar/account_count", |count| count == 1);
    assert_eq!(
        Telephone::new(&server, "carol@example.com", "here").registers(),
        200
    );
    change(&["remove", "carol"]);
    server.wait_for("/registrar/binding_count", |count| count == 1);
    let bindings = server.get("/api/bindings/sip:alice@example.com");
    assert!(bindings.contains("sip:alice@127.0.0.1"), "{bindings}");
}

/// The service has an account no more: once what it said has aged, the account logs in no more, and what it had ends with the
/// refusal. One that it has again is as before.
#[test]
fn an_account_that_the_service_has_no_more_ends_within_its_cache_time() {
    let place = Place::new();
    let accounts = Arc::new(Mutex::new(vec!["alice", "bob"]));
    let known = accounts.clone();
    let service = HttpReceiver::start(move |request| {
        match known.lock().unwrap().contains(&field(request, "user")) {
            true => hashes(request),
            false => Answer::Now(404, String::new()),
        }
    });
    let url = service.url("/");
    let rest = "cache_seconds = 1\nmissing_seconds = 1\n";
    let server = place.server(&configuration(&url, rest));
    let alice = Telephone::new(&server, "alice@example.com", "of alice");
    let bob = Telephone::new(&server, "bob@a.example", "of bob");
    assert_eq!((alice.registers(), bob.registers()), (200, 200));
    assert_eq!(stat(&server, "revoked"), 0);
    accounts.lock().unwrap().clear();
    wait_until(|| alice.registers() == 403, || server.log());
    server.wait_for("/registrar/binding_count", |count| count == 1);
    assert_eq!(stat(&server, "revoked"), 1);
    let bindings = server.get("/api/bindings/sip:bob@a.example");
    assert!(bindings.contains("sip:bob@127.0.0.1"), "{bindings}");

    // A server that has not asked yet: it knows by the contacts that there was an account.
    server.wait_for("/store/ended_len", |count| count == 0);
    assert!(server.stop().success());
    let server = place.server(&configuration(&url, rest));
    server.wait_for("/registrar/binding_count", |count| count == 1);
    let bob = Telephone::new(&server, "bob@a.example", "of bob");
    let nobody = Telephone::new(&server, "nobody@a.example", "of nobody");
    assert_eq!((nobody.registers(), stat(&server, "revoked")), (403, 0));
    assert_eq!(bob.registers(), 403);
    server.wait_for("/registrar/binding_count", |count| count == 0);
    assert_eq!(stat(&server, "revoked"), 1);

    accounts.lock().unwrap().push("bob");
    wait_until(|| bob.registers() == 200, || server.log());
    assert_eq!(server.stat("/registrar/binding_count"), 1);
}

/// A program that removes an account from the service says so here, and need not wait.
#[test]
fn an_account_of_the_service_that_is_deleted_over_http_ends_at_once() {
    let place = Place::new();
    let service = HttpReceiver::start(hashes);
    let token = "a token that is long enough";
    let rest = format!(
        "[[token]]\nname = \"shop\"\nscope = \"write\"\nsha256 = \"{}\"\n",
        Algorithm::Sha256.hash(&[token.as_bytes()])
    );
    let server = place.server(&configuration(&service.url("/"), &rest));
    let alice = Telephone::new(&server, "alice@example.com", "of alice");
    let bob = Telephone::new(&server, "bob@a.example", "of bob");
    assert_eq!((alice.registers(), bob.registers()), (200, 200));
    let delete = |user: &str| {
        let agent = ureq::Agent::config_builder().http_status_as_error(false);
        let agent: ureq::Agent = agent.build().into();
        let request = agent.delete(format!("http://{}/api/v1/accounts/{user}", server.http));
        let answer = request.header("Authorization", format!("Bearer {token}"));
        answer.call().unwrap().status().as_u16()
    };
    assert_eq!(delete("nobody"), 404);
    assert_eq!(delete("bob@a.example"), 204);
    server.wait_for("/registrar/binding_count", |count| count == 1);
    let bindings = server.get("/api/bindings/sip:alice@example.com");
    assert!(bindings.contains("sip:alice@127.0.0.1"), "{bindings}");
    let asked = stat(&server, "asked");
    assert_eq!(bob.registers(), 200, "the service still has it");
    assert_eq!(stat(&server, "asked"), asked + 1);
    assert_eq!(server.stat("/registrar/binding_count"), 2);
}

#[test]
fn the_doctor_asks_the_service() {
    let place = Place::new();
    let service = HttpReceiver::start(|_| Answer::Now(404, String::new()));
    let wrong = HttpReceiver::start(|_| Answer::Now(401, String::new()));
    let finding = |url: &str, rest: &str| {
        let text = format!(
            "[http]\nlisten = \"off\"\n[store]\npath = \"{}\"\n{}",
            place.path("d.db").display(),
            configuration(url, rest)
        );
        let file = place.file("doctor.toml", &text);
        let mut command = busyhour();
        command.args(["doctor", "--json", "--config"]).arg(file);
        place.keep_sockets_here(&mut command);
        let said = command.output().unwrap().stdout;
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
        let findings = said["findings"].as_array().unwrap().clone();
        let of_it = |one: &&serde_json::Value| {
            one["check"] == "credentials" || one["check"] == "configuration"
        };
        let found = findings.iter().rfind(of_it).unwrap();
        (found["verdict"].to_string(), found["found"].to_string())
    };
    let (verdict, found) = finding(&service.url("/"), "");
    assert_eq!(verdict, "\"good\"", "{found}");
    let (verdict, found) = finding(&wrong.url("/"), "");
    assert!(verdict == "\"problem\"" && found.contains("401"), "{found}");
    drop(wrong);
    let gone = HttpReceiver::start(|_| Answer::Never).url("/");
    let (verdict, found) = finding(&gone, "");
    assert!(
        verdict == "\"problem\"" && found.contains("no connection"),
        "{found}"
    );
    let (verdict, found) = finding(&service.url("/"), "authorization_file = \"/nowhere\"\n");
    assert!(
        verdict == "\"problem\"" && found.contains("/nowhere"),
        "{found}"
    );
}
