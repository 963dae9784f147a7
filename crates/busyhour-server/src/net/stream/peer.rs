use super::{
    counters::ConnectionCounters,
    memory::Class,
    outbox::{Outbox, QueuedMessage, RoomShare},
    tls::Authorities,
    web_socket::{CloseCode, FrameHead},
};
use crate::{
    net::stats::add,
    server::{SendError, ShownCertificate},
};
use busyhour::{
    buffer::Buffer,
    clock::{Clock, Instant},
};
use busyhour_sip::Flow;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use rustls::{Connection as TlsConnection, pki_types::CertificateDer};
use sha2::{Digest, Sha256};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The other end of one connection: its socket, and what goes out on it.
pub(super) struct Peer {
    pub(super) flow: Flow,
    pub(super) token: u64,
    socket: TcpStream,
    epoll: Arc<Epoll>,
    counters: Arc<ConnectionCounters>,
    clock: Clock,
    /// Something was accepted of it.
    is_known: AtomicBool,
    /// The silence in seconds that the client was told; 0 if it was not told any.
    silence_s_max: AtomicU32,
    /// Bytes that its last turn has brought.
    turn_bytes: AtomicUsize,
    /// This side has made it.
    pub(super) is_outgoing: bool,
    /// The domain for which this side has made it.
    pub(super) domain: Option<Arc<str>>,
    /// What its certificate says, once somebody has asked after the handshake.
    shown: OnceLock<Option<Arc<ShownCertificate>>>,
    channel: Mutex<Channel>,
}

struct Channel {
    outbox: Outbox,
    tls: Option<Box<TlsConnection>>,
    /// The other side has not taken it yet.
    is_connecting: bool,
    /// The kernel was asked to report input.
    is_reading: bool,
    /// Since when the kernel is to report room, if it is.
    waits_since: Option<Instant>,
    is_closed: bool,
    /// Nothing more is to be sent after what waits.
    ends: bool,
    /// That was said.
    has_ended: bool,
}

/// What waits to be sent on one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitingOutput {
    pub(super) len: u64,
    pub(super) bytes: u64,
    pub(super) age: Duration,
}

/// Who watches the socket, what counts, and the time.
pub(super) type Watching = (Arc<Epoll>, Arc<ConnectionCounters>, Clock);

/// Whether all has left.
#[derive(PartialEq)]
enum Flushed {
    All,
    Blocked,
}

impl Peer {
    pub(super) fn new(
        flow: Flow,
        token: u64,
        socket: TcpStream,
        tls: Option<Box<TlsConnection>>,
        (epoll, counters, clock): Watching,
        outbox: Outbox,
    ) -> Self {
        Self {
            flow,
            token,
            socket,
            epoll,
            counters,
            clock,
            is_known: AtomicBool::new(false),
            silence_s_max: AtomicU32::new(0),
            turn_bytes: AtomicUsize::new(0),
            is_outgoing: false,
            domain: None,
            shown: OnceLock::new(),
            channel: Mutex::new(Channel {
                outbox,
                tls,
                is_connecting: false,
                is_reading: true,
                waits_since: None,
                is_closed: false,
                ends: false,
                has_ended: false,
            }),
        }
    }

    /// One that this side makes, maybe for a domain: it waits for the other side to take it. It
    /// is trusted.
    pub(super) fn outgoing(
        (flow, domain): (Flow, Option<Arc<str>>),
        token: u64,
        socket: TcpStream,
        tls: Option<Box<TlsConnection>>,
        watching: Watching,
        outbox: Outbox,
    ) -> Self {
        let mut peer = Self::new(flow, token, socket, tls, watching, outbox);
        (peer.is_outgoing, peer.domain) = (true, domain);
        peer.mark_trusted();
        let now = peer.clock.now();
        let channel = peer.channel.get_mut();
        let channel = channel.unwrap_or_else(PoisonError::into_inner);
        (channel.is_connecting, channel.waits_since) = (true, Some(now));
        peer
    }

    /// Begins to be told of what comes in, and of room if something waits for it.
    pub(super) fn watch(&self) -> nix::Result<()> {
        let event = EpollEvent::new(self.channel().flags(), self.token);
        self.epoll.add(&self.socket, event)
    }

    /// Nothing can be sent on it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.channel().is_closed
    }

    /// What waits to be sent: messages, their bytes, and for how long the peer has read
    /// too little; `None` if nothing waits.
    pub(super) fn waiting(&self) -> Option<WaitingOutput> {
        let channel = self.channel();
        let (len, bytes) = channel.outbox.len();
        let since = channel.waits_since;
        (len > 0).then(|| WaitingOutput {
            len: len as u64,
            bytes: bytes as u64,
            age: since.map_or(Duration::ZERO, |since| self.clock.now() - since),
        })
    }

    /// Marks it as trusted.
    pub(super) fn mark_trusted(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// It was told to send something at least so often.
    pub(super) fn expect_keepalives(&self, within: Duration) {
        let seconds = u32::try_from(within.as_secs()).unwrap_or(u32::MAX);
        self.silence_s_max.store(seconds, Ordering::Relaxed);
    }

    /// For how long it may bring nothing, where it was told.
    pub(super) fn silence_max(&self) -> Option<Duration> {
        let seconds = self.silence_s_max.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// A turn has brought so much.
    pub(super) fn note_turn(&self, bytes: usize) {
        self.turn_bytes.store(bytes, Ordering::Relaxed);
    }

    /// After how many turns all that waits in the kernel now will have been read.
    pub(super) fn turns_behind(&self) -> u32 {
        let unread = rustix::io::ioctl_fionread(&self.socket).unwrap_or(0);
        let each = self.turn_bytes.load(Ordering::Relaxed).max(TURN_BYTES_MIN);
        u32::try_from(unread / each as u64).unwrap_or(u32::MAX)
    }

    /// Whose memory its messages use.
    pub(super) fn class(&self) -> Class {
        match self.is_known() {
            true => Class::Known,
            false => Class::Untrusted,
        }
    }

    /// Sends at once what the kernel takes; the rest waits. If there is no room because
    /// the peer does not read, the connection is closed.
    pub(super) fn send(&self, message: Buffer) -> Result<(), SendError> {
        let mut channel = self.channel();
        let room = match self.is_known() {
            true => RoomShare::Whole,
            false => RoomShare::Untrusted,
        };
        let sent = self.push(&mut channel, message, room);
        if sent == Err(SendError::Full) {
            self.shut_unread(&mut channel);
        }
        sent
    }

    /// As [`send`](Self::send), but without room the connection goes on.
    pub(super) fn try_send(&self, message: Buffer) -> Result<(), SendError> {
        let sent = self.push(&mut self.channel(), message, RoomShare::Half);
        if sent == Err(SendError::Full) {
            add(&self.counters.put_off, 1);
        }
        sent
    }

    fn push(
        &self,
        channel: &mut Channel,
        message: Buffer,
        room: RoomShare,
    ) -> Result<(), SendError> {
        if channel.is_closed || channel.ends {
            return Err(SendError::FlowFailed);
        }
        if !channel.outbox.push(self.framed(message), room) {
            return Err(SendError::Full);
        }
        add(&self.counters.sent, 1);
        self.flush(channel);
        if channel.outbox.is_over() {
            self.shut_unread(channel);
            return Err(SendError::FlowFailed);
        }
        Ok(())
    }

    /// In a frame, where messages have one.
    fn framed(&self, message: Buffer) -> QueuedMessage {
        match self.flow.transport.is_web_socket() {
            true => QueuedMessage::framed(FrameHead::message(&message), message),
            false => message.into(),
        }
    }

    /// Answers a ping, unless something waits to be sent anyway: a client that pings
    /// and does not read gets no more answers than fit into the kernel.
    pub(super) fn answer_ping(&self, pong: Buffer) {
        self.send_unless_busy(self.framed(pong));
    }

    /// The same for the ping of a WebSocket, and to ping its other side.
    pub(super) fn send_frame(&self, head: FrameHead, body: Option<Buffer>) {
        self.send_unless_busy(match body {
            Some(body) => QueuedMessage::framed(head, body),
            None => head.into(),
        });
    }

    /// Sends the answer to the request of a WebSocket, which has no frame.
    pub(super) fn send_bare(&self, answer: Buffer) {
        self.send_unless_busy(answer.into());
    }

    fn send_unless_busy(&self, outgoing: QueuedMessage) {
        let mut channel = self.channel();
        let may_send = !channel.is_closed && !channel.ends && channel.outbox.is_empty();
        if may_send && channel.outbox.push(outgoing, RoomShare::Half) {
            self.flush(&mut channel);
        }
    }

    /// Says behind all that waits why a WebSocket is closed. Nothing else follows.
    pub(super) fn say_close(&self, code: CloseCode) {
        let mut channel = self.channel();
        let may_send = !channel.is_closed && !channel.ends;
        if may_send
            && channel
                .outbox
                .push(FrameHead::close(code), RoomShare::Whole)
        {
            self.flush(&mut channel);
        }
        channel.ends = true;
    }

    /// There may be room again, or the other side has taken the connection.
    pub(super) fn writable(&self) {
        let mut channel = self.channel();
        if channel.is_connecting {
            match self.socket.take_error() {
                Ok(None) => channel.is_connecting = false,
                Ok(Some(error)) | Err(error) => {
                    tracing::debug!(remote = %self.flow.remote, %error, "a connection cannot be made");
                    return self.shut(&mut channel);
                }
            }
        }
        self.flush(&mut channel);
    }

    /// Asks no more for what comes in; `false` if the connection is closed anyway.
    pub(super) fn stop_reading(&self) -> bool {
        let mut channel = self.channel();
        channel.is_reading = false;
        self.watch_for(&mut channel);
        !channel.is_closed
    }

    /// Lets what waits leave, and then says that nothing follows.
    pub(super) fn end(&self) {
        let mut channel = self.channel();
        channel.ends = true;
        self.flush(&mut channel);
    }

    /// Nothing is sent any more; the reading thread sees the end.
    pub(super) fn close(&self) {
        let mut channel = self.channel();
        self.shut(&mut channel);
        // The connection may be gone from the kernel's list already.
        let _ = self.epoll.delete(&self.socket);
    }

    /// Moves what the socket has into the decryption, if there is one. `false`
    /// when the peer will send no more.
    ///
    /// # Errors
    ///
    /// When the connection or its encryption fails.
    pub(super) fn pump(&self) -> io::Result<bool> {
        let mut channel = self.channel();
        let Some(tls) = &mut channel.tls else {
            return Ok(true);
        };
        let was_handshaking = tls.is_handshaking();
        let count = match tls.read_tls(&mut &self.socket) {
            Err(error) if is_passing(&error) => return Ok(true),
            other => other?,
        };
        let processed = tls.process_new_packets();
        if processed.is_ok() && was_handshaking && !tls.is_handshaking() {
            add(&self.counters.tls_handshakes, 1);
        }
        // The alert that says what was wrong, the handshake, or what waited for it.
        self.flush(&mut channel);
        match processed {
            Ok(_) => Ok(count > 0),
            Err(error) => {
                add(&self.counters.tls_failures, 1);
                Err(io::Error::new(ErrorKind::InvalidData, error))
            }
        }
    }

    /// The certificate that the other side has shown, if it has shown one and the encryption is
    /// agreed on. It is read once.
    pub(super) fn shown_certificate(
        &self,
        authorities: impl FnOnce() -> Option<Authorities>,
    ) -> Option<Arc<ShownCertificate>> {
        if let Some(known) = self.shown.get() {
            return known.clone();
        }
        let shown = self.peer_certificates()?;
        let read = || {
            let own = shown.first()?;
            let names = authorities().map(|authorities| match self.is_outgoing {
                true => authorities.names_of_server(&shown).unwrap_or_default(),
                false => authorities.names_of_client(&shown),
            });
            Some(Arc::new(ShownCertificate {
                fingerprint: Sha256::digest(own).into(),
                names: names.unwrap_or_default(),
            }))
        };
        self.shown.get_or_init(read).clone()
    }

    /// Those that the other side has shown; `None` before the encryption is agreed on.
    fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        let channel = self.channel();
        let tls = channel.tls.as_ref().filter(|tls| !tls.is_handshaking())?;
        Some(tls.peer_certificates().unwrap_or_default().to_vec())
    }

    /// Whether the connection or its encryption is still being agreed on.
    pub(super) fn is_handshaking(&self) -> bool {
        let channel = self.channel();
        let tls = channel.tls.as_ref();
        channel.is_connecting || tls.is_some_and(|tls| tls.is_handshaking())
    }

    /// Reads what is there, decrypted; 0 when the peer will send no more.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] when nothing is there.
    pub(super) fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        match &mut self.channel().tls {
            Some(tls) => tls.reader().read(room),
            None => (&self.socket).read(room),
        }
    }

    fn flush(&self, channel: &mut Channel) {
        match channel.flush(&self.socket, &self.counters) {
            Ok(Flushed::Blocked) => self.wait(channel, true),
            Ok(Flushed::All) => {
                self.wait(channel, false);
                if channel.ends && !std::mem::replace(&mut channel.has_ended, true) {
                    self.say_end(channel);
                }
            }
            Err(error) => {
                tracing::debug!(remote = %self.flow.remote, %error, "a connection failed");
                add(&self.counters.send_errors, 1);
                self.shut(channel);
            }
        }
    }

    /// Says that nothing follows, behind all that was to be sent. A peer that
    /// is gone need not hear it.
    fn say_end(&self, channel: &mut Channel) {
        if let Some(tls) = &mut channel.tls {
            tls.send_close_notify();
            let _ = channel.flush(&self.socket, &self.counters);
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Asks the kernel to say when there is room, or no longer.
    fn wait(&self, channel: &mut Channel, waits: bool) {
        if channel.waits_since.is_some() != waits {
            channel.waits_since = waits.then(|| self.clock.now());
            self.watch_for(channel);
        }
    }

    fn watch_for(&self, channel: &mut Channel) {
        let mut event = EpollEvent::new(channel.flags(), self.token);
        if self.epoll.modify(&self.socket, &mut event).is_err() {
            self.shut(channel);
        }
    }

    fn shut_unread(&self, channel: &mut Channel) {
        add(&self.counters.closed_unread, 1);
        self.shut(channel);
    }

    fn shut(&self, channel: &mut Channel) {
        channel.is_closed = true;
        // Already shut is as good.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn channel(&self) -> MutexGuard<'_, Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Channel {
    /// What the kernel is to report.
    fn flags(&self) -> EpollFlags {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, self.is_reading);
        flags.set(EpollFlags::EPOLLOUT, self.waits_since.is_some());
        flags
    }

    fn flush(
        &mut self,
        mut socket: &TcpStream,
        counters: &ConnectionCounters,
    ) -> io::Result<Flushed> {
        if self.is_connecting {
            return Ok(Flushed::Blocked);
        }
        loop {
            let written = match &mut self.tls {
                Some(tls) if tls.wants_write() => tls.write_tls(&mut socket).map(|_| 0),
                Some(tls) if tls.is_handshaking() => return Ok(Flushed::All),
                _ if self.outbox.is_empty() => return Ok(Flushed::All),
                Some(tls) => tls.writer().write_vectored(&self.outbox.pieces()),
                None => socket.write_vectored(&self.outbox.pieces()),
            };
            match written {
                Ok(count) => {
                    add(&counters.sent_bytes, count);
                    self.outbox.advance(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Ok(Flushed::Blocked);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a turn brings at least while more waits.
const TURN_BYTES_MIN: usize = 2048;

/// Whether trying again later is all that an error asks for.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
