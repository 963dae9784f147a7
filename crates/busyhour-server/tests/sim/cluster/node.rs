//! One life of a node: a whole server in its own virtual time, from its start to its end.

use super::{
    broker::{Arrival, SharedBroker},
    database::Database,
};
use crate::client::SECOND;
use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
    runtime::{Runtime, Simulation},
};
use busyhour_cluster::{Member, Timing};
use busyhour_server::server::{
    ClusterMembership, Network, NodeSocket, SendError, Server, ServerConfig,
};
use busyhour_sip::{Flow, Transport};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub struct Node {
    pub process: u64,
    pub server: Server,
    place: usize,
    runtime: Runtime,
    sip: Arc<Outbox>,
    direct: Arc<Outbox>,
    database: Database,
    broker: SharedBroker,
    /// When it was started, in the world's time.
    begun_at: u64,
    /// By how many millionths its clock is fast.
    fast_ppm: i64,
    is_over: Arc<AtomicBool>,
}

/// What leaves a socket.
pub type Datagram = (Flow, Vec<u8>);

/// What a socket has sent and the world has not taken yet.
struct Outbox {
    local: SocketAddr,
    sent: Mutex<Vec<(Flow, Buffer)>>,
}

impl Outbox {
    fn new(local: SocketAddr) -> Arc<Self> {
        Arc::new(Self {
            local,
            sent: Mutex::default(),
        })
    }

    fn take(&self) -> Vec<Datagram> {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        sent.iter()
            .map(|(flow, bytes)| (*flow, bytes.to_vec()))
            .collect()
    }
}

impl Network for Outbox {
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        if flow.local != self.local {
            return Err(SendError::NoSocket);
        }
        self.sent.lock().unwrap().push((flow, datagram));
        Ok(())
    }

    fn local_to(&self, transport: Transport, _remote: SocketAddr) -> Option<SocketAddr> {
        (transport == Transport::Udp).then_some(self.local)
    }
}

/// Where a node is and what it is connected to.
pub struct Surroundings<'w> {
    pub place: usize,
    pub process: u64,
    pub database: &'w Database,
    pub broker: &'w SharedBroker,
}

impl Node {
    /// `now` is a whole second, since the calendar is set by seconds.
    pub fn begin(
        seed: u64,
        config: ServerConfig,
        member: Member,
        around: &Surroundings<'_>,
        (now, fast_ppm): (u64, i64),
    ) -> Self {
        let (place, process) = (around.place, around.process);
        let runtime = Runtime::simulated(seed);
        let calendar = runtime.clock().as_virtual().unwrap();
        calendar.step_calendar((now / SECOND) as i64);
        let sip = Outbox::new(sip_address(place));
        let direct = Outbox::new(direct_address(place));
        let (store, ownership) = around.database.open(process, place, member);
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = is_over.clone();
        let membership = ClusterMembership {
            member,
            timing: Timing::default(),
            since_asked: Box::new(|| Duration::ZERO),
            ownership: Box::new(ownership),
            broker: Arc::new(around.broker.open(process, place)),
            secret: [7; 32],
            direct: Some(NodeSocket {
                network: direct.clone(),
                address: direct_address(place),
            }),
            subjects: "simulated".to_owned(),
            on_end: Box::new(move |_| ended.store(true, Ordering::Relaxed)),
        };
        let server = Server::start_in_cluster(
            runtime.clone(),
            config,
            sip.clone(),
            Box::new(store),
            membership,
        );
        Self {
            process,
            server: server.unwrap(),
            place,
            runtime,
            sip,
            direct,
            database: around.database.clone(),
            broker: around.broker.clone(),
            begun_at: now,
            fast_ppm,
            is_over,
        }
    }

    /// Its life is over against its will: the program ends.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// When it has something to do by itself, in the world's time.
    pub fn next_timer(&self) -> Option<u64> {
        let deadline = self.runtime.timers().next_deadline()?;
        let passed = u128::from(deadline.as_nanos()) * MILLION;
        let passed = passed.div_ceil(self.rate());
        Some(self.begun_at.saturating_add(passed as u64))
    }

    /// Does everything until `now`, with what the database tells it meanwhile. Its clock jumps if it did nothing for long.
    pub fn run_until(&self, now: u64) {
        let here = u128::from(now - self.begun_at) * self.rate() / MILLION;
        let here = Instant::from_nanos(here as u64);
        let clock = self.runtime.clock();
        clock.as_virtual().unwrap().advance_to(here);
        self.simulation().run_until(here);
        loop {
            let (told, listener) = self.database.take_told(self.process);
            if told.is_empty() && listener.is_none() {
                break;
            }
            for (done, outcome) in told {
                done(outcome);
            }
            if let Some(listener) = listener {
                listener(busyhour_store::CommitError::new(
                    "the life of this node is over",
                ));
                self.is_over.store(true, Ordering::Relaxed);
            }
            self.simulation().run_until_idle();
        }
    }

    pub fn hear(&self, arrival: Arrival) {
        arrival.arrive();
        self.simulation().run_until_idle();
    }

    pub fn deliver(&self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if to == direct_address(self.place) {
            self.server.node_datagram(bytes);
        } else {
            let datagram = self.runtime.buffers().copy_from(bytes).unwrap();
            self.server.message(Flow::udp(to, from), &datagram);
        }
    }

    /// What it has sent to clients, and to other nodes.
    pub fn take_sent(&self) -> (Vec<Datagram>, Vec<Datagram>) {
        (self.sip.take(), self.direct.take())
    }

    /// Ends it at once, whatever is in progress.
    pub fn end(self) -> u64 {
        let hash = self.simulation().trace_hash();
        assert_eq!(self.runtime.stats().pool.panicked, 0, "a task panicked");
        let buffers: BufferPool = self.runtime.buffers().clone();
        self.database.close(self.process);
        self.broker.close(self.process);
        drop(self);
        assert_eq!(
            buffers.live_count(),
            0,
            "a buffer is still in use after the node has ended"
        );
        hash
    }

    /// Bindings that it counts as valid, and those that it lists.
    pub fn binding_counts(&self) -> (u64, usize) {
        let listed = self.server.bindings(None, 1000, None);
        let counted = self.server.stats().registrar.binding_count;
        (counted, listed.bindings.len())
    }

    pub fn live_buffers(&self) -> u64 {
        self.runtime.buffers().live_count()
    }

    fn rate(&self) -> u128 {
        (MILLION as i64 + self.fast_ppm) as u128
    }

    fn simulation(&self) -> &Simulation {
        self.runtime.simulation().unwrap()
    }
}

pub fn sip_address(place: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + place as u8], 5060))
}

pub fn direct_address(place: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + place as u8], 7000))
}

const MILLION: u128 = 1_000_000;
