//! One run of the server: from its start to its shutdown, or to a power
//! failure.

use crate::{
    client::{PASSWORD, REALM, SECOND},
    watcher::LIST,
};
use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
    runtime::{Runtime, Simulation},
};
use busyhour_registrar::{RegistrationPolicy, watch};
use busyhour_server::server::{
    Accounts, Authentication, CallView, Limits, ListConfig, Network, SendError, Server,
    ServerConfig, ServerStats,
};
use busyhour_sip::{Flow, auth::Secret};
use busyhour_store::{CallRecordQuery, CallRecordRow, SimulatedDisk};
use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

pub struct Life {
    runtime: Runtime,
    server: Server,
    outbox: Arc<Outbox>,
    /// When it was started, in the world's time.
    begun_at: u64,
}

/// The machine on which the servers run, one after the other.
#[derive(Default)]
pub struct Machine {
    /// The number of restarts.
    boots: u64,
    /// When it was started, in the world's time; a whole second.
    booted_at: u64,
    /// By how many seconds its calendar is wrong.
    pub wrong_by_s: i64,
}

/// What the server has sent and the world has not taken yet.
#[derive(Default)]
struct Outbox(Mutex<Vec<(Flow, Buffer)>>);

impl Network for Outbox {
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        self.0.lock().unwrap().push((flow, datagram));
        Ok(())
    }
}

/// Every user has the same password.
struct Everybody;

impl Accounts for Everybody {
    fn secret(&self, _username: &str) -> Option<Cow<'_, Secret>> {
        Some(Cow::Owned(Secret::plaintext(PASSWORD)))
    }
}

impl Machine {
    pub fn reboot(&mut self, now: u64) {
        (self.boots, self.booted_at) = (self.boots + 1, now);
    }
}

impl Life {
    /// `begun_at` is a whole second, since the calendar is set by seconds.
    pub fn begin(
        seed: u64,
        disk: &SimulatedDisk,
        config: ServerConfig,
        begun_at: u64,
        machine: &Machine,
    ) -> Self {
        let runtime = Runtime::simulated(seed);
        let clock = runtime.clock().clone();
        let calendar = clock.as_virtual().unwrap();
        calendar.step_calendar((begun_at / SECOND) as i64 + machine.wrong_by_s);
        let since_boot = Duration::from_nanos(begun_at - machine.booted_at);
        calendar.set_boot(machine.boots + 1, since_boot);
        let outbox = Arc::new(Outbox::default());
        let store = Box::new(disk.open(clock));
        let server = Server::start(runtime.clone(), config, outbox.clone(), store);
        Self {
            runtime,
            server: server.unwrap(),
            outbox,
            begun_at,
        }
    }

    /// Sets the clock, as an operator does.
    pub fn step_clock(&self, by_s: i64) {
        let clock = self.runtime.clock().as_virtual();
        clock.unwrap().step_calendar(by_s);
    }

    pub fn next_timer(&self) -> Option<u64> {
        let deadline = self.runtime.timers().next_deadline()?;
        Some(self.in_world(deadline))
    }

    pub fn in_world(&self, instant: Instant) -> u64 {
        self.begun_at.saturating_add(instant.as_nanos())
    }

    /// The world's time at a moment of the server's calendar, which is right.
    pub fn in_world_by_calendar(&self, unix_ns: u64) -> u64 {
        let clock = self.runtime.clock();
        let ago = clock.unix_time().as_nanos() - unix_ns;
        self.in_world(clock.now()) - ago
    }

    /// Runs everything until `now`, including the timers at `now`.
    pub fn run_until(&self, now: u64) {
        let end = Instant::from_nanos(now - self.begun_at);
        self.simulation().run_until(end);
    }

    pub fn run_until_idle(&self) {
        self.simulation().run_until_idle();
    }

    pub fn deliver(&self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let datagram = self.runtime.buffers().copy_from(bytes).unwrap();
        self.server.message(Flow::udp(to, from), &datagram);
    }

    /// What the server sent since the last call.
    pub fn sent(&self) -> Vec<(Flow, Vec<u8>)> {
        let sent = std::mem::take(&mut *self.outbox.0.lock().unwrap());
        let copied = sent.iter().map(|(flow, bytes)| (*flow, bytes.to_vec()));
        copied.collect()
    }

    pub fn shut_down(&self) {
        self.server.shutdown(Duration::ZERO);
    }

    /// Ends the server at once, whatever is in progress.
    pub fn end(self) -> u64 {
        let hash = self.simulation().trace_hash();
        assert_eq!(self.runtime.stats().pool.panicked, 0, "a task panicked");
        let buffers: BufferPool = self.runtime.buffers().clone();
        drop(self);
        assert_eq!(
            buffers.live_count(),
            0,
            "a buffer is still in use after the server has ended"
        );
        hash
    }

    pub fn stats(&self) -> ServerStats {
        self.server.stats()
    }

    /// The calls that last.
    pub fn calls(&self) -> Vec<CallView> {
        self.server.calls(usize::MAX)
    }

    /// Records of calls, those of earlier lives included.
    pub fn call_records(&self) -> Vec<CallRecordRow> {
        let all = CallRecordQuery::first(usize::MAX);
        self.server.call_records(&all).expect("the store lives")
    }

    pub fn assert_nothing_pinned(&self) {
        let stats = self.server.stats();
        let live_count = stats.runtime.buffers.live_count;
        assert_eq!(
            live_count, 0,
            "buffers are still pinned after all work has ended: {stats:#?}"
        );
    }

    fn simulation(&self) -> &Simulation {
        self.runtime.simulation().unwrap()
    }
}

/// The configuration of every server; `is_open` means that nobody is asked for a password.
pub fn config(is_open: bool) -> ServerConfig {
    let authentication = match is_open {
        true => Authentication::Open,
        false => Authentication::Digest {
            realm: REALM.to_owned(),
            algorithms: Authentication::default().algorithms().to_vec(),
        },
    };
    ServerConfig {
        domains: vec![REALM.to_owned()],
        authentication,
        accounts: Arc::new(Everybody),
        lists: vec![ListConfig {
            name: LIST.to_owned(),
            title: None,
            entries: (0..10).map(|number| format!("device{number}")).collect(),
        }],
        registration: RegistrationPolicy {
            expires_min: Duration::from_secs(5),
            ..RegistrationPolicy::default()
        },
        watch: watch::WatchPolicy {
            expires_min: Duration::from_secs(5),
            ..watch::WatchPolicy::default()
        },
        limits: Limits {
            // So small that entries are sometimes dropped early.
            transactions_max: 64 * 4,
            ..Limits::default()
        },
        ..ServerConfig::default()
    }
}
