//! The transport of one thread: a socket for datagrams, or one connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};
use nix::sys::time::TimeSpec;
use socket2::{Domain, Protocol, Socket, Type};

use crate::plan::args::Transport;
use crate::wire::batch::{Inbox, Outbox};
use busyhour_sip::{Frame, Limits, StreamFramer};

/// The transport of the messages to the server and back.
pub(crate) enum StormSocket {
    Datagrams(UdpSocket),
    Connection(Connection),
}

/// A connection to the server. It is made again when it breaks.
pub(crate) struct Connection {
    target: SocketAddr,
    /// `None` between a break and the next message.
    socket: Option<TcpStream>,
    framer: StreamFramer,
    received: Vec<u8>,
    unsent: Vec<u8>,
}

impl StormSocket {
    /// # Errors
    /// When no socket can be had or the target can't be reached from here.
    pub fn new(target: SocketAddr, transport: Transport) -> io::Result<Self> {
        Ok(match transport {
            Transport::Udp => Self::Datagrams(open(target)?),
            Transport::Tcp => Self::Connection(Connection::new(target)?),
        })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Datagrams(socket) => socket.local_addr(),
            Self::Connection(connection) => connection.local_addr(),
        }
    }

    /// Makes a broken connection again, so that the next measurement does not
    /// begin with that. If this fails, the first message tries again.
    pub fn make_ready(&mut self) {
        if let Self::Connection(connection) = self {
            connection.make_ready();
        }
    }

    /// Sends all messages and empties the outbox; returns the number of lost
    /// messages.
    pub fn send(&mut self, outbox: &mut Outbox) -> u64 {
        match self {
            Self::Datagrams(socket) => outbox.send(socket),
            Self::Connection(connection) => {
                let lost = connection.queue(outbox);
                lost + u64::from(connection.flush().is_err())
            }
        }
    }

    /// Receives what is there, without waiting, datagrams through `inbox`.
    /// Returns the number of messages.
    ///
    /// # Errors
    /// What the socket reports, such as a port that nobody listens on.
    pub fn receive(&mut self, inbox: &mut Inbox, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        match self {
            Self::Datagrams(socket) => {
                let count = inbox.receive(socket)?;
                inbox.iter().for_each(take);
                Ok(count)
            }
            Self::Connection(connection) => connection.receive(take),
        }
    }

    /// Sleeps until something comes, something more can be sent, or the time is over.
    pub fn wait(&self, timeout: Duration) {
        Self::wait_for_any(std::iter::once(self), timeout);
    }

    /// As [`StormSocket::wait`], for the first of several sockets.
    pub fn wait_for_any<'a>(sockets: impl Iterator<Item = &'a Self>, timeout: Duration) {
        let mut polled: Vec<_> = sockets.filter_map(Self::polled).collect();
        // A signal or an error ends the wait early, and the loop looks again.
        let _ = ppoll(&mut polled, Some(TimeSpec::from_duration(timeout)), None);
    }

    fn polled(&self) -> Option<PollFd<'_>> {
        let (socket, flags) = match self {
            Self::Datagrams(socket) => (Some(socket.as_fd()), PollFlags::POLLIN),
            Self::Connection(connection) => connection.awaited(),
        };
        Some(PollFd::new(socket?, flags))
    }
}

impl Connection {
    fn new(target: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            target,
            socket: Some(connect(target)?),
            framer: StreamFramer::new(Limits::default()),
            received: Vec::new(),
            unsent: Vec::new(),
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        socket.local_addr()
    }

    fn awaited(&self) -> (Option<BorrowedFd<'_>>, PollFlags) {
        let out = match self.unsent.is_empty() {
            true => PollFlags::empty(),
            false => PollFlags::POLLOUT,
        };
        let socket = self.socket.as_ref().map(AsFd::as_fd);
        (socket, PollFlags::POLLIN | out)
    }

    fn make_ready(&mut self) {
        if self.socket.is_none() {
            self.socket = connect(self.target).ok();
        }
    }

    /// Queues the messages, if there is a connection or one can be made.
    fn queue(&mut self, outbox: &mut Outbox) -> u64 {
        self.make_ready();
        let mut lost = 0;
        match self.socket {
            Some(_) => outbox.iter().for_each(|one| self.unsent.extend(one)),
            None => lost = outbox.iter().count() as u64,
        }
        outbox.clear();
        lost
    }

    fn flush(&mut self) -> io::Result<()> {
        while let Some(socket) = self.socket.as_mut().filter(|_| !self.unsent.is_empty()) {
            match socket.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
        Ok(())
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        self.flush()?;
        let Some(socket) = &mut self.socket else {
            return Ok(0);
        };
        let filled = self.received.len();
        self.received.resize(filled + READ_BYTES, 0);
        let read = socket.read(self.received.get_mut(filled..).unwrap_or_default());
        self.received
            .truncate(filled + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(self.broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => self.messages(take),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(self.broken(error)),
        }
    }

    fn messages(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let (mut at, mut count) = (0, 0);
        loop {
            let rest = self.received.get(at..).unwrap_or_default();
            match self.framer.next(rest) {
                Ok(Frame::Message { bytes }) => {
                    take(rest.get(..bytes).unwrap_or_default());
                    at += bytes;
                    count += 1;
                }
                Ok(Frame::KeepAlive { bytes, .. }) => at += bytes,
                Ok(Frame::Incomplete) => break,
                Err(error) => return Err(self.broken(io::Error::other(error))),
            }
        }
        self.received.drain(..at);
        Ok(count)
    }

    /// Drops the connection; the messages in progress on it are lost.
    fn broken(&mut self, error: io::Error) -> io::Error {
        self.socket = None;
        self.framer = StreamFramer::new(Limits::default());
        self.received.clear();
        self.unsent.clear();
        error
    }
}

fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&target, CONNECT_PATIENCE)?;
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn open(target: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(target),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    // Ten thousand watchers may be notified of one change at once, and all
    // NOTIFYs must fit. The system may grant less; NOTIFYs that do not fit
    // are retransmitted.
    if setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER_BYTES).is_err() {
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    }
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.connect(&target.into())?;
    Ok(socket.into())
}

const SOCKET_BUFFER_BYTES: usize = 4 << 20;
/// The kernel counts a datagram as some 2 KiB.
const RECEIVE_BUFFER_BYTES: usize = 32 << 20;
const READ_BYTES: usize = 64 << 10;
/// The kernel tries again after one second and after three. A busy server may
/// take as long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_broken_connection_is_made_again_before_anything_is_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let mut socket = StormSocket::new(target, Transport::Tcp).unwrap();
        drop(listener.accept().unwrap());
        let mut inbox = Inbox::new();
        while socket.receive(&mut inbox, &mut |_| ()).is_ok() {
            std::thread::yield_now();
        }
        assert!(socket.local_addr().is_err());
        socket.make_ready();
        assert!(socket.local_addr().is_ok());
        assert!(listener.accept().is_ok());
    }
}
