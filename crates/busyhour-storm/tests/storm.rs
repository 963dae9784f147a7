//! Complete storms over loopback, against a small registrar of the test.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use busyhour_sip::{HeaderName, Message, ResponseBuilder, Status};
use busyhour_storm::{Storm, StormError};
use clap::Parser;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    storm: Storm,
}

/// Answers every REGISTER until it is dropped, but ignores every `deaf_to`-th
/// datagram.
struct Registrar {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Registrar {
    fn start(deaf_to: u64) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a timeout");
        let address = socket.local_addr().expect("an address");
        let (stop, accepted) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&accepted));
        let thread = thread::spawn(move || serve(&socket, deaf_to, &stopped, &counter));
        Self {
            address,
            stop,
            accepted,
            thread: Some(thread),
        }
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(socket: &UdpSocket, deaf_to: u64, stop: &AtomicBool, accepted: &AtomicU64) {
    let mut room = [0; 4096];
    let mut datagrams = 0;
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, source)) = socket.recv_from(&mut room) else {
            continue;
        };
        datagrams += 1;
        if datagrams % deaf_to == 0 {
            continue;
        }
        let request = Message::parse(&room[..length]).expect("sound");
        let contact = request.header(HeaderName::Contact).expect("a contact");
        let mut out = Vec::new();
        ResponseBuilder::new(&mut out, &request, Status::OK, Some(source))
            .to_tag("t")
            .header(HeaderName::Contact, format_args!("{contact};expires=60"))
            .finish();
        // Counted before the answer is sent: the storm may end as soon as it
        // has the answer.
        accepted.fetch_add(1, Ordering::Relaxed);
        socket.send_to(&out, source).expect("sent");
    }
}

fn storm(target: SocketAddr, options: &str) -> Result<(), StormError> {
    let target = target.to_string();
    let words = ["storm", "--json", "--target", &target]
        .into_iter()
        .chain(options.split_whitespace());
    CommandLine::parse_from(words).storm.run(&|_report| Ok(()))
}

#[test]
fn an_open_storm_registers_every_device_once_and_writes_its_journal() {
    let registrar = Registrar::start(u64::MAX);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal");
    let options = format!(
        "--devices 300 --over 200ms --threads 2 --journal {}",
        path.display()
    );
    storm(registrar.address, &options).expect("all registrations are acknowledged");
    let journal = std::fs::read_to_string(path).expect("written");
    let with = |word: &str| {
        let mut lines: Vec<_> = journal
            .lines()
            .filter_map(|line| line.strip_prefix(word))
            .collect();
        lines.sort_unstable();
        lines.dedup();
        lines.len()
    };
    assert_eq!((with("offered "), with("acknowledged ")), (300, 300));
    for number in [1, 300] {
        assert!(
            journal.contains(&format!("acknowledged sip:device{number}@127.0.0.1 1\n")),
            "{number}"
        );
    }
    assert_eq!(registrar.accepted.load(Ordering::Relaxed), 300);
}

#[test]
fn the_report_has_the_servers_cpu_use_on_average_and_at_its_peak() {
    let registrar = Registrar::start(u64::MAX);
    let target = registrar.address.to_string();
    let here = std::process::id().to_string();
    let words = ["storm", "--json", "--target", &target, "--pid", &here];
    let options = ["--devices", "300", "--over", "1500ms", "--threads", "1"];
    let report = std::cell::RefCell::new(String::new());
    let storm = CommandLine::parse_from(words.into_iter().chain(options)).storm;
    // The system counts whole ticks, and so few registrations may take less than one.
    let busy = Busy::start();
    let keep = |text: String| {
        report.borrow_mut().push_str(&text);
        Ok(())
    };
    storm
        .run(&keep)
        .expect("all registrations are acknowledged");
    drop(busy);
    let report: serde_json::Value = serde_json::from_str(&report.borrow()).expect("JSON");
    let percent = |key: &str| report[key].as_f64().expect("a number");
    assert!(percent("cpu_percent") > 0.0);
    assert!(percent("cpu_percent_max") > 0.0);
}

/// A thread that computes until this is dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let compute = move || {
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        let thread = Some(thread::spawn(compute));
        Self { stop, thread }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn lost_datagrams_are_retransmitted() {
    let registrar = Registrar::start(3);
    storm(registrar.address, "--devices 90 --closed 8 --t1 20ms")
        .expect("all registrations are acknowledged in the end");
    assert!(registrar.accepted.load(Ordering::Relaxed) >= 90);
}

#[test]
fn refreshes_use_the_registered_devices_in_turn() {
    let registrar = Registrar::start(u64::MAX);
    storm(
        registrar.address,
        "--devices 20 --closed 4 --kind refresh --over 50ms",
    )
    .expect("all registrations are acknowledged");
    assert!(registrar.accepted.load(Ordering::Relaxed) > 20);
}

#[test]
fn a_server_that_never_answers_is_a_failure() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let result = storm(
        silent.local_addr().expect("an address"),
        "--devices 5 --over 1ms --t1 1ms",
    );
    assert!(
        matches!(
            result,
            Err(StormError::Failed {
                failed: 5,
                sent: 5,
                ..
            })
        ),
        "{result:?}"
    );
}

#[test]
fn a_port_without_a_server_is_a_failure_too() {
    let gone = UdpSocket::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("an address");
    let result = storm(gone, "--devices 5 --over 1ms --t1 1ms");
    assert!(
        matches!(
            result,
            Err(StormError::Failed {
                failed: 5,
                sent: 5,
                ..
            })
        ),
        "{result:?}"
    );
}

#[test]
fn wrong_options_are_refused() {
    for options in [
        "--devices 0",
        "--rate -1",
        "--rate nan",
        "--closed 0",
        "--algorithm SHA-1",
        "--user {x}",
    ] {
        let words = std::iter::once("storm").chain(options.split_whitespace());
        assert!(CommandLine::try_parse_from(words).is_err(), "{options}");
    }
    let nowhere = "127.0.0.1:9".parse().expect("an address");
    assert!(matches!(
        storm(nowhere, "--auth nobody"),
        Err(StormError::NoColon)
    ));
    assert!(matches!(
        storm(nowhere, "--auth {x}:y"),
        Err(StormError::Auth(_))
    ));
}
