//! What others notice when very many bindings end at one instant.
//!
//! ```text
//! cargo run --release -p busyhour-server --example expire -- 1000000
//! cargo run --release -p busyhour-server --example expire -- 1000000 memory
//! ```
//!
//! Writes so many contacts into a fresh SQLite database, all with the same end,
//! and starts a server on the file. From before that end until the last of them
//! is gone, one device asks (OPTIONS) and another registers anew, in turn and
//! one at a time; printed is how long their answers take at worst. With `memory`
//! the server forgets the file once it has read it, and keeps nothing on the disk.

mod contacts;

use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_registrar::EndedBinding;
use busyhour_server::server::{Authentication, Network, SendError, Server, ServerConfig};
use busyhour_sip::Flow;
use busyhour_store::{
    AccountListener, CallRecordLimits, CallRecordQuery, CallRecordRow, Change, Completion,
    Contents, EndListener, MemoryStore, Refused, SqliteOptions, SqliteStore, Store, StoreError,
    StoreStats,
};
use std::{
    error::Error,
    fs,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Tells the one who asks that the answer has left.
struct Answers(Mutex<mpsc::Sender<()>>);

impl Network for Answers {
    fn send(&self, _flow: Flow, _datagram: Buffer) -> Result<(), SendError> {
        let told = self.0.lock().map(|answers| answers.send(()));
        told.map(drop).map_err(|_| SendError::NoSocket)
    }
}

/// Keeps nothing, and yet begins with what another store held.
struct Remembered {
    contents: Mutex<Contents>,
    store: MemoryStore,
}

impl Store for Remembered {
    fn load(&self) -> Result<Contents, StoreError> {
        let mut contents = self.contents.lock().expect("nobody panics with it");
        Ok(std::mem::take(&mut *contents))
    }

    fn commit(&self, changes: Vec<Change>, done: Completion) -> Result<(), Refused> {
        self.store.commit(changes, done)
    }

    fn purge(&self, ended: &[EndedBinding]) {
        self.store.purge(ended);
    }

    fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, StoreError> {
        self.store.call_records(query)
    }

    fn remove_old_call_records(&self, limits: CallRecordLimits) {
        self.store.remove_old_call_records(limits);
    }

    fn watch_accounts(&self, revision: u64, listener: AccountListener) {
        self.store.watch_accounts(revision, listener);
    }

    fn watch_end(&self, listener: EndListener) {
        self.store.watch_end(listener);
    }

    fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    fn close(&self, deadline: Duration) -> bool {
        self.store.close(deadline)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |text| text.parse())?;
    let is_durable = match std::env::args().nth(2).as_deref() {
        None => true,
        Some("memory") => false,
        Some(other) => return Err(format!("{other}: memory, or nothing").into()),
    };
    let folder = std::env::temp_dir().join(format!("busyhour-expire-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let outcome = run(&folder.join("busyhour.db"), count, is_durable);
    fs::remove_dir_all(&folder)?;
    outcome
}

fn run(database: &Path, count: u64, is_durable: bool) -> Result<(), Box<dyn Error>> {
    // Enough to write them, to start and to look at what is usual.
    let life = Duration::from_secs(5) + Duration::from_micros(60) * count as u32;
    let end = contacts::unix_now() + life;
    contacts::write(database, count, end)?;

    let runtime = Runtime::builder().build()?;
    let (told, answers) = mpsc::channel();
    let network = Arc::new(Answers(Mutex::new(told)));
    let config = ServerConfig {
        authentication: Authentication::Open,
        ..ServerConfig::default()
    };
    let store = store(database, is_durable)?;
    let server = Server::start(runtime.clone(), config, network, store)?;
    assert_eq!(server.stats().registrar.restored, count, "all are there");
    let mut probe = Probe::new(&server, &runtime, answers);

    let usual = probe.until(|| contacts::unix_now() + Duration::from_millis(100) >= end)?;
    println!("before     {usual}");
    let gone = || server.stats().registrar.expired >= count;
    let begun = Instant::now();
    let storm = probe.until(gone)?;
    println!("expiring   {storm}");
    println!(
        "expired    {count} contacts within {:.2} s of their end",
        begun.elapsed().as_secs_f64() - 0.1
    );
    // The store still removes their rows.
    let rows_gone = || server.stats().store.ended_len == 0;
    println!("after      {}", probe.until(rows_gone)?);
    server.shutdown(Duration::from_secs(10));
    runtime.shutdown(Duration::from_secs(10));
    Ok(())
}

fn store(database: &Path, is_durable: bool) -> Result<Box<dyn Store>, StoreError> {
    let store = SqliteStore::open(SqliteOptions::new(database))?;
    if is_durable {
        return Ok(Box::new(store));
    }
    Ok(Box::new(Remembered {
        contents: Mutex::new(store.load()?),
        store: MemoryStore::new(),
    }))
}

/// Asks one thing after the other, once a millisecond at most.
struct Probe<'a> {
    server: &'a Server,
    runtime: &'a Runtime,
    answers: mpsc::Receiver<()>,
    asked: u32,
}

/// The longest times to an answer.
#[derive(Default)]
struct Worst {
    options: Duration,
    register: Duration,
    count: u32,
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let (options, register) = (millis(self.options), millis(self.register));
        let count = self.count;
        write!(
            f,
            "OPTIONS {options:.1} ms, REGISTER {register:.1} ms at worst, of {count} each"
        )
    }
}

impl<'a> Probe<'a> {
    fn new(server: &'a Server, runtime: &'a Runtime, answers: mpsc::Receiver<()>) -> Self {
        Self {
            server,
            runtime,
            answers,
            asked: 0,
        }
    }

    fn until(&mut self, is_over: impl Fn() -> bool) -> Result<Worst, Box<dyn Error>> {
        let mut worst = Worst::default();
        loop {
            worst.options = worst.options.max(self.ask("OPTIONS")?);
            worst.register = worst.register.max(self.ask("REGISTER")?);
            worst.count += 1;
            if is_over() {
                return Ok(worst);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn ask(&mut self, method: &str) -> Result<Duration, Box<dyn Error>> {
        self.asked += 1;
        let number = self.asked;
        let request = format!(
            "{method} sip:busyhour.test SIP/2.0\r\n\
             Via: SIP/2.0/UDP 10.255.0.1:5060;branch=z9hG4bK{number};rport\r\n\
             From: <sip:probe{number}@busyhour.test>;tag=1\r\n\
             To: <sip:probe{number}@busyhour.test>\r\n\
             Call-ID: {number}@busyhour.test\r\nCSeq: 1 {method}\r\n\
             Contact: <sip:probe{number}@10.255.0.1>\r\nMax-Forwards: 70\r\n\r\n"
        );
        let request = self.runtime.buffers().copy_from(request.as_bytes())?;
        let begun = Instant::now();
        let (from, local) = ("10.255.0.1:5060".parse()?, "10.255.255.255:5060".parse()?);
        self.server.message(Flow::udp(local, from), &request);
        self.answers.recv_timeout(Duration::from_secs(30))?;
        Ok(begun.elapsed())
    }
}
