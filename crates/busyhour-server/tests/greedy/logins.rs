//! Wrong passwords: the table of those, and the pause that follows.

use crate::{
    bystander,
    phone::{ACCOUNTS, Phone, proven},
    support::Place,
};
use std::process::Command;

/// Whoever writes the address of a phone into datagrams never sees the answers
/// that go there, and so has no nonce for it.
#[test]
fn forged_datagrams_lock_no_phone_out() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut phone = Phone::new(&server, 2, "user1");
    let mut forger = Phone::new(&server, 2, "user1");
    let mut elsewhere = Phone::new(&server, 3, "user1");
    let other = elsewhere.register_request();
    let challenge = elsewhere.challenge(&other);
    for count in 1..20 {
        let request = forger.register_request();
        let guess = proven(&request, &challenge, "user1", "guess", count);
        let answer = forger.challenge(&guess);
        assert!(answer.starts_with("SIP/2.0 401 "), "{answer}");
    }
    let register = phone.register_request();
    let answer = phone.ask(&register);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert_eq!(server.stat("/registrar/logins_paused"), 0);
}

/// Each wrong password is a line that fail2ban finds the address in, until there
/// are too many of one source in a second.
#[test]
fn failed_logins_are_logged_with_their_source_and_flood_no_log() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut greedy = Phone::new(&server, 2, "user1");
    let register = greedy.register_request();
    let challenge = greedy.challenge(&register);
    for count in 1..400 {
        let register = greedy.register_request();
        let user = format!("nobody{count} source=192.0.2.1");
        greedy.send(&proven(&register, &challenge, &user, "guess", count));
    }
    server.wait_for("/traffic/log_lines_suppressed", |count| count > 0);
    bystander::is_served(&server, 3, "user2");
    server.wait_for_log("login failed source=127.0.0.2 port=");
    let filter = include_str!("../../../../packaging/fail2ban/busyhour.conf");
    let line = filter
        .lines()
        .find_map(|line| line.strip_prefix("failregex = "));
    let pattern = line
        .expect("an expression")
        .replace("<HOST>", "127[.]0[.]0[.]2");
    let log = place.path("server.log");
    let grep = Command::new("grep")
        .arg("-Ec")
        .arg(pattern)
        .arg(log)
        .output();
    let count = String::from_utf8(grep.expect("grep").stdout).expect("a number");
    assert!(
        count.trim().parse::<u32>().expect("a number") > 0,
        "{}",
        server.log()
    );
}
