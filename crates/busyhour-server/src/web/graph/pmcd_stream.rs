use super::pmcd_address::PmcdAddress;
use busyhour::clock::{Clock, Instant};
use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream, ToSocketAddrs},
    path::Path,
    time::Duration,
};

/// A connection to a `pmcd`. What takes longer than [`PATIENCE`] fails, however many
/// bytes of it came.
pub(super) struct PmcdStream {
    socket: Socket,
    clock: Clock,
    deadline: Instant,
}

/// Ends a connection that another thread reads from.
pub(super) struct PmcdShutdown(Socket);

impl PmcdStream {
    pub(super) fn connect(address: &PmcdAddress, clock: &Clock) -> io::Result<Self> {
        let socket = match address {
            PmcdAddress::Unix(path) => connect_unix(path)?,
            PmcdAddress::Tcp(address) => {
                let stream = connect_any(address, clock)?;
                // Questions are small, and the next one waits for the answer.
                stream.set_nodelay(true)?;
                stream.into()
            }
        };
        let (clock, deadline) = (clock.clone(), clock.now() + PATIENCE);
        Ok(Self {
            socket,
            clock,
            deadline,
        })
    }

    pub(super) fn shutdown(&self) -> io::Result<PmcdShutdown> {
        self.socket.try_clone().map(PmcdShutdown)
    }

    /// What came; at least one byte.
    pub(super) fn read<'a>(&mut self, bytes: &'a mut [u8]) -> io::Result<&'a [u8]> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        match self.socket.read(bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => Ok(&bytes[..len]),
        }
    }

    /// Sends a question; the deadline of its answer begins.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.deadline = self.clock.now() + PATIENCE;
        while !bytes.is_empty() {
            self.socket.set_write_timeout(Some(self.left()?))?;
            match self.socket.write(bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                len => bytes = &bytes[len..],
            }
        }
        Ok(())
    }

    fn left(&self) -> io::Result<Duration> {
        left(self.deadline, &self.clock)
    }
}

impl PmcdShutdown {
    pub(super) fn shut(&self) {
        // One that is closed already needs no end.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Does not wait: a full backlog is an error, and the next try comes soon.
fn connect_unix(path: &Path) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// The first of the host's addresses that answers; all of them share the time.
fn connect_any(address: &str, clock: &Clock) -> io::Result<TcpStream> {
    let deadline = clock.now() + PATIENCE;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(deadline, clock)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn left(deadline: Instant, clock: &Clock) -> io::Result<Duration> {
    let left = deadline - clock.now();
    match left.is_zero() {
        true => Err(io::ErrorKind::WouldBlock.into()),
        false => Ok(left),
    }
}

/// `pmcd` itself waits as long for an agent. An end of the server waits no longer.
const PATIENCE: Duration = Duration::from_secs(5);
