//! Sends and receives many datagrams in one system call, on one connected
//! socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg};

/// Datagrams to be sent, one after another in one buffer.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Room for one batch of received datagrams.
pub(crate) struct Inbox {
    headers: MultiHeaders<()>,
    room: Vec<u8>,
    lengths: Vec<usize>,
}

impl Outbox {
    /// Adds the datagram that `write` appends.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The datagrams in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .filter_map(|(start, &end)| self.bytes.get(start..end))
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Sends all datagrams and empties the outbox. A datagram that the system
    /// refuses counts as lost. Returns the number of lost datagrams.
    pub fn send(&mut self, socket: &UdpSocket) -> u64 {
        let slices: Vec<[IoSlice<'_>; 1]> = self
            .iter()
            .map(|datagram| [IoSlice::new(datagram)])
            .collect();
        let mut headers = MultiHeaders::<()>::preallocate(slices.len().min(BATCH), None);
        let lost = slices
            .chunks(BATCH)
            .map(|batch| send_batch(socket, &mut headers, batch))
            .sum();
        self.clear();
        lost
    }
}

impl Inbox {
    pub fn new() -> Self {
        Self {
            headers: MultiHeaders::preallocate(BATCH, None),
            room: vec![0; BATCH * DATAGRAM_BYTES],
            lengths: Vec::with_capacity(BATCH),
        }
    }

    /// Receives what is there, without waiting; `Ok(0)` if nothing is there.
    ///
    /// # Errors
    /// What the socket reports, such as a port that nobody listens on.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.lengths.clear();
        let mut slices: Vec<[IoSliceMut<'_>; 1]> = self
            .room
            .chunks_exact_mut(DATAGRAM_BYTES)
            .map(|room| [IoSliceMut::new(room)])
            .collect();
        let flags = MsgFlags::MSG_DONTWAIT;
        match recvmmsg(
            socket.as_raw_fd(),
            &mut self.headers,
            slices.iter_mut(),
            flags,
            None,
        ) {
            Ok(results) => self.lengths.extend(results.map(|result| result.bytes)),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.lengths.len())
    }

    /// The datagrams of the last batch.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let rooms = self.room.chunks_exact(DATAGRAM_BYTES);
        rooms
            .zip(&self.lengths)
            .filter_map(|(room, &length)| room.get(..length))
    }
}

fn send_batch(
    socket: &UdpSocket,
    headers: &mut MultiHeaders<()>,
    batch: &[[IoSlice<'_>; 1]],
) -> u64 {
    let mut rest = batch;
    let mut lost = 0;
    while !rest.is_empty() {
        let to_peer = vec![None; rest.len()];
        let sent = sendmmsg(
            socket.as_raw_fd(),
            headers,
            rest,
            &to_peer,
            [],
            MsgFlags::empty(),
        );
        let sent = match sent.map(Iterator::count) {
            Ok(sent) => sent,
            Err(Errno::EINTR) => continue,
            Err(_) => {
                lost += 1;
                1
            }
        };
        rest = rest.get(sent.max(1)..).unwrap_or(&[]);
    }
    lost
}

/// The most datagrams in one system call.
pub(crate) const BATCH: usize = 64;
/// Larger than any answer to a REGISTER. The end of a longer datagram is cut
/// off.
const DATAGRAM_BYTES: usize = 8 * 1024;
