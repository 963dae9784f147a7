use super::{
    counters::ConnectionCounters,
    memory::Class,
    outbox::{Outbox, RoomShare},
};
use crate::{net::stats::add, server::SendError};
use busyhour::buffer::Buffer;
use busyhour_sip::Flow;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use rustls::ServerConnection;
use sha2::{Digest, Sha256};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

/// The other end of one connection: its socket, and what goes out on it.
pub(super) struct Peer {
    pub(super) flow: Flow,
    pub(super) token: u64,
    socket: TcpStream,
    epoll: Arc<Epoll>,
    counters: Arc<ConnectionCounters>,
    /// Something was accepted of it.
    is_known: AtomicBool,
    /// The silence in seconds that the client was told; 0 if it was not told any.
    silence_s_max: AtomicU32,
    channel: Mutex<Channel>,
}

struct Channel {
    outbox: Outbox,
    tls: Option<Box<ServerConnection>>,
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
        tls: Option<Box<ServerConnection>>,
        (epoll, counters): (Arc<Epoll>, Arc<ConnectionCounters>),
        outbox: Outbox,
    ) -> Self {
        Self {
            flow,
            token,
            socket,
            epoll,
            counters,
            is_known: AtomicBool::new(false),
            silence_s_max: AtomicU32::new(0),
            channel: Mutex::new(Channel {
                outbox,
                tls,
                is_reading: true,
                waits_since: None,
                is_closed: false,
                ends: false,
                has_ended: false,
            }),
        }
    }

    /// Begins to be told of what comes in.
    pub(super) fn watch(&self) -> nix::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, self.token);
        self.epoll.add(&self.socket, event)
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
            age: since.map_or(Duration::ZERO, |since| since.elapsed()),
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
        if !channel.outbox.push(message, room) {
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

    /// Answers a ping, unless something waits to be sent anyway: a client that pings
    /// and does not read gets no more answers than fit into the kernel.
    pub(super) fn answer_ping(&self, pong: Buffer) {
        let mut channel = self.channel();
        let may_send = !channel.is_closed && !channel.ends && channel.outbox.is_empty();
        if may_send && channel.outbox.push(pong, RoomShare::Half) {
            self.flush(&mut channel);
        }
    }

    /// There may be room again.
    pub(super) fn writable(&self) {
        self.flush(&mut self.channel());
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

    /// The SHA-256 of the certificate that the client has shown, if it has shown one and the
    /// encryption is agreed on.
    pub(super) fn client_certificate(&self) -> Option<[u8; 32]> {
        let channel = self.channel();
        let tls = channel.tls.as_ref().filter(|tls| !tls.is_handshaking())?;
        let shown = tls.peer_certificates()?.first()?;
        Some(Sha256::digest(shown).into())
    }

    /// Whether the encryption is still being agreed on.
    pub(super) fn is_handshaking(&self) -> bool {
        let channel = self.channel();
        channel.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
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
            channel.waits_since = waits.then(Instant::now);
            self.watch_for(channel);
        }
    }

    fn watch_for(&self, channel: &mut Channel) {
        let mut flags = EpollFlags::empty();
        flags.set(EpollFlags::EPOLLIN, channel.is_reading);
        flags.set(EpollFlags::EPOLLOUT, channel.waits_since.is_some());
        let mut event = EpollEvent::new(flags, self.token);
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
    fn flush(
        &mut self,
        mut socket: &TcpStream,
        counters: &ConnectionCounters,
    ) -> io::Result<Flushed> {
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

/// Whether trying again later is all that an error asks for.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
