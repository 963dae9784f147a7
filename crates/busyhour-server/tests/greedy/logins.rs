//! Wrong passwords: the table of failures, and the pause that follows.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place,
        phone::{Phone, proven},
        wait_until,
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

/// If an attacker forges the address of a phone, the answers go to the phone. So the
/// attacker has no nonce for that address.
#[test]
fn forged_datagrams_lock_out_no_phone() {
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

/// Each wrong password is a log line in which fail2ban finds the address, until one
/// source sends too many in a second.
#[test]
fn failed_logins_are_logged_with_their_source_and_at_a_limited_rate() {
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
    server.wait_for_log("log lines suppressed source=127.0.0.2 count=");
    let log = server.log();
    let is_one = |line: &&str| line.contains("login failed source=");
    let lines: Vec<_> = log.lines().filter(is_one).collect();
    let reason = "protocol=\"sip\" reason=\"unknown account\" user=\"nobody";
    assert!(lines.iter().all(|line| line.contains(reason)), "{log}");
    for (name, before, date) in FORMS {
        let written = lines.iter().map(|line| format!("{before}{line}\n"));
        let path = place.path(name);
        fs::write(&path, written.collect::<String>()).expect("a file");
        let expected = vec!["127.0.0.2"; lines.len()];
        assert_eq!(banned(&path, date), expected, "{name}");
    }
}

/// The same with lines for programs, and a fail2ban that runs: it bans the address, although the
/// name of the user looks like a line about another one.
#[test]
fn fail2ban_bans_who_gives_wrong_passwords_by_lines_in_json() {
    let place = Place::new();
    let server = place.server(&format!("log.format = \"json\"\n{ACCOUNTS}"));
    let mut greedy = Phone::new(&server, 2, "user1");
    let register = greedy.register_request();
    let challenge = greedy.challenge(&register);
    for count in 1..6 {
        let register = greedy.register_request();
        let user = format!("nobody{count},source:192.0.2.1");
        greedy.challenge(&proven(&register, &challenge, &user, "guess", count));
    }
    wait_until(
        || server.log().matches("login failed").count() == 5,
        || server.log(),
    );
    let log = server.log();
    let is_one = |line: &&str| line.contains("login failed");
    let lines: Vec<_> = log.lines().filter(is_one).collect();
    for (name, before, date) in FORMS {
        let written = lines.iter().map(|line| format!("{before}{line}\n"));
        let path = place.path(name);
        fs::write(&path, written.collect::<String>()).expect("a file");
        let expected = vec!["127.0.0.2"; lines.len()];
        assert_eq!(banned(&path, date), expected, "{name}");
    }
    let fail2ban = Fail2ban::start(&place, &place.path("file"));
    let bans = place.path("bans");
    wait_until(
        || fs::read_to_string(&bans).is_ok_and(|bans| bans == "127.0.0.2\n"),
        || fail2ban.log(),
    );
}

/// Debian's fail2ban with the packaged filter, which writes down whom it would shut out.
struct Fail2ban {
    server: Child,
    log: PathBuf,
}

impl Fail2ban {
    fn start(place: &Place, watched: &Path) -> Self {
        let packaged = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fail2ban");
        let folder = place.path("fail2ban");
        for part in ["filter.d", "action.d"] {
            fs::create_dir_all(folder.join(part)).expect("a folder");
        }
        let filter = folder.join("filter.d/busyhour.conf");
        fs::copy(packaged.join("busyhour.conf"), filter).expect("a filter");
        let bans = place.path("bans");
        let action = format!("[Definition]\nactionban = echo <ip> >>{}\n", bans.display());
        fs::write(folder.join("action.d/note.conf"), action).expect("an action");
        let jail = format!(
            "[busyhour]\nenabled = true\nfilter = busyhour\nbackend = polling\naction = note\n\
             ignoreself = false\nusedns = no\nmaxretry = 3\nfindtime = 1d\nlogpath = {}\n",
            watched.display()
        );
        fs::write(folder.join("jail.conf"), jail).expect("a jail");
        let log = place.path("fail2ban.log");
        let options = format!(
            "[Definition]\nloglevel = INFO\nlogtarget = {}\nsyslogsocket = auto\nsocket = {}\n\
             pidfile = {}\ndbfile = None\ndbmaxmatches = 10\ndbpurgeage = 1d\n",
            log.display(),
            place.path("fail2ban.sock").display(),
            place.path("fail2ban.pid").display(),
        );
        fs::write(folder.join("fail2ban.conf"), options).expect("options");
        let mut command = Command::new("fail2ban-server");
        command.arg("-f").arg("-c").arg(&folder).arg("start");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = command
            .spawn()
            .expect("fail2ban-server: see scripts/install-deps.sh test");
        Self { server, log }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Fail2ban {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn the_log_line_of_a_failed_login_is_bounded_for_any_user_name() {
    let place = Place::new();
    let server = place.server(ACCOUNTS);
    let mut greedy = Phone::new(&server, 2, "user1");
    let register = greedy.register_request();
    let challenge = greedy.challenge(&register);
    let user = "n".repeat(4_000);
    let answer = greedy.challenge(&proven(&register, &challenge, &user, "guess", 1));
    assert!(answer.starts_with("SIP/2.0 403 "), "{answer}");
    server.wait_for_log("login failed source=127.0.0.2 port=");
    let log = server.log();
    let line = log.lines().find(|line| line.contains("login failed"));
    let len = line.map_or(0, str::len);
    assert!((128..400).contains(&len), "{len}");
}

/// A source that fails under many names fills neither the log nor the memory for
/// others.
#[test]
fn refused_registrations_fill_neither_the_log_nor_the_table_of_failures() {
    let place = Place::new();
    let server = place.server(&format!("[sip]\ndomains = \"example.com\"\n{ACCOUNTS}"));
    let mut other = Phone::new(&server, 5, "user5");
    let register = other.register_request();
    let challenge = other.challenge(&register);
    other.challenge(&proven(&register, &challenge, "user5", "guess", 1));
    let begun = Instant::now();
    let mut greedy = Phone::new(&server, 2, "user1");
    let mut pacer = Phone::new(&server, 4, "user4");
    for count in 0..3000 {
        let register = greedy.register_request();
        let register = register.replace("sip:example.com", "sip:else.where");
        greedy.send(&register.replace("To: <sip:user1@", &format!("To: <sip:u{count}@")));
        if count % 100 == 0 {
            // The answered request was read after all earlier ones.
            let options = pacer.request("OPTIONS", "sip:example.com", "sip:example.com", "");
            pacer.challenge(&options);
        }
    }
    bystander::is_served(&server, 3, "user2");
    server.wait_for("/traffic/log_lines_suppressed", |count| count > 0);
    server.wait_for_log("log lines suppressed source=127.0.0.2 count=");
    let lines = server
        .log()
        .matches("registration refused source=127.0.0.2")
        .count() as u64;
    let seconds = begun.elapsed().as_secs() + 2;
    assert!(lines <= 16 * seconds, "{lines} in {seconds} s");
    let kept = server.get("/api/failures?limit=100000");
    let kept = kept.matches("\"source\":\"127.0.0.2:").count();
    assert!((1..=819).contains(&kept), "{kept}");
    let of_other = server.get("/api/failures?user=user5");
    assert!(of_other.contains("wrong password"), "{of_other}");
}

/// A source that sends requests under others' names, and never answers, leaves room
/// in the table.
#[test]
fn unanswered_challenges_of_one_source_are_limited() {
    let place = Place::new();
    let server = place.server(&ACCOUNTS.replace("count = 40", "count = 2000"));
    let mut other = Phone::new(&server, 5, "user5");
    let register = other.register_request();
    other.challenge(&register);
    let mut pacer = Phone::new(&server, 4, "user4");
    let mut greedy = Phone::new(&server, 2, "user1");
    for number in 10..2000 {
        let register = greedy.register_request();
        greedy.send(&register.replace("sip:user1@", &format!("sip:user{number}@")));
        if number % 100 == 0 {
            // The answered request was read after all earlier ones.
            let options = pacer.request("OPTIONS", "sip:example.com", "sip:example.com", "");
            pacer.challenge(&options);
        }
    }
    bystander::is_served(&server, 3, "user2");
    server.wait_for("/registrar/challenged", |count| count > 900);
    let kept = server.get("/api/failures?limit=100000");
    let kept = kept.matches("\"source\":\"127.0.0.2:").count();
    assert!((1..=819).contains(&kept), "{kept}");
    let of_other = server.get("/api/failures?user=user5");
    assert!(of_other.contains("never answered"), "{of_other}");
}

/// Each registration has its own nonce, so that one entry must be kept for each.
#[test]
fn the_nonces_of_one_account_are_limited() {
    let place = Place::new();
    let server = place.server(&format!("[limits]\nnonces = 2000\n{ACCOUNTS}"));
    let mut greedy = Phone::new(&server, 2, "user1");
    for _ in 0..210 {
        let register = greedy.register_request();
        greedy.ask(&register);
    }
    assert!(server.stat("/registrar/nonces_over_share") >= 10);
    assert_eq!(server.stat("/registrar/nonces_evicted"), 0);
    bystander::is_served(&server, 3, "user2");
    assert!(
        server.get("/healthz").starts_with("ok"),
        "only the greedy account is limited"
    );
}

/// The addresses that fail2ban finds in a log.
fn banned(log: &Path, date: &[&str]) -> Vec<String> {
    let filter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fail2ban");
    let mut command = Command::new("fail2ban-regex");
    command.args(["--usedns=no", "--out=ip"]).args(date);
    command.arg(log).arg(filter.join("busyhour.conf"));
    let output = command.output().unwrap_or_else(|error| {
        panic!("fail2ban-regex ({error}); install it with: scripts/install-deps.sh test")
    });
    let found = String::from_utf8(output.stdout).expect("text");
    found.lines().map(str::to_owned).collect()
}

/// The destination of the log, the text before each line, and how fail2ban finds the
/// date. The journal stores the date beside the line, and does not change the line.
const FORMS: [(&str, &str, &[&str]); 4] = [
    ("file", "", &[]),
    ("journal", "host busyhour[1]: ", &["--datepattern={NONE}"]),
    ("printed", "host busyhour[1]: ", &[]),
    ("syslog", "Nov 22 23:45:00 host busyhour[1]: ", &[]),
];
