mod close;
mod hear;
mod turns;

pub(super) use turns::Turns;

use super::{
    Connection, Ending, StreamMessage, StreamPolicy,
    counters::ConnectionCounters,
    directory::ConnectionDirectory,
    listener::Listener,
    liveness::watch_over,
    memory::{Charge, Class, OverShare, StreamMemory},
    outbox::Outbox,
    outgoing::{OutgoingConnections, connection_number},
    peer::{Peer, is_passing},
    sources::Sources,
    tls::Identity,
    web_socket::FrameHead,
};
use crate::net::stats::add;
use busyhour::{
    buffer::Buffer,
    clock::{Clock, Instant},
    timer::{QueueHandle, TimerQueue},
};
use busyhour_registrar::FLOW_TIMER_S;
use busyhour_sip::{Flow, Transport};
use close::Close;
use foldhash::fast::FixedState;
use nix::sys::{
    epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout},
    eventfd::EventFd,
};
use rustls::{Connection as TlsConnection, ServerConnection};
use std::{
    collections::{BTreeSet, HashMap},
    io::{self, ErrorKind},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// What the thread of all connections works on.
pub(super) struct Engine {
    pub(super) shared: EngineShared,
    pub(super) listeners: Vec<Listener>,
    memory: StreamMemory,
    /// The one answer to all pings.
    pong: Option<Buffer>,
    pub(super) clock: Clock,
    pub(super) deliver: Box<dyn Fn(Flow, StreamMessage) + Send>,
    connections: HashMap<u64, ConnectionEntry, FixedState>,
    sources: Sources,
    /// Connections that may be closed for new ones, the oldest first; some of them are
    /// trusted by now.
    untrusted: BTreeSet<u64>,
    /// Connections in the middle of a handshake, the oldest first.
    handshakes: BTreeSet<u64>,
    /// Steps of handshakes that may still be taken before the turn of other
    /// connections.
    handshake_turns: usize,
    /// Tokens of connections and of pausing listeners.
    deadlines: TimerQueue<u64>,
}

/// What the thread shares with those who send.
#[derive(Clone)]
pub(super) struct EngineShared {
    pub(super) epoll: Arc<Epoll>,
    pub(super) directory: Arc<ConnectionDirectory>,
    pub(super) counters: Arc<ConnectionCounters>,
    pub(super) identity: Arc<Identity>,
    pub(super) outgoing: Arc<OutgoingConnections>,
    /// Of the last connection.
    pub(super) last_token: Arc<AtomicU64>,
    pub(super) policy: StreamPolicy,
    pub(super) turns: Arc<Turns>,
    /// What waits to be sent on all connections.
    pub(super) waiting_bytes: Arc<AtomicUsize>,
    /// Readable once the thread shall end.
    pub(super) stop: Arc<EventFd>,
}

struct ConnectionEntry {
    peer: Arc<Peer>,
    connection: Connection,
    /// What it holds of the memory for messages that are not complete.
    charge: Charge,
    /// When the handshake has to be finished; `None` if it is finished, or there is
    /// none.
    handshake_until: Option<Instant>,
    /// Set for the deadline, or for an earlier one.
    timer: (Instant, QueueHandle),
    /// A whole message came over it.
    is_sound: bool,
}

impl EngineShared {
    /// The token of a new connection.
    pub(super) fn next_token(&self) -> u64 {
        self.last_token.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Engine {
    pub(super) fn new(
        shared: EngineShared,
        listeners: Vec<Listener>,
        memory: StreamMemory,
        clock: Clock,
        deliver: Box<dyn Fn(Flow, StreamMessage) + Send>,
    ) -> Self {
        Self {
            shared,
            listeners,
            pong: memory.buffers(Class::Known).copy_from(PONG).ok(),
            memory,
            clock,
            deliver,
            connections: HashMap::default(),
            sources: Sources::default(),
            untrusted: BTreeSet::new(),
            handshakes: BTreeSet::new(),
            handshake_turns: 0,
            deadlines: TimerQueue::new(),
        }
    }

    /// Serves until the stop signal.
    ///
    /// # Errors
    ///
    /// When the kernel does not take what is to be waited for.
    pub(super) fn run(mut self) -> nix::Result<()> {
        let stop = EpollEvent::new(EpollFlags::EPOLLIN, STOP);
        self.shared.epoll.add(&*self.shared.stop, stop)?;
        let made = EpollEvent::new(EpollFlags::EPOLLIN, MADE);
        self.shared.epoll.add(&self.shared.outgoing.wake, made)?;
        for index in 0..self.listeners.len() {
            self.listen(index)?;
        }
        let mut events = vec![EpollEvent::empty(); EVENTS_MAX];
        loop {
            let waited = self.shared.epoll.wait(&mut events, self.timeout());
            self.shared.turns.begin(self.clock.now());
            for peer in self.shared.outgoing.take() {
                self.adopt(peer);
            }
            // An interrupted wait only means that there are no events.
            for (place, event) in events[..waited.unwrap_or(0)].iter().enumerate() {
                if place % HANDSHAKE_PERIOD == 0 {
                    self.handshake_turns = HANDSHAKES_AT_ONCE;
                }
                match event.data() {
                    STOP => return Ok(()),
                    MADE => drop(self.shared.outgoing.wake.read()),
                    token => self.event(token, event.events()),
                }
            }
            self.expire();
            self.shared.turns.end(self.clock.now());
        }
    }

    fn listen(&self, index: usize) -> nix::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, FIRST_LISTENER + index as u64);
        self.shared.epoll.add(&self.listeners[index].socket, event)
    }

    fn timeout(&self) -> EpollTimeout {
        let Some(deadline) = self.deadlines.next_deadline() else {
            return EpollTimeout::NONE;
        };
        let left = (deadline - self.clock.now()).min(LONGEST_WAIT);
        // Rounded up, so that what was waited for is due then.
        EpollTimeout::from(left.as_millis() as u16 + 1)
    }

    fn event(&mut self, token: u64, flags: EpollFlags) {
        if let Some(index) = self.listener_index(token) {
            return self.accept(index);
        }
        if flags.contains(EpollFlags::EPOLLOUT) {
            self.writable(token);
        }
        let readable = EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
        if flags.intersects(readable) {
            self.readable(token);
        }
    }

    fn writable(&mut self, token: u64) {
        let Some(entry) = self.connections.get_mut(&token) else {
            return;
        };
        entry.peer.writable();
        if entry.peer.is_outgoing && !entry.peer.is_handshaking() {
            entry.handshake_until = None;
        }
    }

    fn listener_index(&self, token: u64) -> Option<usize> {
        let index = token.checked_sub(FIRST_LISTENER)? as usize;
        (index < self.listeners.len()).then_some(index)
    }

    fn accept(&mut self, index: usize) {
        if !self.has_room_for_handshake(index) {
            add(&self.shared.counters.handshake_waits, 1);
            return self.rest(index);
        }
        for _ in 0..ACCEPTED_AT_ONCE {
            // The kernel will report further waiting connections.
            if !self.has_room_for_handshake(index) {
                return;
            }
            match self.listeners[index].socket.accept() {
                Ok((socket, remote)) => self.admit(index, socket, remote),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Such a connection ended before it was taken.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return self.cannot_accept(index, &error),
            }
        }
    }

    /// If there is none, new connections wait in the kernel: a client in the middle of
    /// a handshake is served first, and is closed for them only after it has had time
    /// for its handshake.
    fn has_room_for_handshake(&self, index: usize) -> bool {
        !self.listeners[index].transport.is_encrypted()
            || self.handshakes.len() < self.shared.policy.handshakes_max
            || self.overdue_handshake().is_some()
    }

    /// The oldest handshake, if it has had the time that one needs.
    fn overdue_handshake(&self) -> Option<u64> {
        let token = *self.handshakes.first()?;
        let until = self.connections.get(&token)?.handshake_until?;
        let policy = &self.shared.policy;
        let is_overdue = until + policy.handshake_grace <= self.clock.now() + policy.handshake;
        is_overdue.then_some(token)
    }

    /// Ends the oldest handshake when the maximum is reached. So a few sources that
    /// begin handshakes and finish none cannot keep others out for long.
    fn displace_handshake(&mut self) {
        if self.handshakes.len() < self.shared.policy.handshakes_max {
            return;
        }
        let overdue = self.overdue_handshake();
        if let Some(entry) = overdue.and_then(|token| self.connections.remove(&token)) {
            self.end(entry, Close::DisplacedHandshake);
        }
    }

    /// No file descriptors, or no memory: trying again at once would only burn time.
    fn cannot_accept(&mut self, index: usize, error: &io::Error) {
        add(&self.shared.counters.accept_errors, 1);
        let address = self.listeners[index].address;
        tracing::warn!(%address, %error, "connections cannot be accepted");
        self.rest(index);
    }

    fn rest(&mut self, index: usize) {
        let listener = &self.listeners[index];
        if self.shared.epoll.delete(&listener.socket).is_ok() {
            let token = FIRST_LISTENER + index as u64;
            self.deadlines.add(self.clock.now() + REST, token);
        }
    }

    fn admit(&mut self, index: usize, socket: TcpStream, remote: SocketAddr) {
        let counters = self.shared.counters.clone();
        let policy = &self.shared.policy;
        let transport = self.listeners[index].transport;
        let handshakes = self.sources.handshakes(remote);
        if transport.is_encrypted() && handshakes >= policy.handshakes_per_source_max {
            return add(&counters.refused_handshakes, 1);
        }
        let connections_max = policy.connections_per_source_max;
        if self.sources.connections(remote) >= connections_max && !self.displace_of(remote) {
            return add(&counters.refused_source, 1);
        }
        let Some(tls) = self.session(transport) else {
            return add(&counters.refused_no_certificate, 1);
        };
        if transport.is_encrypted() {
            self.displace_handshake();
        }
        if self.connections.len() >= self.shared.policy.connections_max && !self.displace() {
            return add(&counters.refused_full, 1);
        }
        if self.open(transport, socket, remote, tls).is_err() {
            add(&self.shared.counters.accept_errors, 1);
        }
    }

    /// Closes the oldest connection without an accepted request; `false` if there is
    /// none. So untrusted connections never keep others out, and trusted connections
    /// are never closed for new ones.
    fn displace(&mut self) -> bool {
        while let Some(token) = self.untrusted.pop_first() {
            match self.connections.remove(&token) {
                Some(entry) if entry.peer.is_known() => {
                    self.connections.insert(token, entry);
                }
                Some(entry) => {
                    self.end(entry, Close::Displaced);
                    return true;
                }
                None => {}
            }
        }
        false
    }

    /// The same among the connections of one source.
    fn displace_of(&mut self, remote: SocketAddr) -> bool {
        while let Some(token) = self.sources.pop_stranger(remote) {
            let is_known = |entry: &ConnectionEntry| entry.peer.is_known();
            if self.connections.get(&token).is_none_or(is_known) {
                continue;
            }
            if let Some(entry) = self.connections.remove(&token) {
                self.end(entry, Close::DisplacedOfSource);
                return true;
            }
        }
        false
    }

    /// The encryption of a new connection; `None` when there is no certificate for it.
    fn session(&self, transport: Transport) -> Option<Option<Box<TlsConnection>>> {
        if !transport.is_encrypted() {
            return Some(None);
        }
        let session = ServerConnection::new(self.shared.identity.server(transport)?);
        session.ok().map(|session| Some(Box::new(session.into())))
    }

    fn open(
        &mut self,
        transport: Transport,
        socket: TcpStream,
        remote: SocketAddr,
        tls: Option<Box<TlsConnection>>,
    ) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        // Answers are small and whole: waiting for more would only delay them.
        socket.set_nodelay(true)?;
        let policy = &self.shared.policy;
        watch_over(&socket, policy)?;
        let local = socket.local_addr()?;
        let token = self.shared.next_token();
        let flow = Flow {
            transport,
            local,
            remote,
            connection: connection_number(token),
            node: 0,
        };
        let shakes_hands = tls.is_some();
        let shared = (
            self.shared.epoll.clone(),
            self.shared.counters.clone(),
            self.clock.clone(),
        );
        let waiting_bytes = self.sources.waiting_bytes(remote);
        let all_waiting_bytes = self.shared.waiting_bytes.clone();
        let outbox = Outbox::new(policy, waiting_bytes.clone(), all_waiting_bytes);
        let peer = Peer::new(flow, token, socket, tls, shared, outbox);
        let peer = Arc::new(peer);
        peer.watch()?;
        let now = self.clock.now();
        let connection = match transport.is_web_socket() {
            true => Connection::web_socket(policy, now),
            false => Connection::new(policy, now),
        };
        let handshake_until = shakes_hands.then_some(now + policy.handshake);
        let deadline = earliest(connection.deadline(), handshake_until);
        let timer = (deadline, self.deadlines.add(deadline, token));
        self.shared.directory.insert(peer.clone());
        self.sources
            .connected(remote, token, shakes_hands, &waiting_bytes);
        self.untrusted.insert(token);
        if shakes_hands {
            self.handshakes.insert(token);
        }
        let entry = ConnectionEntry {
            peer,
            connection,
            charge: Charge::default(),
            handshake_until,
            timer,
            is_sound: false,
        };
        self.connections.insert(token, entry);
        add(&self.shared.counters.accepted, 1);
        self.count_connections();
        Ok(())
    }

    /// Takes a connection that somebody of ours makes.
    fn adopt(&mut self, peer: Arc<Peer>) {
        let policy = &self.shared.policy;
        let (token, remote, now) = (peer.token, peer.flow.remote, self.clock.now());
        let is_full = self.connections.len() >= policy.connections_max;
        let connection = Connection::outgoing(policy, now);
        let until = now + policy.handshake;
        let timer = (until, self.deadlines.add(until, token));
        let waiting_bytes = self.sources.waiting_bytes(remote);
        self.sources.connected(remote, token, false, &waiting_bytes);
        let entry = ConnectionEntry {
            peer,
            connection,
            charge: Charge::default(),
            handshake_until: Some(until),
            timer,
            is_sound: false,
        };
        if is_full && !self.displace() {
            return self.end(entry, Close::NoPlace);
        }
        self.connections.insert(token, entry);
        self.count_connections();
    }

    fn count_connections(&self) {
        let count = self.connections.len();
        self.shared.counters.count_connections(count);
    }

    fn readable(&mut self, token: u64) {
        if !self.has_turn(token) {
            return;
        }
        let Some(mut entry) = self.connections.remove(&token) else {
            return;
        };
        let read = self.read(&mut entry);
        self.note_handshake(&mut entry);
        let read = read.and_then(|()| self.note_memory(&mut entry));
        match read {
            Ok(()) => {
                self.set_timer(token, &mut entry);
                self.connections.insert(token, entry);
                self.shed_memory();
            }
            Err(close) => self.end(entry, close),
        }
    }

    fn note_memory(&mut self, entry: &mut ConnectionEntry) -> Result<(), Close> {
        let ConnectionEntry {
            peer,
            connection,
            charge,
            ..
        } = entry;
        let (source, class) = (peer.flow.remote.ip(), peer.class());
        let bytes = connection.held_bytes();
        let noted = self.memory.note(charge, source, peer.token, class, bytes);
        self.count_memory();
        noted.map_err(|OverShare| Close::SourceMemory)
    }

    /// Closes connections until incomplete messages hold no more memory than allowed.
    fn shed_memory(&mut self) {
        while let Some(token) = self.memory.excess() {
            let Some(entry) = self.connections.remove(&token) else {
                debug_assert!(false, "a holder of memory is in the table");
                return;
            };
            self.end(entry, Close::DisplacedMemory);
        }
    }

    fn count_memory(&self) {
        let held = self.memory.held() as u64;
        let counter = &self.shared.counters.held_bytes;
        counter.store(held, Ordering::Relaxed);
    }

    /// A step of a handshake costs as much as a hundred messages, so only some are
    /// taken before other connections have their turn. The kernel's events are
    /// level-triggered: it will report the rest again.
    fn has_turn(&mut self, token: u64) -> bool {
        let entry = self.connections.get(&token);
        if entry.is_none_or(|entry| entry.handshake_until.is_none()) {
            return true;
        }
        let has_turn = self.handshake_turns > 0;
        self.handshake_turns = self.handshake_turns.saturating_sub(1);
        has_turn
    }

    fn note_handshake(&mut self, entry: &mut ConnectionEntry) {
        if entry.handshake_until.is_some() && !entry.peer.is_handshaking() {
            entry.handshake_until = None;
            if self.handshakes.remove(&entry.peer.token) {
                self.sources.handshake_ended(entry.peer.flow.remote);
            }
        }
    }

    /// Reads once what the kernel has, and all that was encrypted in it.
    fn read(&self, entry: &mut ConnectionEntry) -> Result<(), Close> {
        let goes_on = entry.peer.pump().map_err(|_| Close::Failed)?;
        let mut brought = 0;
        loop {
            let buffers = self.memory.buffers(entry.peer.class());
            let room = entry.connection.room(buffers);
            let room = room.map_err(|_| Close::NoBuffer)?;
            match entry.peer.read(room) {
                Ok(0) => return self.no_more_comes(entry),
                Ok(count) => {
                    self.hear(entry, count)?;
                    brought += count;
                    entry.peer.note_turn(brought);
                }
                Err(error) if is_passing(&error) => {
                    entry.connection.nothing_came();
                    break;
                }
                // A peer that ends without a TLS close_notify has ended as well.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Err(Close::ByPeer);
                }
                Err(_) => return Err(Close::Failed),
            }
            if !entry.peer.flow.transport.is_encrypted() {
                break;
            }
        }
        goes_on.then_some(()).ok_or(Close::ByPeer)
    }

    fn no_more_comes(&self, entry: &mut ConnectionEntry) -> Result<(), Close> {
        let stays = entry.connection.no_more_comes(self.clock.now());
        let stays = stays && entry.peer.stop_reading();
        stays.then_some(()).ok_or(Close::ByPeer)
    }

    /// A later deadline does not change the timer: it fires too early once.
    fn set_timer(&mut self, token: u64, entry: &mut ConnectionEntry) {
        let deadline = entry.deadline();
        let (set_for, handle) = entry.timer;
        if deadline < set_for {
            self.deadlines.cancel(handle);
            entry.timer = (deadline, self.deadlines.add(deadline, token));
        }
    }

    fn expire(&mut self) {
        let now = self.clock.now();
        while let Some((_, token)) = self.deadlines.pop_due(now) {
            match self.listener_index(token) {
                Some(index) if self.listen(index).is_err() => {
                    self.deadlines.add(now + REST, token);
                }
                Some(_) => {}
                None => self.due(token, now),
            }
        }
    }

    fn due(&mut self, token: u64, now: Instant) {
        let Some(mut entry) = self.connections.remove(&token) else {
            return;
        };
        if entry.connection.wants_ping(now) {
            add(&self.shared.counters.web_socket_pings, 1);
            entry.peer.send_frame(FrameHead::ping(), None);
        }
        let deadline = entry.deadline();
        if deadline > now {
            // The client may be told in the meantime to send something more often.
            let deadline = deadline.min(now + LOOK_PERIOD);
            entry.timer = (deadline, self.deadlines.add(deadline, token));
            self.connections.insert(token, entry);
            return;
        }
        let is_handshake = entry.handshake_until.is_some_and(|until| until <= now);
        let late = Close::Late(entry.connection.ending());
        self.end(entry, if is_handshake { Close::Handshake } else { late });
    }

    /// Counts the reason, unless that was done when the connection was found to be
    /// broken. It is counted when it has its effects: whoever reads a failure is refused then. How
    /// many are left is told last, so that whoever reads that reads the reason as well.
    fn end(&mut self, entry: ConnectionEntry, close: Close) {
        let was_counted = entry.connection.ending() == Ending::Broken;
        let is_failure = entry.peer.is_outgoing && entry.handshake_until.is_some();
        let peer = entry.peer.clone();
        if entry.connection.is_open_web_socket() {
            peer.say_close(close.code());
        }
        self.forget(entry);
        let counters = &self.shared.counters;
        add(close.counter(counters), usize::from(!was_counted));
        add(&counters.connect_failures, usize::from(is_failure));
        self.count_connections();
        if peer.is_known() {
            self.hand_on(peer.flow, StreamMessage::Ended);
        }
    }

    /// Ends a connection that was removed from the table.
    fn forget(&mut self, mut entry: ConnectionEntry) {
        self.deadlines.cancel(entry.timer.1);
        let source = entry.peer.flow.remote.ip();
        self.memory.release(&mut entry.charge, source);
        self.count_memory();
        self.shared.directory.remove(&entry.peer);
        self.untrusted.remove(&entry.peer.token);
        entry.peer.close();
        let remote = entry.peer.flow.remote;
        if self.handshakes.remove(&entry.peer.token) {
            self.sources.handshake_ended(remote);
        }
        if entry.peer.is_outgoing {
            let now = self.clock.now();
            self.shared.outgoing.ended(now, &entry.peer, entry.is_sound);
        }
        self.sources.disconnected(remote, entry.peer.token);
    }
}

impl Drop for Engine {
    /// Nothing is left that could be sent to.
    fn drop(&mut self) {
        for (_, entry) in std::mem::take(&mut self.connections) {
            self.forget(entry);
        }
        self.count_connections();
    }
}

impl ConnectionEntry {
    fn deadline(&self) -> Instant {
        let deadline = match self.peer.silence_max() {
            Some(silence_max) => self.connection.deadline_within(silence_max),
            None => self.connection.deadline(),
        };
        earliest(deadline, self.handshake_until)
    }
}

fn earliest(deadline: Instant, other: Option<Instant>) -> Instant {
    other.map_or(deadline, |other| deadline.min(other))
}

/// A line end, the answer to two (RFC 5626 §3.5.1).
const PONG: &[u8] = b"\r\n";
const STOP: u64 = 0;
/// Connections that this side makes.
const MADE: u64 = 1;
const FIRST_LISTENER: u64 = 2;
/// Tokens of connections are higher than those of all listeners.
pub(super) const LISTENERS_MAX: u64 = 1 << 20;
/// So that a turn is one read of each connection, as far as possible.
const EVENTS_MAX: usize = 16_384;
/// So that those who are connected already get their turn.
const ACCEPTED_AT_ONCE: usize = 64;
/// Some ten milliseconds' worth, among so many events.
const HANDSHAKES_AT_ONCE: usize = 16;
const HANDSHAKE_PERIOD: usize = 256;
/// For how long a listener rests after the system refused, or while there are
/// too many handshakes.
const REST: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long after the last look the deadline of a connection is looked at again:
/// shorter than any that it may be given meanwhile.
const LOOK_PERIOD: Duration = Duration::from_secs(FLOW_TIMER_S as u64);
