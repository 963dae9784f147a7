use super::{
    Authorities, Certificate, StreamOptions,
    directory::ConnectionDirectory,
    engine::{Engine, EngineShared, LISTENERS_MAX},
    listener::Listener,
    memory::StreamMemory,
    outgoing::OutgoingConnections,
    output_queues::output_queues,
    peer::Peer,
    tls::Identity,
};
use crate::lock::lock;
use crate::{
    net::{BindError, local::source_to, stats::add},
    server::{
        CertificateStats, HolderKey, Network, NetworkStats, QueueView, SendError, ShownCertificate,
        StreamStats, TlsTarget,
    },
};
use busyhour::{buffer::Buffer, clock::Clock};
use busyhour_sip::{Flow, ParseError, Transport};
use nix::sys::{
    epoll::{Epoll, EpollCreateFlags},
    eventfd::{EfdFlags, EventFd},
    resource::{Resource, getrlimit, setrlimit},
};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicU64},
    thread::{self, JoinHandle},
    time::Duration,
};

/// The connections of a server.
pub struct Streams {
    shared: EngineShared,
    addresses: Vec<(Transport, SocketAddr)>,
    /// Until the thread takes them.
    listeners: Mutex<Vec<Listener>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Since the thread runs.
    clock: OnceLock<Clock>,
}

/// What a connection brought.
#[derive(Debug)]
pub enum StreamMessage {
    /// One whole message.
    Message(Buffer),
    /// Bytes that cannot be one, and why; the connection ends when the answer
    /// is sent.
    Broken(Buffer, ParseError),
    /// The end of a connection over which something was accepted. Nothing else
    /// comes of it, and nothing that is sent to its flow arrives.
    Ended,
}

impl Streams {
    /// Binds every address; connections wait in the kernel until
    /// [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// The first address that cannot be served, and why.
    pub fn bind(options: StreamOptions) -> Result<Self, BindError> {
        let tcp = options.tcp.iter().map(|address| (Transport::Tcp, *address));
        let tls = options.tls.iter().map(|address| (Transport::Tls, *address));
        let ws = options.ws.iter().map(|address| (Transport::Ws, *address));
        let wss = options.wss.iter().map(|address| (Transport::Wss, *address));
        let listeners = tcp.chain(tls).chain(ws).chain(wss);
        let listeners: Vec<Listener> = listeners
            .map(|(transport, address)| Listener::bind(transport, address))
            .collect::<Result<_, _>>()?;
        if !listeners.is_empty() {
            raise_file_limit(options.policy.connections_max);
        }
        let addresses = listeners.iter().map(|one| (one.transport, one.address));
        let addresses: Vec<_> = addresses.collect();
        let shared = EngineShared::new(options);
        let shared = shared.map_err(|source| BindError {
            protocol: "SIP",
            transport: Transport::Tcp,
            address: addresses
                .first()
                .map_or(NO_ADDRESS, |(_, address)| *address),
            source,
        })?;
        Ok(Self {
            shared,
            addresses,
            listeners: Mutex::new(listeners),
            thread: Mutex::default(),
            clock: OnceLock::new(),
        })
    }

    /// Starts the thread `bh-stream`, which calls `deliver` for what the
    /// connections bring, in the order of arrival on each. Without an address
    /// there is no thread. What comes lies in memory of its own, so that
    /// connections take nothing that datagrams need.
    ///
    /// # Errors
    ///
    /// When the system refuses the thread or the memory.
    pub fn start(
        &self,
        clock: &Clock,
        deliver: impl Fn(Flow, StreamMessage) + Send + 'static,
    ) -> io::Result<()> {
        let listeners = std::mem::take(&mut *lock(&self.listeners));
        if listeners.is_empty() {
            return Ok(());
        }
        let engine = Engine::new(
            self.shared.clone(),
            listeners,
            StreamMemory::new(&self.shared.policy).map_err(io::Error::other)?,
            clock.clone(),
            Box::new(deliver),
        );
        self.clock.get_or_init(|| clock.clone());
        let thread = thread::Builder::new().name("bh-stream".into());
        let thread = thread.spawn(move || {
            if let Err(error) = engine.run() {
                tracing::error!(%error, "connections are no longer served");
            }
        })?;
        *lock(&self.thread) = Some(thread);
        Ok(())
    }

    /// The addresses of a transport in use, in the order asked for, each with
    /// the port it got.
    pub fn addresses(&self, transport: Transport) -> impl Iterator<Item = SocketAddr> + '_ {
        let of_it = self
            .addresses
            .iter()
            .filter(move |(its, _)| *its == transport);
        of_it.map(|(_, address)| *address)
    }

    /// The certificates that new TLS connections are shown.
    pub fn certificates(&self) -> Vec<CertificateStats> {
        self.shared.identity.stats()
    }

    /// New TLS connections use this certificate and these authorities from now on.
    pub fn replace_certificate(
        &self,
        certificate: Option<Certificate>,
        authorities: Option<Authorities>,
    ) {
        self.shared.identity.replace(certificate, authorities);
    }

    /// Closes every connection, ends the thread and waits for it.
    pub fn stop(&self) {
        // The counter of an eventfd overflows only after 2^64 - 2 writes.
        let _ = self.shared.stop.write(1);
        if let Some(thread) = lock(&self.thread).take() {
            // The thread's own panic is already on standard error.
            let _ = thread.join();
        }
    }

    /// The address of the peer; an error is counted.
    fn peer(&self, flow: &Flow) -> Result<Arc<Peer>, SendError> {
        let found = self.shared.directory.find(flow);
        found.ok_or_else(|| {
            add(&self.shared.counters.failed_flows, 1);
            SendError::FlowFailed
        })
    }

    /// What happened so far.
    pub fn stream_stats(&self) -> StreamStats {
        self.shared.counters.read()
    }
}

impl Network for Streams {
    /// Writes to the connection of this flow at once, without waiting; what the
    /// kernel does not take leaves later.
    fn send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        self.peer(&flow)?.send(message)
    }

    fn try_send(&self, flow: Flow, message: Buffer) -> Result<(), SendError> {
        self.peer(&flow)?.try_send(message)
    }

    fn mark_trusted(&self, flow: Flow) -> bool {
        self.shared.directory.mark_trusted(&flow)
    }

    fn expect_keepalives(&self, flow: Flow, within: Duration) {
        if let Some(peer) = self.shared.directory.find(&flow) {
            peer.expect_keepalives(within);
        }
    }

    /// The address where connections come in over this transport, as the other side sees it: on
    /// the system's way there if it is one of ours, else of this machine alone or not, as that
    /// address.
    fn local_to(&self, transport: Transport, remote: SocketAddr) -> Option<SocketAddr> {
        let ip = source_to(remote).ok()?;
        let own = || {
            let own = self.addresses(transport);
            own.filter(|own| own.is_ipv4() == ip.is_ipv4())
        };
        let is_exact = |own: &SocketAddr| own.ip() == ip || own.ip().is_unspecified();
        if let Some(own) = own().find(is_exact) {
            return Some(SocketAddr::new(ip, own.port()));
        }
        let is_alike = |own: &SocketAddr| own.ip().is_loopback() == ip.is_loopback();
        own().find(is_alike)
    }

    fn speaks(&self, transport: Transport) -> bool {
        let vouches = || self.shared.identity.authorities().is_some();
        self.addresses(transport).next().is_some() && (transport != Transport::Tls || vouches())
    }

    fn expect_certificate(&self, target: TlsTarget) {
        self.shared.outgoing.expect_certificate(target);
    }

    fn flow_to_domain(&self, flow: Flow, domain: &str) -> Option<Flow> {
        let outgoing = &self.shared.outgoing;
        Some(outgoing.flow_to_domain(flow, domain, &self.shared))
    }

    fn connect(&self, flow: Flow, holder: Option<HolderKey>) -> Result<Flow, SendError> {
        let clock = self.clock.get();
        let clock = clock.filter(|_| lock(&self.thread).is_some());
        let clock = clock.ok_or(SendError::NoSocket)?;
        let outgoing = &self.shared.outgoing;
        outgoing.connect(clock, (flow, holder), &self.shared)
    }

    fn shown_certificate(&self, flow: Flow) -> Option<Arc<ShownCertificate>> {
        let peer = self.shared.directory.find(&flow)?;
        peer.shown_certificate(|| self.shared.identity.authorities())
    }

    /// As many turns of the thread as there are reads behind it, and this one.
    fn wait_on(&self, flow: Flow) -> Duration {
        let peer = self.shared.directory.find(&flow);
        let (Some(peer), Some(clock)) = (peer, self.clock.get()) else {
            return Duration::ZERO;
        };
        let turn = self.shared.turns.length(clock);
        turn.saturating_mul(peer.turns_behind().saturating_add(1))
    }

    fn stats(&self) -> NetworkStats {
        NetworkStats {
            panicked: self.shared.counters.panics.count(),
            streams: self.stream_stats(),
            ..NetworkStats::default()
        }
    }

    fn queues(&self) -> Vec<QueueView> {
        match self.addresses.is_empty() {
            true => Vec::new(),
            false => output_queues(&self.shared),
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.stop();
    }
}

impl EngineShared {
    fn new(options: StreamOptions) -> io::Result<Self> {
        let stop = EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC)?;
        Ok(Self {
            epoll: Arc::new(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?),
            directory: Arc::new(ConnectionDirectory::new()),
            counters: Arc::default(),
            identity: Arc::new(Identity::new(options.certificate, options.authorities)),
            outgoing: Arc::new(OutgoingConnections::new(
                options.tls_targets,
                options.reserved,
            )?),
            last_token: Arc::new(AtomicU64::new(LISTENERS_MAX)),
            turns: Arc::default(),
            policy: options.policy,
            waiting_bytes: Arc::default(),
            stop: Arc::new(stop),
        })
    }
}

/// Each connection is a file to the system, and its usual limit is 1024.
fn raise_file_limit(connections_max: usize) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return;
    };
    let wanted = connections_max as u64 + OTHER_FILES;
    let raised = wanted.min(hard);
    if raised > soft && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_err() {
        tracing::warn!(soft, "the limit for open files cannot be raised");
    }
    if wanted > hard {
        tracing::warn!(
            connections_max,
            files_max = hard,
            "fewer connections can be served than limits.connections says; raise the limit of open files (ulimit -n, LimitNOFILE=)"
        );
    }
}

/// Files that the rest of the server has open.
const OTHER_FILES: u64 = 512;
const NO_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
