//! `busyhour doctor`, `bench-here`, `top`, and the storm against a server that asks for passwords.

use crate::{
    run,
    support::{Place, ServerProcess, busyhour, wait_until},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use std::{
    net::{TcpListener, UdpSocket},
    os::unix::process::ExitStatusExt,
    process::{Command, Stdio},
};

/// What the doctor finds, by the name of the check; and its exit code.
fn doctor(place: &Place, configuration: &str) -> (i32, Value) {
    doctor_with(place, configuration, &[])
}

fn doctor_with(place: &Place, configuration: &str, arguments: &[&str]) -> (i32, Value) {
    let file = place.file("doctor.toml", configuration);
    let mut command = busyhour();
    command.args(["doctor", "--json", "--config"]).arg(file);
    command.args(arguments);
    place.keep_sockets_here(&mut command);
    let (code, said, errors) = run(&mut command);
    let said: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}{errors}"));
    let findings = said["findings"].as_array().unwrap().iter();
    let by_name = findings.map(|one| (one["check"].as_str().unwrap().to_owned(), one.clone()));
    (code, by_name.collect::<serde_json::Map<_, _>>().into())
}

fn with_store(place: &Place, rest: &str) -> String {
    let path = place.path("busyhour.db");
    format!("[store]\npath = \"{}\"\n{rest}", path.display())
}

#[test]
fn the_doctor_names_what_is_wrong_and_what_to_do() {
    let place = Place::new();
    let (taken, web) = (
        UdpSocket::bind("127.0.0.1:0").unwrap(),
        TcpListener::bind("127.0.0.1:0").unwrap(),
    );
    let taken = taken.local_addr().unwrap();
    let rest = format!(
        "[sip]\nlisten = \"{taken}\"\ntcp = \"off\"\ndomains = [\"nowhere.invalid\"]\n[iax2]\nlisten = \"off\"\n[http]\nlisten = \"off\"\n"
    );
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (code, found) = doctor(
        &place,
        &with_store(
            &place,
            &rest.replace(
                &taken.to_string(),
                &socket.local_addr().unwrap().to_string(),
            ),
        ),
    );
    assert_eq!(code, 1);
    assert_eq!(found["sockets"]["verdict"], "problem", "{found}");
    assert!(
        found["sockets"]["advice"]
            .as_str()
            .unwrap()
            .contains("ss -lpn")
    );
    assert_eq!(found["names"]["verdict"], "warning", "{found}");
    assert_eq!(found["reach"]["verdict"], "warning");
    assert!(
        found["disk speed"]["found"]
            .as_str()
            .unwrap()
            .contains("99 of 100")
    );
    let (code, found) = doctor(&place, "[sip]\nauth = \"none\"\n");
    assert_eq!(
        (code, &found["configuration"]["verdict"]),
        (1, &Value::from("problem"))
    );
    drop(web);
}

/// Answers binding requests as a STUN server that sees each of them come from the next of these
/// addresses, or from where it came.
fn stun_server(seen_as: Vec<Option<&'static str>>) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut seen_as, mut last) = (seen_as.into_iter(), (Vec::new(), None));
        loop {
            let mut request = [0; 100];
            let (length, source) = socket.recv_from(&mut request).unwrap();
            let (request, mut answer) = (&request[..length], Vec::new());
            assert!(busyhour_sip::stun::is_stun(request));
            // What is sent again, since this thread was slow, gets the same answer.
            if last.0 != request {
                let Some(next) = seen_as.next() else { return };
                last = (request.to_vec(), next);
            }
            let seen_as = last.1.map_or(source, |seen_as| seen_as.parse().unwrap());
            assert!(busyhour_sip::stun::answer(request, seen_as, &mut answer));
            socket.send_to(b"not an answer", source).unwrap();
            socket.send_to(&answer, source).unwrap();
        }
    });
    address
}

#[test]
fn the_doctor_tells_how_the_server_is_seen_from_outside() {
    let place = Place::new();
    let outside = |seen_as: Vec<Option<&'static str>>, advertised: &str| {
        let rest = format!(
            "[sip]\nlisten = \"127.0.0.1:0\"\ntcp = \"off\"\nadvertised = \"{advertised}\"\n\
             [iax2]\nlisten = \"off\"\n[http]\nlisten = \"off\"\n"
        );
        let count = seen_as.len();
        let server = stun_server(seen_as);
        let arguments = ["--stun", &server].repeat(count);
        let (_, found) = doctor_with(&place, &with_store(&place, &rest), &arguments);
        let outside = &found["outside"];
        let text = |key: &str| outside[key].as_str().unwrap_or_default().to_owned();
        (text("verdict"), text("found") + &text("advice"))
    };
    let (verdict, said) = outside(vec![None], "off");
    assert_eq!(verdict, "good", "{said}");
    assert!(said.contains("nothing translates it"), "{said}");

    let translated = Some("203.0.113.9:62000");
    let (verdict, said) = outside(vec![translated, translated], "off");
    assert_eq!(verdict, "warning", "{said}");
    assert!(
        said.contains("seen from outside as 203.0.113.9:62000"),
        "{said}"
    );
    assert!(said.contains("sip.advertised = \"203.0.113.9:"), "{said}");

    let (verdict, said) = outside(vec![translated], "203.0.113.9:5060");
    assert_eq!(verdict, "good", "{said}");
    let (verdict, said) = outside(vec![translated], "203.0.113.7:5060");
    assert_eq!(verdict, "warning", "{said}");
    assert!(said.contains("does not lead here"), "{said}");

    let (verdict, said) = outside(vec![translated, Some("203.0.113.9:62001")], "off");
    assert_eq!(verdict, "warning", "{said}");
    assert!(said.contains("its own port"), "{said}");

    let rest = "[sip]\nlisten = \"127.0.0.1:0\"\n";
    let (_, found) = doctor(&place, &with_store(&place, rest));
    assert!(
        found["outside"].is_null(),
        "nobody is asked unless he is named"
    );
}

#[test]
fn the_doctor_knows_a_newer_database_and_an_old_certificate() {
    let place = Place::new();
    assert!(place.server("[sip]\nauth = \"open\"\n").stop().success());
    let quiet =
        "[sip]\nlisten = \"127.0.0.1:0\"\n[iax2]\nlisten = \"off\"\n[http]\nlisten = \"off\"\n";
    let (code, found) = doctor(&place, &with_store(&place, quiet));
    assert_eq!(code, 3, "only warnings: {found}");
    assert!(
        found["database"]["found"]
            .as_str()
            .unwrap()
            .contains("schema version"),
        "{found}"
    );
    let voicemail = format!("{quiet}[calls]\nvoicemail = \"vm\"\n");
    let (_, found) = doctor(&place, &with_store(&place, &voicemail));
    assert_eq!(found["voicemail"]["verdict"], "warning", "{found}");
    let add = with_store(&place, &voicemail);
    let add = place.file("add.toml", &add);
    let mut command = busyhour();
    let hash = "0123456789abcdef0123456789abcdef";
    command.args(["device", "add", "vm", "--md5", hash, "--config"]);
    let (code, said, errors) = run(command.arg(add));
    assert_eq!(code, 0, "{said}{errors}");
    let (_, found) = doctor(&place, &with_store(&place, &voicemail));
    assert_eq!(found["voicemail"]["verdict"], "good", "{found}");
    assert_eq!(found["emergency"]["verdict"], "good", "{found}");
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let certificate = parameters.self_signed(&key).unwrap();
    let certificate = place.file("old.pem", &certificate.pem());
    let key = place.file("key.pem", &key.serialize_pem());
    let tls = format!(
        "tls = \"127.0.0.1:0\"\ntls_certificate = \"{}\"\ntls_key = \"{}\"\n",
        certificate.display(),
        key.display()
    );
    let (code, found) = doctor(
        &place,
        &with_store(&place, &quiet.replace("[sip]\n", &format!("[sip]\n{tls}"))),
    );
    assert_eq!(code, 1);
    assert!(
        found["certificate"]["found"]
            .as_str()
            .unwrap()
            .contains("days ago"),
        "{found}"
    );
    // So is one of several, and what listens beside SIP.
    let other = format!(
        "\n[[certificate]]\ncertificate = \"{}\"\nkey = \"{}\"\nnames = [\"localhost\"]\n",
        certificate.display(),
        key.display()
    );
    let (code, found) = doctor(&place, &with_store(&place, &format!("{quiet}{other}")));
    assert_eq!(code, 1, "{found}");
    assert_eq!(found["certificate"]["verdict"], "problem", "{found}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let ws = format!("[sip]\nws = \"{}\"\n", taken.local_addr().unwrap());
    let ws = quiet.replace("[sip]\n", &ws);
    let (code, found) = doctor(&place, &with_store(&place, &ws));
    assert_eq!(code, 1, "{found}");
    assert_eq!(found["sockets"]["verdict"], "problem", "{found}");
    std::fs::write(
        place.path("busyhour.db"),
        "no database at all, but long enough to be read",
    )
    .unwrap();
    let (_, found) = doctor(&place, &with_store(&place, quiet));
    assert!(
        found["database"]["advice"]
            .as_str()
            .unwrap()
            .contains("restore"),
        "{found}"
    );
}

#[test]
fn the_trial_server_is_measured_and_leaves_nothing() {
    let place = Place::new();
    let mut command = busyhour();
    command
        .args(["bench-here", "--json", "--store-path"])
        .arg(place.path("busyhour.db"));
    let (code, said, errors) = run(&mut command);
    // On a machine that does much else, not even the first rate may hold.
    match code {
        0 => {
            let said: Value = serde_json::from_str(&said).unwrap();
            assert!(said["registrations_per_second"].as_f64().unwrap() >= 1000.0);
        }
        _ => assert!(
            errors.contains("busy") || errors.contains("ceiling"),
            "{errors}"
        ),
    }
    let left = std::fs::read_dir(place.path(".")).unwrap().count();
    assert_eq!(left, 0, "the folder of the trial server is gone");
}

/// As README has it: a server with its defaults, and a storm with none of its flags but a shorter one.
#[test]
fn a_storm_registers_at_a_server_that_asks_for_passwords() {
    let place = Place::new();
    let mut serve = place.serve();
    let server = ServerProcess::start(&mut serve, &place);
    let mut storm = busyhour();
    storm.args([
        "storm",
        "--devices",
        "300",
        "--over",
        "1s",
        "--target",
        &server.sip.to_string(),
    ]);
    storm.arg("--store-path").arg(place.path("busyhour.db"));
    let (code, said, errors) = run(&mut storm);
    assert_eq!(code, 0, "{said}{errors}");
    assert!(errors.contains("300 accounts storm-trial-"), "{errors}");
    assert!(server.stat("/registrar/challenged") >= 300);
    server.wait_for("/registrar/account_count", |count| count == 0);
    server.wait_for("/registrar/binding_count", |count| count == 0);
    // Without its accounts it says what to give.
    storm = busyhour();
    storm.args([
        "storm",
        "--devices",
        "1",
        "--over",
        "1ms",
        "--target",
        &server.sip.to_string(),
    ]);
    storm.arg("--store-path").arg(place.path("other.db"));
    let (code, _, errors) = run(&mut storm);
    assert_ne!(code, 0);
    assert!(errors.contains("--auth USER:PASSWORD"), "{errors}");
}

#[test]
fn a_storm_that_a_signal_ends_leaves_no_account() {
    let place = Place::new();
    let server = ServerProcess::start(&mut place.serve(), &place);
    let mut storm = busyhour();
    storm.args(["storm", "--devices", "300", "--over", "300s"]);
    storm.args(["--target", &server.sip.to_string()]);
    storm.arg("--store-path").arg(place.path("busyhour.db"));
    let mut running = storm.stderr(Stdio::null()).spawn().unwrap();
    server.wait_for("/registrar/binding_count", |count| count > 0);
    kill(Pid::from_raw(running.id() as i32), Signal::SIGINT).unwrap();
    let status = running.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::SIGINT as i32));
    server.wait_for("/registrar/account_count", |count| count == 0);
    server.wait_for("/registrar/binding_count", |count| count == 0);
}

/// In a real terminal, that of tmux: what it draws, and that it goes at a key.
#[test]
fn top_draws_on_a_terminal_and_ends_at_a_key() {
    let place = Place::new();
    let server = place.server("[sip]\nauth = \"open\"\n");
    let socket = place.path("tmux");
    let tmux = |words: &[&str]| {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&socket).args(words);
        run(&mut command)
    };
    let program = format!(
        "{} top --http {}; echo ended with $?; sleep 60",
        env!("CARGO_BIN_EXE_busyhour"),
        server.http
    );
    let started = tmux(&[
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-x",
        "100",
        "-y",
        "40",
        &program,
    ]);
    assert_eq!(
        started.0, 0,
        "tmux, which scripts/install-deps.sh test installs: {}",
        started.2
    );
    let screen = || tmux(&["capture-pane", "-p"]).1;
    let shows = |text: &str| {
        wait_until(
            || screen().contains(text),
            || format!("no {text:?}:\n{}", screen()),
        )
    };
    shows("devices registered");
    let storm = ["storm", "--devices", "40", "--over", "1s", "--target"];
    run(busyhour().args(storm).arg(server.sip.to_string()));
    let is_counted = || {
        screen()
            .lines()
            .any(|line| line.contains("devices registered") && line.contains(" 40"))
    };
    wait_until(is_counted, screen);
    tmux(&["send-keys", "p"]);
    shows("stopped;");
    tmux(&["send-keys", "q"]);
    shows("ended with 0");
    tmux(&["kill-server"]);
    let (code, _, errors) = run(busyhour().args(["top", "--http", &server.http.to_string()]));
    assert_eq!(code, 2);
    assert!(errors.contains("--json"), "{errors}");
    let json = [
        "top",
        "--json",
        "--count",
        "2",
        "--http",
        &server.http.to_string(),
    ];
    let (code, said, _) = run(busyhour().args(json));
    assert_eq!((code, said.lines().count()), (0, 2));
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(last["devices_registered"], 40.0);
}
