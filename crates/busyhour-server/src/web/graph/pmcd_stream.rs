use super::pmcd_address::PmcdAddress;
use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    os::unix::net::UnixStream,
    time::Duration,
};

/// A connection to a `pmcd`. A read that takes longer than [`PATIENCE`] fails.
pub(super) struct PmcdStream(Box<dyn PmcdBytes>);

trait PmcdBytes: Read + Write + Send {}

impl<T: Read + Write + Send> PmcdBytes for T {}

impl PmcdStream {
    pub(super) fn connect(address: &PmcdAddress) -> io::Result<Self> {
        Ok(match address {
            PmcdAddress::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Self(Box::new(stream))
            }
            PmcdAddress::Tcp(address) => {
                let stream = connect_any(address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                // Questions are small, and the next one waits for the answer.
                stream.set_nodelay(true)?;
                Self(Box::new(stream))
            }
        })
    }

    /// What came; at least one byte.
    pub(super) fn read<'a>(&mut self, bytes: &'a mut [u8]) -> io::Result<&'a [u8]> {
        match self.0.read(bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => Ok(&bytes[..len]),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
}

/// The first of the host's addresses that answers.
fn connect_any(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// `pmcd` itself waits as long for an agent. An end of the server waits no longer.
const PATIENCE: Duration = Duration::from_secs(5);
