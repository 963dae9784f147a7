use super::{
    BATCH_LEN, Datagram,
    stats::{Counters, add},
};
use crate::server::Flow;
use busyhour::{
    buffer::{Buffer, BufferMut, BufferPool},
    pool::{Guest, TaskPool},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        eventfd::EventFd,
        socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg},
    },
};
use std::{
    io::IoSliceMut,
    net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket},
    os::fd::{AsFd, AsRawFd},
    sync::Arc,
};

/// The receiving half of one socket, run by its own thread.
pub(super) struct Receiver {
    pub(super) socket: Arc<UdpSocket>,
    pub(super) local: SocketAddr,
    pub(super) buffers: BufferPool,
    pub(super) counters: Arc<Counters>,
    /// Readable once the receiver shall end.
    pub(super) stop: Arc<EventFd>,
}

/// Where the datagrams of one call land.
struct Landing {
    /// A pinned buffer for each datagram; `None` where the pool had none.
    slots: Vec<Option<BufferMut>>,
    /// Beside each slot, room for the rest of a datagram too long for it.
    spill: Vec<u8>,
    headers: MultiHeaders<SockaddrStorage>,
    /// Length and source of each datagram of the last call.
    arrivals: Vec<(usize, Option<SocketAddr>)>,
    /// How many the last call asked for.
    asked: usize,
}

impl Receiver {
    /// Hands every datagram to `deliver`, in order, until the stop signal.
    pub(super) fn run(&self, pool: &TaskPool, deliver: &dyn Fn(Datagram)) {
        let mut guest = pool.guest();
        let mut landing = Landing::new();
        loop {
            match self.receive(&mut landing) {
                Ok(()) => self.hand_on(&mut landing, &mut guest, deliver),
                Err(Errno::EAGAIN) => {}
                Err(Errno::EINTR) => continue,
                Err(error) => self.failed(error),
            }
            if !landing.was_full() && self.wait() == Waited::Stop {
                return;
            }
        }
    }

    /// A few, or after a few a whole batch: who receives one at a time need not
    /// prepare for more.
    fn receive(&self, landing: &mut Landing) -> nix::Result<()> {
        let is_busy = landing.arrivals.len() >= FEW;
        let len = if is_busy { BATCH_LEN } else { FEW };
        landing.refill(len, &self.buffers);
        landing.receive(len, &self.socket)
    }

    /// A few are done with here, one by one; more are left to the pool's workers.
    fn hand_on(&self, landing: &mut Landing, guest: &mut Guest, deliver: &dyn Fn(Datagram)) {
        add(&self.counters.receive_calls, 1);
        let are_few = landing.arrivals.len() < FEW;
        for index in 0..landing.arrivals.len() {
            let (len, source) = landing.arrivals[index];
            add(&self.counters.received, 1);
            add(&self.counters.received_bytes, len);
            let payload = landing.payload(index, len, &self.buffers);
            match (payload, source) {
                (Some(payload), Some(remote)) => {
                    let flow = Flow::udp(self.local, remote);
                    let datagram = Datagram { flow, payload };
                    let panics = &self.counters.panics;
                    let deal = || panics.contain(flow, || deliver(datagram));
                    match are_few {
                        true => guest.run(deal),
                        false => deal(),
                    }
                }
                (None, _) => add(&self.counters.dropped_no_buffer, 1),
                // No family but IP ever arrives on an IP socket.
                (_, None) => add(&self.counters.receive_errors, 1),
            }
        }
    }

    /// Sleeps until a datagram is there or the receiver shall end.
    fn wait(&self) -> Waited {
        let mut awaited = [
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.stop.as_fd(), PollFlags::POLLIN),
        ];
        // An interrupted or failed poll only means that the socket is tried again.
        let _ = poll(&mut awaited, PollTimeout::NONE);
        match awaited[1].any() {
            Some(true) => Waited::Stop,
            _ => Waited::Datagram,
        }
    }

    fn failed(&self, error: Errno) {
        add(&self.counters.receive_errors, 1);
        tracing::warn!(local = %self.local, %error, "receiving failed");
    }
}

#[derive(PartialEq)]
enum Waited {
    Datagram,
    Stop,
}

impl Landing {
    fn new() -> Self {
        Self {
            slots: (0..BATCH_LEN).map(|_| None).collect(),
            // Zeroed lazily by the operating system: untouched pages cost nothing.
            spill: vec![0; BATCH_LEN * DATAGRAM_LEN_MAX],
            headers: MultiHeaders::preallocate(BATCH_LEN, None),
            arrivals: Vec::with_capacity(BATCH_LEN),
            asked: 0,
        }
    }

    /// Whether the last call brought all that it had room for, so that there may be more.
    fn was_full(&self) -> bool {
        self.arrivals.len() == self.asked
    }

    /// A fresh buffer wherever an earlier call's was handed on.
    fn refill(&mut self, len: usize, buffers: &BufferPool) {
        let slots = self.slots.iter_mut().take(len);
        for slot in slots.filter(|slot| slot.is_none()) {
            *slot = buffers.alloc(SLOT_LEN).ok();
        }
    }

    /// At most `len` into the slots, without waiting.
    fn receive(&mut self, len: usize, socket: &UdpSocket) -> nix::Result<()> {
        self.arrivals.clear();
        self.asked = len;
        let spills = self.spill.chunks_exact_mut(DATAGRAM_LEN_MAX);
        let mut slices: Vec<[IoSliceMut<'_>; 2]> = self
            .slots
            .iter_mut()
            .zip(spills)
            .take(len)
            .map(|(slot, spill)| {
                let slot = slot.as_deref_mut().unwrap_or_default();
                [IoSliceMut::new(slot), IoSliceMut::new(spill)]
            })
            .collect();
        let received = recvmmsg(
            socket.as_raw_fd(),
            &mut self.headers,
            slices.iter_mut(),
            MsgFlags::MSG_DONTWAIT,
            None,
        )?;
        let arrivals = received.map(|one| (one.bytes, one.address.as_ref().and_then(address)));
        self.arrivals.extend(arrivals);
        Ok(())
    }

    /// The bytes of datagram `index`, pinned; `None` when the pool is at its budget.
    fn payload(&mut self, index: usize, len: usize, buffers: &BufferPool) -> Option<Buffer> {
        let mut slot = self.slots.get_mut(index)?.take()?;
        if len <= slot.len() {
            slot.truncate(len);
            return Some(slot.freeze());
        }
        let mut whole = buffers.alloc(len).ok()?;
        let (head, tail) = whole.split_at_mut(slot.len());
        head.copy_from_slice(&slot);
        let spill = self.spill.get(index * DATAGRAM_LEN_MAX..)?;
        tail.copy_from_slice(spill.get(..tail.len())?);
        Some(whole.freeze())
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().copied();
    let v6 = || storage.as_sockaddr_in6().copied();
    v4.map(|v4| SocketAddrV4::from(v4).into())
        .or_else(|| v6().map(|v6| SocketAddrV6::from(v6).into()))
}

/// Datagrams of one call that are no sign of load.
const FEW: usize = 8;
/// Room for every SIP message but the rare giant, which costs a copy.
const SLOT_LEN: usize = 2048;
/// More than UDP can carry, so that nothing is ever cut off.
const DATAGRAM_LEN_MAX: usize = 65_536;
