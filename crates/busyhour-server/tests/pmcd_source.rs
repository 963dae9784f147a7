//! What a `pmcd` that is slow, frozen or no `pmcd` at all does to the end of a server.

use busyhour::clock::Clock;
use busyhour_graphite::TelemetryOptions;
use busyhour_server::web::PmcdSource;
use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    io::Write,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

fn start(address: &str) -> PmcdSource {
    let options = TelemetryOptions {
        step_seconds: 1,
        ..TelemetryOptions::default()
    };
    PmcdSource::start(address.parse().unwrap(), "", options, &Clock::machine()).unwrap()
}

/// Drops the source on another thread, so that one that hangs fails the test.
fn assert_ends(source: PmcdSource) {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        drop(source);
        ended.send(())
    });
    let begin = Instant::now();
    end.recv_timeout(WATCHDOG).expect("the source never ends");
    // One patience of 5 s for an answer is no prompt end.
    assert!(begin.elapsed() < PROMPT, "{:?}", begin.elapsed());
}

#[test]
fn a_source_whose_pmcd_trickles_ends_promptly() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let is_done = Arc::new(AtomicBool::new(false));
    let (began, begin) = mpsc::channel();
    let trickle = {
        let is_done = is_done.clone();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The head of a message of 16 MiB, whose bytes come one at a time.
            stream.write_all(&(16_u32 << 20).to_be_bytes()).unwrap();
            began.send(()).unwrap();
            while !is_done.load(Ordering::Relaxed) && stream.write_all(&[0]).is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        })
    };
    let source = start(&address);
    begin.recv_timeout(WATCHDOG).unwrap();
    assert_ends(source);
    is_done.store(true, Ordering::Relaxed);
    trickle.join().unwrap();
}

#[test]
fn a_pmcd_that_trickles_is_given_up_after_a_while() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (gave_up, given_up) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&(16_u32 << 20).to_be_bytes()).unwrap();
        while stream.write_all(&[0]).is_ok() {
            thread::sleep(Duration::from_millis(20));
        }
        gave_up.send(())
    });
    let source = start(&address);
    given_up
        .recv_timeout(WATCHDOG)
        .expect("the answer may take for ever");
    assert_ends(source);
}

#[test]
fn a_source_whose_pmcd_takes_no_connection_ends_promptly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pmcd.socket");
    let address = SockAddr::unix(&path).unwrap();
    let frozen = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    frozen.bind(&address).unwrap();
    frozen.listen(0).unwrap();
    // Connections that nobody accepts, until the backlog has no place for another.
    let mut waiting = Vec::new();
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        match socket.connect(&address) {
            Ok(()) => waiting.push(socket),
            Err(_) => break,
        }
    }
    let source = start(path.to_str().unwrap());
    assert_ends(source);
}

/// Far beyond what the source waits for.
const WATCHDOG: Duration = Duration::from_secs(30);
const PROMPT: Duration = Duration::from_secs(4);
