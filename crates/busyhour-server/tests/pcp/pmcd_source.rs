//! What a `pmcd` that is slow, frozen or no `pmcd` at all does to the end of a server.

use busyhour::clock::Clock;
use busyhour_graphite::{Source, TelemetryOptions};
use busyhour_server::web::PmcdSource;
use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
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

/// One metric with thousands of names, each of which would have thousands of instances.
#[test]
fn a_pmcd_that_lies_gets_as_many_series_as_the_ring_holds() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || lie(listener.accept().unwrap().0));
    let source = start(&address);
    let begin = Instant::now();
    let stats = loop {
        let stats = source.ring().unwrap();
        if stats.sampled > 0 {
            break stats;
        }
        assert!(begin.elapsed() < WATCHDOG, "nothing was sampled");
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(stats.series_count, 4096);
    // A metric has 16 names, so its values are dropped as often.
    assert_eq!(stats.dropped, stats.sampled * (16 * LIES - 4096));
    assert_ends(source);
}

/// Answers as a `pmcd` does, until the other side has gone.
fn lie(mut stream: TcpStream) -> Option<()> {
    let text = |number: u64| {
        let text = format!("n{number:07}").into_bytes();
        [8u32.to_be_bytes().to_vec(), text].concat()
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let count = LIES as u32;
    send(&mut stream, 0x7000, words(&[0, 0x0200_0000]))?;
    let mut asked = 0;
    loop {
        let mut head = [0; 12];
        stream.read_exact(&mut head).ok()?;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let mut body = vec![0; word(0) as usize - 12];
        stream.read_exact(&mut body).ok()?;
        match word(4) {
            0x7010 => {
                let mut names: Vec<u8> = words(&[0, 0, count]);
                names.extend((0..LIES).flat_map(text));
                send(&mut stream, 0x700e, names)?;
            }
            0x700e => {
                let names = u32::from_be_bytes(body[8..12].try_into().unwrap());
                let mut identifiers: Vec<u8> = words(&[0, names]);
                identifiers.extend((0..names).flat_map(|_| 1u32.to_be_bytes()));
                send(&mut stream, 0x700d, identifiers)?;
            }
            0x7003 => {
                asked += 1;
                let mut result: Vec<u8> = words(&[asked, 0, 1, 1, count, 0]);
                result.extend((0..count).flat_map(|id| words(&[id, id])));
                send(&mut stream, 0x7001, result)?;
            }
            0x7004 => send(&mut stream, 0x7005, words(&[1, 1, 7, 3, 0]))?,
            0x7006 => {
                let mut instances: Vec<u8> = words(&[7, count]);
                for id in 0..count {
                    instances.extend(id.to_be_bytes());
                    instances.extend(text(id.into()));
                }
                send(&mut stream, 0x7007, instances)?;
            }
            // Credentials and the profile.
            _ => {}
        }
    }
}

fn send(stream: &mut TcpStream, kind: u32, body: Vec<u8>) -> Option<()> {
    let head = [body.len() as u32 + 12, kind, 0].map(u32::to_be_bytes);
    stream.write_all(&[head.concat(), body].concat()).ok()
}

/// Names, instances and values.
const LIES: u64 = 5000;

/// Far beyond what the source waits for.
const WATCHDOG: Duration = Duration::from_secs(30);
const PROMPT: Duration = Duration::from_secs(4);
