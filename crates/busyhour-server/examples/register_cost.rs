//! What a REGISTER costs inside of the server: no socket, no kernel, only the
//! way from `Server::message` to the network interface.
//!
//! ```text
//! cargo run --release -p busyhour-server --example register_cost -- [devices] [rounds] [database]
//! ```
//!
//! The first round inserts, the later ones refresh. With a database each 200
//! waits for its commit.

use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_server::server::{Authentication, Network, SendError, Server, ServerConfig};
use busyhour_sip::Flow;
use busyhour_store::{MemoryStore, SqliteOptions, SqliteStore, Store};
use std::{
    error::Error,
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let (devices, rounds) = (number(12_000)?, number(10)?);
    let store: Box<dyn Store> = match arguments.next() {
        Some(path) => Box::new(SqliteStore::open(SqliteOptions::new(path))?),
        None => Box::new(MemoryStore::new()),
    };
    let runtime = Runtime::builder().build()?;
    let answers = Arc::new(Answers::default());
    let config = ServerConfig {
        authentication: Authentication::Open,
        ..ServerConfig::default()
    };
    let server = Server::start(runtime.clone(), config, answers.clone(), store)?;
    let resident = resident_kib();
    for round in 0..rounds {
        measure(&runtime, &server, &answers, devices, round)?;
        if round == 0 {
            let grown = resident_kib().saturating_sub(resident);
            println!("{} bytes a contact", grown * 1024 / devices);
        }
    }
    let stats = server.stats();
    println!("{:#?}\n{:#?}", stats.registrar, stats.store);
    Ok(())
}

/// Counts the 200s.
#[derive(Default)]
struct Answers {
    accepted: AtomicU64,
    other: AtomicU64,
}

impl Network for Answers {
    fn send(&self, _flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        match datagram.starts_with(b"SIP/2.0 200") {
            true => self.accepted.fetch_add(1, Ordering::Relaxed),
            false => self.other.fetch_add(1, Ordering::Relaxed),
        };
        Ok(())
    }
}

fn measure(
    runtime: &Runtime,
    server: &Server,
    answers: &Answers,
    devices: u64,
    round: u64,
) -> Result<(), Box<dyn Error>> {
    let local = "192.0.2.1:5060".parse()?;
    let before = answers.accepted.load(Ordering::Relaxed);
    let (begun, cpu) = (Instant::now(), cpu_time());
    for device in 0..devices {
        // As many on their way as a busy server has, not as many as there are.
        while device > answers.accepted.load(Ordering::Relaxed) - before + OUTSTANDING {
            thread::yield_now();
        }
        let datagram = runtime.buffers().copy_from(&register(device, round))?;
        let flow = Flow::udp(local, "198.51.100.7:5060".parse()?);
        server.message(flow, &datagram);
    }
    while answers.accepted.load(Ordering::Relaxed) - before < devices {
        let other = answers.other.load(Ordering::Relaxed);
        assert_eq!(other, 0, "a registration was refused");
        thread::sleep(Duration::from_millis(1));
    }
    let (elapsed, cpu) = (begun.elapsed(), cpu_time() - cpu);
    println!(
        "round {round}: {:>7.0}/s, {:.2} µs CPU each",
        devices as f64 / elapsed.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / devices as f64
    );
    Ok(())
}

fn register(device: u64, round: u64) -> Vec<u8> {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/UDP 198.51.100.7:5060;branch=z9hG4bK{device:x}.{round};rport\r\n\
         Max-Forwards: 70\r\n\
         From: <sip:device{device}@example.com>;tag=f{device:x}\r\n\
         To: <sip:device{device}@example.com>\r\n\
         Call-ID: {device:016x}@198.51.100.7\r\n\
         CSeq: {} REGISTER\r\n\
         Contact: <sip:device{device}@198.51.100.7:5060>\r\n\
         User-Agent: busyhour\r\n\
         Expires: 3600\r\n\
         Content-Length: 0\r\n\r\n",
        round + 1
    )
    .into_bytes()
}

/// User and system time of the whole process.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|tick| tick.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

const OUTSTANDING: u64 = 1_000;
