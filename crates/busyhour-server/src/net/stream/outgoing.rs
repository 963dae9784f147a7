use super::{
    directory::ConnectionDirectory, domain_flows::DomainFlows, engine::EngineShared,
    liveness::watch_over, outbox::Outbox, peer::Peer, tls::session_with,
};
use crate::lock::lock;
use crate::{
    net::stats::add,
    server::{HolderKey, SendError, TlsTarget},
};
use busyhour::clock::{Clock, Instant};
use busyhour_sip::{Flow, Transport, source_of};
use nix::{
    errno::Errno,
    sys::eventfd::{EfdFlags, EventFd},
};
use rustls::Connection as TlsConnection;
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    collections::{HashMap, HashSet},
    io,
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

/// The connections that this side makes, by where they go: one for each address, and over TLS
/// to servers that DNS names for domains, one for each domain.
///
/// Whoever wants to send makes the connection; the engine takes it over at its next turn, and
/// reports its end. An address to which a connection could not be made, or on which nothing came,
/// rests for a second, and twice as long after each further failure.
pub(super) struct OutgoingConnections {
    table: Mutex<HashMap<Destination, Attempts>>,
    /// Those that the engine has not yet taken.
    made: Mutex<Vec<Arc<Peer>>>,
    /// Readable when there are any.
    pub(super) wake: EventFd,
    /// Those of the configuration.
    targets: Vec<TlsTarget>,
    /// Those that DNS led to by a name of the configuration, the last ones last.
    located: Mutex<Vec<TlsTarget>>,
    /// Those that DNS led to by other names.
    domain_flows: DomainFlows,
    /// To these there is always room.
    reserved: HashSet<SocketAddr>,
}

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Destination {
    pub(super) transport: Transport,
    pub(super) remote: SocketAddr,
    /// The domain whose certificate is expected there; without one, what is known of the address
    /// says it.
    pub(super) domain: Option<Arc<str>>,
}

/// Why there is no room for a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectExcess {
    /// Its host or source has its share, or for whom the connection is made.
    Share,
    /// There are as many as there may be.
    Whole,
}

/// What is known of one destination.
struct Attempts {
    /// The last connection, until the engine has ended it.
    peer: Option<Arc<Peer>>,
    /// For whom the first one was made.
    holder: Option<HolderKey>,
    /// In a row.
    failures: u32,
    retry_at: Instant,
}

impl OutgoingConnections {
    /// # Errors
    ///
    /// When the system has no descriptor for its signal.
    pub(super) fn new(targets: Vec<TlsTarget>, reserved: Vec<SocketAddr>) -> nix::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            table: Mutex::default(),
            made: Mutex::default(),
            wake: EventFd::from_value_and_flags(0, flags)?,
            targets,
            located: Mutex::default(),
            domain_flows: DomainFlows::default(),
            reserved: reserved.into_iter().collect(),
        })
    }

    /// See [`Network::connect`](crate::server::Network::connect).
    pub(super) fn connect(
        &self,
        clock: &Clock,
        (flow, holder): (Flow, Option<HolderKey>),
        shared: &EngineShared,
    ) -> Result<Flow, SendError> {
        if flow.transport.is_web_socket() {
            return Err(SendError::FlowFailed);
        }
        let destination = match flow.connection {
            0 => Destination::of(flow),
            number => match self.domain_flows.destination(number) {
                Some(destination) => destination,
                None => return standing(flow, shared),
            },
        };
        let now = clock.now();
        let mut table = lock(&self.table);
        let known = table.get(&destination);
        if let Some(live) = known.and_then(Attempts::live) {
            return Ok(live.flow);
        }
        if known.is_some_and(|known| now < known.retry_at) {
            return Err(SendError::FlowFailed);
        }
        let had_connection = known.is_some_and(|known| known.peer.is_some());
        if known.is_none()
            && let Err(excess) = self.check_room(&mut table, (flow.remote, holder), shared, now)
        {
            add(&shared.counters.connects_refused, 1);
            add(
                &shared.counters.connects_over_share,
                usize::from(excess == ConnectExcess::Share),
            );
            return Err(SendError::Full);
        }
        let (flow, domain) = match &destination.domain {
            // A number is that of one connection, and the engine has not ended the last one yet.
            Some(domain) if had_connection => {
                self.domain_flows.ended(flow.connection);
                let next = self.flow_to_domain(flow, domain, shared);
                (next, Some(domain.clone()))
            }
            domain => (flow, domain.clone()),
        };
        let attempts = table.entry(destination).or_insert(Attempts {
            peer: None,
            holder,
            failures: 0,
            retry_at: now,
        });
        add(&shared.counters.connects, 1);
        match self.make(clock, (flow, domain), shared) {
            Ok(peer) => {
                let flow = peer.flow;
                attempts.peer = Some(peer);
                Ok(flow)
            }
            Err(error) => {
                tracing::debug!(remote = %flow.remote, %error, "a connection cannot be made");
                add(&shared.counters.connect_failures, 1);
                attempts.fail(now);
                Err(SendError::FlowFailed)
            }
        }
    }

    /// See [`Network::flow_to_domain`](crate::server::Network::flow_to_domain).
    pub(super) fn flow_to_domain(&self, flow: Flow, domain: &str, shared: &EngineShared) -> Flow {
        let destination = Destination {
            domain: Some(domain.into()),
            ..Destination::of(flow)
        };
        let number = self
            .domain_flows
            .number(destination, || shared.next_token());
        Flow {
            connection: number,
            ..flow
        }
    }

    /// See [`Network::expect_certificate`](crate::server::Network::expect_certificate).
    pub(super) fn expect_certificate(&self, target: TlsTarget) {
        let mut located = lock(&self.located);
        located.retain(|it| it.address != target.address);
        if located.len() >= LOCATED_MAX {
            located.remove(0);
        }
        located.push(target);
    }

    /// Whose certificate is expected at an address: exactly there, or else at the same host.
    fn target_at(&self, remote: SocketAddr) -> Option<TlsTarget> {
        let exact = |it: &&TlsTarget| it.address == remote;
        let configured = self.targets.iter().find(exact).cloned();
        let located = || lock(&self.located).iter().find(exact).cloned();
        let mut targets = self.targets.iter();
        let of_host = || targets.find(|it| it.address.ip() == remote.ip()).cloned();
        configured.or_else(located).or_else(of_host)
    }

    /// Those that were made since the last call.
    pub(super) fn take(&self) -> Vec<Arc<Peer>> {
        std::mem::take(&mut *lock(&self.made))
    }

    /// A connection has ended; over a sound one something came.
    pub(super) fn ended(&self, now: Instant, peer: &Arc<Peer>, was_sound: bool) {
        self.domain_flows.ended(peer.flow.connection);
        let destination = Destination {
            domain: peer.domain.clone(),
            ..Destination::of(peer.flow)
        };
        let mut table = lock(&self.table);
        let attempts = table.get_mut(&destination);
        let is_it = |attempts: &&mut Attempts| {
            let last = attempts.peer.as_ref();
            last.is_some_and(|last| Arc::ptr_eq(last, peer))
        };
        if let Some(attempts) = attempts.filter(is_it) {
            attempts.peer = None;
            match was_sound {
                true => (attempts.failures, attempts.retry_at) = (0, now),
                false => attempts.fail(now),
            }
        }
    }

    /// Whether there is room for one more destination. Those that need no rest are forgotten.
    fn check_room(
        &self,
        table: &mut HashMap<Destination, Attempts>,
        (remote, holder): (SocketAddr, Option<HolderKey>),
        shared: &EngineShared,
        now: Instant,
    ) -> Result<(), ConnectExcess> {
        if self.reserved.contains(&remote) {
            return Ok(());
        }
        let count_max = shared.policy.connects_max;
        let part_max = (count_max / SHARE_PART).max(OF_HOST_MAX);
        let check = |table: &HashMap<Destination, Attempts>| {
            let (mut count, mut of_source, mut of_host, mut of_holder) = (0, 0, 0, 0);
            let others = table.iter().map(|(to, attempts)| (to.remote, attempts));
            for (other, attempts) in others.filter(|(other, _)| !self.reserved.contains(other)) {
                count += 1;
                of_source += usize::from(source_of(other.ip()) == source_of(remote.ip()));
                of_host += usize::from(other.ip() == remote.ip());
                of_holder += usize::from(holder.is_some() && attempts.holder == holder);
            }
            if of_source >= part_max || of_holder >= part_max || of_host >= OF_HOST_MAX {
                return Err(ConnectExcess::Share);
            }
            (count < count_max)
                .then_some(())
                .ok_or(ConnectExcess::Whole)
        };
        if check(table).is_err() {
            table.retain(|_, attempts| attempts.peer.is_some() || now < attempts.retry_at);
        }
        check(table)
    }

    fn make(
        &self,
        clock: &Clock,
        (flow, domain): (Flow, Option<Arc<str>>),
        shared: &EngineShared,
    ) -> io::Result<Arc<Peer>> {
        let tls = match flow.transport {
            Transport::Tls => Some(self.session(flow.remote, domain.as_deref(), shared)?),
            _ => None,
        };
        let socket = begin(flow)?;
        watch_over(&socket, &shared.policy)?;
        let token = shared.next_token();
        let flow = Flow {
            connection: match flow.connection {
                0 => connection_number(token),
                chosen => chosen,
            },
            ..flow
        };
        let outbox = Outbox::new(&shared.policy, Arc::default(), shared.waiting_bytes.clone());
        let watching = (shared.epoll.clone(), shared.counters.clone(), clock.clone());
        let peer = Arc::new(Peer::outgoing(
            (flow, domain),
            token,
            socket,
            tls,
            watching,
            outbox,
        ));
        // The engine must know it when the kernel reports something of it.
        shared.directory.insert(peer.clone());
        lock(&self.made).push(peer.clone());
        if let Err(error) = peer.watch() {
            lock(&self.made).retain(|it| !Arc::ptr_eq(it, &peer));
            withdraw(&shared.directory, &peer);
            return Err(error.into());
        }
        // The counter of an eventfd overflows only after 2^64 - 2 writes.
        let _ = self.wake.write(1);
        Ok(peer)
    }

    fn session(
        &self,
        remote: SocketAddr,
        domain: Option<&str>,
        shared: &EngineShared,
    ) -> io::Result<Box<TlsConnection>> {
        let target = match domain {
            Some(domain) => Some(TlsTarget {
                address: remote,
                fingerprints: Vec::new(),
                names: vec![domain.to_owned()],
            }),
            None => self.target_at(remote),
        };
        let target =
            target.ok_or_else(|| io::Error::other("whose certificate is not configured"))?;
        let identity = &shared.identity;
        let session = session_with(&target, identity.authorities(), identity.own());
        let session = session.map_err(io::Error::other)?;
        Ok(Box::new(session.into()))
    }
}

impl Destination {
    fn of(flow: Flow) -> Self {
        Self {
            transport: flow.transport,
            remote: flow.remote,
            domain: None,
        }
    }
}

impl Attempts {
    fn live(&self) -> Option<&Arc<Peer>> {
        self.peer.as_ref().filter(|peer| !peer.is_closed())
    }

    fn fail(&mut self, now: Instant) {
        let rest = LEAST_REST * 2_u32.saturating_pow(self.failures.min(16));
        self.failures += 1;
        self.retry_at = now + rest.min(LONGEST_REST);
    }
}

/// A socket that is being connected, from the address of ours if the system has it.
fn begin(flow: Flow) -> io::Result<TcpStream> {
    let domain = Domain::for_address(flow.remote);
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if flow.local.is_ipv4() == flow.remote.is_ipv4() {
        socket.bind(&SocketAddr::new(flow.local.ip(), 0).into())?;
    }
    match socket.connect(&flow.remote.into()) {
        Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => {}
        other => other?,
    }
    Ok(socket.into())
}

/// A connection whose destination is known no more, if it still stands.
fn standing(flow: Flow, shared: &EngineShared) -> Result<Flow, SendError> {
    let peer = shared.directory.find(&flow);
    let peer = peer.filter(|peer| !peer.is_closed());
    peer.map(|peer| peer.flow).ok_or(SendError::FlowFailed)
}

fn withdraw(directory: &ConnectionDirectory, peer: &Arc<Peer>) {
    directory.remove(peer);
    peer.close();
}

/// The number of a connection in its flow. 0 is no connection. It comes round after 2^32 of them.
pub(super) fn connection_number(token: u64) -> u32 {
    (token as u32).max(1)
}

const LEAST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(30);
/// A peer may name ports in its Contacts, and each is a destination.
const OF_HOST_MAX: usize = 16;
/// Of servers that DNS led to.
const LOCATED_MAX: usize = 1_024;
/// One source may have this part of all destinations, and connections may be made to it for one
/// holder.
const SHARE_PART: usize = 8;
