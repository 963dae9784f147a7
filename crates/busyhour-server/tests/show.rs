//! `busyhour show` against a running server: over its local socket and over HTTP.

#[path = "show/call_records.rs"]
mod call_records;
mod support;
#[path = "show/telephone.rs"]
mod telephone;
#[path = "show/trace.rs"]
mod trace;

use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Write},
    net::UdpSocket,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::{Command, Output, Stdio},
};
use support::{Place, ServerProcess, busyhour};

const OPEN: &str = "[sip]\nauth = \"open\"\n";

/// `busyhour show` with these words, which looks for sockets in `place`.
fn show(place: &Place, words: &[&str]) -> Command {
    let mut command = busyhour();
    place.keep_sockets_here(&mut command);
    command.arg("show").args(words);
    command
}

fn text(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn good(place: &Place, words: &[&str]) -> String {
    text(show(place, words).output().unwrap())
}

fn rows(place: &Place, words: &[&str]) -> Vec<Value> {
    let words = [words, &["--json", "--limit", "0"]].concat();
    serde_json::from_str(&good(place, &words)).unwrap()
}

fn refused(place: &Place, words: &[&str], code: i32) -> String {
    let output = show(place, words).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{words:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn register(server: &ServerProcess, user: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    send(
        &socket,
        server,
        &format!(
            "REGISTER sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bK1{user}\r\n\
             From: <sip:{user}@127.0.0.1>;tag=t\r\nTo: <sip:{user}@127.0.0.1>\r\n\
             Call-ID: {user}\r\nCSeq: 1 REGISTER\r\nContact: <sip:{user}@{address}>\r\n\
             User-Agent: lamp\r\nContent-Length: 0\r\n\r\n"
        ),
    );
}

/// Subscribes to the presence of `user`.
fn watch(server: &ServerProcess, user: &str) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    send(
        &socket,
        server,
        &format!(
            "SUBSCRIBE sip:{user}@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch=z9hG4bK2{user}\r\n\
             From: <sip:watcher@127.0.0.1>;tag=w\r\nTo: <sip:{user}@127.0.0.1>\r\n\
             Call-ID: w{user}\r\nCSeq: 1 SUBSCRIBE\r\nContact: <sip:watcher@{address}>\r\n\
             Event: presence\r\nExpires: 600\r\nContent-Length: 0\r\n\r\n"
        ),
    );
    socket
}

/// Sends a request, which must be answered with 200.
fn send(socket: &UdpSocket, server: &ServerProcess, request: &str) {
    let patience = std::time::Duration::from_secs(20);
    socket.set_read_timeout(Some(patience)).unwrap();
    socket.send_to(request.as_bytes(), server.sip).unwrap();
    let mut answer = [0; 4096];
    let len = socket.recv(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..len]);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

#[test]
fn the_only_server_is_found_and_shows_what_it_holds() {
    let place = Place::new();
    let server = place.server(OPEN);
    register(&server, "alice");
    let _watcher = watch(&server, "alice");

    let queues = rows(&place, &["queues"]);
    let of = |kind: &str, name: &str| {
        let is_it = |row: &&Value| row["kind"] == kind && row["name"] == name;
        queues
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{kind} {name}: {queues:?}"))
    };
    let strands = of("strand", "all");
    assert!(strands["processed"].as_u64() >= Some(1));
    assert_eq!(
        (&strands["high_watermark"], &strands["is_high"]),
        (&32.into(), &false.into())
    );
    assert!(of("watcher", "all")["processed"].as_u64() >= Some(1));
    assert_eq!(of("request", "waiting for their devices")["capacity"], 1024);
    assert!(of("store", "changes")["processed"].as_u64() >= Some(1));
    for kind in ["pool", "expiry", "hint", "iax2", "socket"] {
        assert!(
            queues.iter().any(|row| row["kind"] == kind),
            "{kind}: {queues:?}"
        );
    }

    let timers = rows(&place, &["timers"]);
    let binding = timers.iter().find(|row| row["label"] == "binding").unwrap();
    assert_eq!(binding["phase"], "waiting");
    assert!(
        binding["due_in_ns"].as_u64() > Some(1_000_000_000),
        "{binding}"
    );

    let first = good(&place, &["timers", "--limit", "1"]);
    assert_eq!(first.lines().count(), 3, "{first}");
    assert!(first.contains("more; --limit 0 shows all"), "{first}");

    let topics = rows(&place, &["topics", "--filter", "name=device-state"]);
    assert_eq!(topics[0]["subscriber_count"], 1, "{topics:?}");

    let subscriptions = rows(&place, &["subscriptions", "--filter", "topic=device-state"]);
    let name = subscriptions[0]["name"].as_str().unwrap();
    assert_eq!(name, "state of sip:alice@127.0.0.1");
    assert_eq!(subscriptions[0]["filter"], "key");

    let workers = rows(&place, &["workers"]);
    let processed = |row: &Value| row["processed"].as_u64().unwrap();
    assert!(
        workers.iter().map(processed).sum::<u64>() >= 1,
        "{workers:?}"
    );
    assert!(rows(&place, &["stores"])[0]["committed"].as_u64() >= Some(1));
    // The answers are kept for retransmissions.
    let buffers = rows(&place, &["buffers", "--filter", "owner=answers"]);
    assert!(buffers[0]["live_count"].as_u64() >= Some(2), "{buffers:?}");
    assert_eq!(buffers[0]["oldest_begins"], "SIP/2.0 200 OK", "{buffers:?}");

    let device = good(&place, &["device", "alice"]);
    assert!(
        device.contains("registered") && device.contains("lamp"),
        "{device}"
    );
    let unknown = refused(&place, &["device", "no body"], 1);
    assert!(
        unknown.contains("`no body` is not registered, and has no account"),
        "{unknown}"
    );
}

#[test]
fn the_oldest_buffers_say_where_they_were_taken_if_they_are_traced() {
    let place = Place::new();
    let traced = format!("{OPEN}[runtime]\ntrace_one_buffer_in = 1\n");
    let server = place.server(&traced);
    register(&server, "alice");
    let buffers = rows(
        &place,
        &["buffers", "--oldest", "--filter", "owner=answers"],
    );
    let taken_in = buffers[0]["taken_in"].as_str().unwrap_or_default();
    assert!(taken_in.starts_with("busyhour_server::"), "{buffers:?}");
    let trace = buffers[0]["trace"].as_str().unwrap();
    assert!(trace.lines().count() > 10, "{trace}");
    let table = good(&place, &["buffers", "--oldest"]);
    assert!(
        table.contains("TAKEN_IN") && !table.contains("std::"),
        "{table}"
    );

    let all = &rows(&place, &["buffers", "--filter", "owner=all"])[0];
    assert!(all["allocated"].as_u64() >= Some(2), "{all}");
    assert_eq!((&all["found"], &all["pinned"]), (&0.into(), &0.into()));
}

#[test]
fn sockets_connections_store_and_http_are_among_the_queues() {
    let place = Place::new();
    let server = place.server(OPEN);
    let queues = || rows(&place, &["queues"]);
    let of = |queues: &[Value], kind: &str, name: &str| {
        let is_it = |row: &&Value| {
            row["kind"] == kind && row["name"].as_str().is_some_and(|it| it.starts_with(name))
        };
        queues
            .iter()
            .find(is_it)
            .cloned()
            .unwrap_or_else(|| panic!("{kind} {name}: {queues:?}"))
    };
    register(&server, "alice");
    let all = queues();
    let to_read = of(&all, "socket", &format!("SIP {} to read", server.sip));
    assert_eq!(to_read["queued_bytes"], 0);
    assert!(
        to_read["capacity_bytes"].as_u64() > Some(100_000),
        "{to_read}"
    );
    assert!(to_read["processed"].as_u64() >= Some(1));
    let to_send = of(&all, "socket", &format!("SIP {} to send", server.sip));
    assert!(to_send["processed"].as_u64() >= Some(1) && to_send["capacity"].is_number());
    let connections = of(&all, "connection", "all");
    assert_eq!(connections["queued_len"], 0);
    assert!(connections["capacity_bytes"].as_u64() > Some(1_000_000));
    assert_eq!(of(&all, "store", "changes")["high_watermark"], 32_768);
    assert_eq!(of(&all, "pool", "tasks")["high_watermark"], 2048);
    of(&all, "http", "requests of the local socket");
}

#[test]
fn a_limit_that_was_reached_is_an_alert() {
    let place = Place::new();
    let server = place.server("[sip]\nauth = \"open\"\nmax_contacts = 1\n");
    let nothing = good(&place, &["alerts"]);
    assert_eq!(nothing, "no limit was reached since the server started\n");
    register(&server, "alice");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let request = "REGISTER sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK9;rport\r\n\
         From: <sip:alice@127.0.0.1>;tag=t\r\nTo: <sip:alice@127.0.0.1>\r\nCall-ID: other\r\n\
         CSeq: 1 REGISTER\r\nContact: <sip:alice@192.0.2.9>\r\nContent-Length: 0\r\n\r\n";
    socket.send_to(request.as_bytes(), server.sip).unwrap();
    server.wait_for("/registrar/too_many_contacts", |count| count == 1);
    let alerts = rows(&place, &["alerts"]);
    assert_eq!(alerts[0]["limit"], "sip.max_contacts");
    assert_eq!(
        (&alerts[0]["count"], &alerts[0]["concerns"]),
        (&1.into(), &"one client".into())
    );
}

#[test]
fn the_socket_is_for_the_user_alone_and_goes_with_the_server() {
    let place = Place::new();
    let mut command = place.serve();
    command.args(["--sip-auth", "open", "--http-socket"]);
    let socket = place.path("admin.sock");
    command.arg(&socket);
    let mut server = ServerProcess::start(&mut command, &place);
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let path = socket.to_str().unwrap();
    assert!(good(&place, &["workers", "--socket", path]).contains("PROCESSED"));
    // A second server must not take the socket from the first one.
    let other = Place::new();
    let second = other.serve().arg("--http-socket").arg(&socket).output();
    let second = second.unwrap();
    let errors = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{errors}");
    assert!(errors.contains("another server listens there"), "{errors}");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
    assert!(!socket.exists());
}

#[test]
fn clients_of_the_address_take_nothing_from_the_socket() {
    let place = Place::new();
    let mut command = place.serve();
    command.args(["--http-max-connections", "1"]);
    let server = ServerProcess::start(&mut command, &place);
    let mut hog = std::net::TcpStream::connect(server.http).unwrap();
    hog.write_all(b"GET /api/stats HTTP/1.1\r\n").unwrap();
    assert!(good(&place, &["stores"]).contains("COMMITTED"));
    let address = server.http.to_string();
    drop(hog);
    // When it has gone, the same answers come over HTTP.
    support::wait_until(
        || {
            show(&place, &["stores", "--http", &address])
                .status()
                .unwrap()
                .success()
        },
        || "no answer over HTTP".into(),
    );
}

#[test]
fn watching_ends_when_nobody_reads_any_more() {
    let place = Place::new();
    let _server = place.server(OPEN);
    let mut command = show(&place, &["workers", "--watch", "1"]);
    let mut watching = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(watching.stdout.take().unwrap());
    // The table comes more than once.
    for _ in 0..2 {
        let mut line = String::new();
        while !line.contains("PROCESSED") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0);
        }
    }
    drop(output);
    let mut status = None;
    support::wait_until(
        || {
            status = watching.try_wait().unwrap();
            status.is_some()
        },
        || "the command goes on".into(),
    );
    assert!(status.unwrap().success());
}

#[test]
fn the_socket_is_there_without_an_http_address() {
    let place = Place::new();
    let mut command = busyhour();
    place.keep_sockets_here(&mut command);
    command.args([
        "serve",
        "--sip-listen",
        "127.0.0.1:0",
        "--iax2-listen",
        "off",
    ]);
    command.args(["--http-listen", "off", "--store-durability", "memory"]);
    command.stdout(Stdio::null());
    command.stderr(Stdio::null());
    let mut server = command.spawn().unwrap();
    support::wait_until(
        || show(&place, &["stores"]).output().unwrap().status.success(),
        || "no answer on the socket".into(),
    );
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn it_says_what_is_wrong_and_what_to_do() {
    let place = Place::new();
    let none = refused(&place, &["queues"], 1);
    assert!(
        none.contains("no server of this user runs here; start one with"),
        "{none}"
    );
    let socket = place.path("gone.sock");
    let gone = refused(&place, &["queues", "--socket", socket.to_str().unwrap()], 1);
    assert!(gone.contains("no server answers at"), "{gone}");
    let column = refused(&place, &["queues", "--sort", "len"], 2);
    assert!(
        column.contains("there is no column len; give one of kind, name,"),
        "{column}"
    );

    let first = place.server(OPEN);
    let other = Place::new();
    let mut second = other.serve();
    place.keep_sockets_here(&mut second);
    let second = ServerProcess::start(&mut second, &other);
    let several = refused(&place, &["queues"], 1);
    for server in [&first, &second] {
        let name = format!("busyhour-{}.sock", server.pid());
        assert!(several.contains(&name), "{several}");
    }
}

/// A server that was killed leaves its socket behind; the next one removes it.
#[test]
fn the_socket_of_a_killed_server_is_not_in_the_way() {
    let place = Place::new();
    let mut killed = place.server(OPEN);
    killed.signal(nix::sys::signal::Signal::SIGKILL);
    killed.wait();
    let left = place.path(&format!("run/busyhour-{}.sock", killed.pid()));
    assert!(left.exists() && UnixStream::connect(&left).is_err());
    let none = refused(&place, &["queues"], 1);
    assert!(none.contains("no server of this user runs here"), "{none}");
    let _server = place.server(OPEN);
    assert!(!left.exists());
    assert!(good(&place, &["queues"]).contains("strand"));
}

/// A server whose socket is where only its configuration says, and another one where all look.
#[test]
fn a_configuration_names_the_server_that_is_asked() {
    let (place, other) = (Place::new(), Place::new());
    let socket = place.path("own.sock");
    let configuration = format!(
        "[sip]\nauth = \"open\"\n[http]\nsocket = {socket:?}\n\
         [[account]]\nuser = \"alice\"\npassword = \"secret\"\n"
    );
    let server = place.server(&configuration);
    let elsewhere = other.server(OPEN);
    register(&server, "alice");
    let file = place.path("busyhour.toml");
    let asked = |words: &[&str]| {
        let mut command = busyhour();
        other.keep_sockets_here(&mut command);
        command.args(words).arg("--config").arg(&file);
        text(command.output().unwrap())
    };
    for address in ["alice", "alice@127.0.0.1", "sip:alice@127.0.0.1"] {
        let shown = asked(&["show", "device", address]);
        assert!(shown.contains("sip:alice@"), "{address}: {shown}");
    }
    let database = place.path("busyhour.db");
    let database = database.to_str().unwrap();
    let shown = asked(&["device", "show", "alice", "--store-path", database]);
    assert!(
        shown.contains("an [[account]] of the configuration"),
        "{shown}"
    );
    assert!(shown.contains("sip:alice@127.0.0.1 at "), "{shown}");
    // Without a path the only server that runs here is asked, as by `show device`.
    let nowhere =
        "[http]\nlisten = \"127.0.0.1:9\"\n[[account]]\nuser = \"alice\"\npassword = \"x\"\n";
    let nowhere = place.file("nowhere.toml", nowhere);
    let mut command = busyhour();
    other.keep_sockets_here(&mut command);
    command.args([
        "device",
        "show",
        "lamp",
        "--store-path",
        database,
        "--config",
    ]);
    register(&elsewhere, "lamp");
    let add = [
        "device",
        "add",
        "lamp",
        "--md5",
        "0123456789abcdef0123456789abcdef",
    ];
    let mut account = busyhour();
    account.args(add).args(["--store-path", database]);
    text(account.output().unwrap());
    let shown = text(command.arg(&nowhere).output().unwrap());
    assert!(shown.contains("sip:lamp@127.0.0.1 at "), "{shown}");
    let ended = asked(&["device", "unregister", "alice@127.0.0.1"]);
    assert!(ended.contains("1 contact removed"), "{ended}");
}

/// The only server whose socket is found is not that of the configuration.
#[test]
fn a_configuration_without_a_socket_names_its_address() {
    let (place, other) = (Place::new(), Place::new());
    let elsewhere = other.server(OPEN);
    register(&elsewhere, "lamp");
    let asked = |file: &Path| {
        let mut command = busyhour();
        other.keep_sockets_here(&mut command);
        command.args(["device", "unregister", "lamp@127.0.0.1", "--config"]);
        command.arg(file).output().unwrap()
    };
    let nowhere = place.file("nowhere.toml", "[http]\nlisten = \"127.0.0.1:9\"\n");
    let refused = asked(&nowhere);
    assert_eq!(refused.status.code(), Some(1));
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(words.contains("127.0.0.1:9"), "{words}");
    let own = format!("[http]\nlisten = \"{}\"\n", elsewhere.http);
    let ended = text(asked(&place.file("own.toml", &own)));
    assert!(ended.contains("1 contact removed"), "{ended}");
}

/// A server that takes any free port is known by its socket alone.
#[test]
fn a_configuration_with_port_0_means_the_only_server_that_runs_here() {
    let place = Place::new();
    let server = place.server(OPEN);
    register(&server, "lamp");
    let asked = |socket: &str| {
        let text = format!("[http]\nlisten = \"127.0.0.1:0\"\nsocket = \"{socket}\"\n");
        let mut command = busyhour();
        place.keep_sockets_here(&mut command);
        command.args(["show", "device", "lamp", "--config"]);
        command.arg(place.file("any.toml", &text)).output().unwrap()
    };
    let shown = text(asked("auto"));
    assert!(shown.contains("sip:lamp@"), "{shown}");
    let refused = asked("off");
    assert_eq!(refused.status.code(), Some(1));
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(words.contains("http.listen has port 0"), "{words}");
}

#[test]
fn hints_are_shown_with_their_states() {
    let place = Place::new();
    let hints = "[[hint]]\nextension = \"100\"\ndevices = [\"alice\", \"bob\"]\n";
    let server = place.server(&format!("{OPEN}domains = [\"127.0.0.1\"]\n{hints}"));
    register(&server, "alice");
    let is_idle = || rows(&place, &["hints"])[0]["state"] == "idle";
    support::wait_until(is_idle, || good(&place, &["hints"]));
    let table = good(&place, &["hints"]);
    assert!(
        table.contains("EXTENSION") && table.contains("idle"),
        "{table}"
    );
    assert!(table.contains("alice") && table.contains(", "), "{table}");
    drop(server);
}

#[test]
fn lists_are_shown_with_how_long_they_are() {
    let place = Place::new();
    let lists = "[[list]]\nname = \"panel\"\ntitle = \"First floor\"\nentries = [\"a\", \"b\"]\n\
                 [[list]]\nname = \"door\"\nentries = [\"a\"]\n";
    let server = place.server(&format!("{OPEN}domains = [\"example.com\"]\n{lists}"));
    let rows = rows(&place, &["lists"]);
    let of = |index: usize, name: &str| rows[index][name].clone();
    assert_eq!(
        (of(0, "name"), of(0, "entry_count")),
        ("panel".into(), 2.into())
    );
    assert_eq!(
        (of(0, "title"), of(1, "name")),
        ("First floor".into(), "door".into())
    );
    let table = good(&place, &["lists"]);
    assert!(
        table.contains("First floor") && table.contains("yes"),
        "{table}"
    );
    drop(server);
}
