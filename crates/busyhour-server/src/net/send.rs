use super::{
    BATCH_LEN,
    local::SentFrom,
    stats::{SocketCounters, add},
};
use crate::lock::lock;
use busyhour::buffer::Buffer;
use nix::{
    errno::Errno,
    sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg},
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io::IoSlice,
    net::{IpAddr, SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    sync::{Mutex, MutexGuard},
};

/// The bounded queue of datagrams that leave through one socket.
///
/// Who queues the first one sends all that wait, those that others queue meanwhile included.
/// A thread that receives [puts off](Self::put_off) what it queues until it has handled a few
/// datagrams: then one system call sends it all, and the peer is woken once. Another thread
/// that queues something in between sends it all at once, so that nothing is out of order.
pub(super) struct SendQueue {
    waiting: Mutex<Waiting>,
    /// Datagrams that are being given to the kernel; only the thread that set
    /// `Waiting::sending` locks it.
    batch: Mutex<Vec<Outgoing>>,
    capacity: usize,
}

struct Waiting {
    datagrams: VecDeque<Outgoing>,
    len_high_water: usize,
    /// A thread is sending, and will check again before it stops.
    sending: bool,
}

/// One datagram on its way out.
pub(super) struct Outgoing {
    pub(super) to: SocketAddr,
    /// The local address to send it from, if the socket has several.
    pub(super) from: Option<IpAddr>,
    pub(super) payload: Buffer,
}

impl SendQueue {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                datagrams: VecDeque::new(),
                len_high_water: 0,
                sending: false,
            }),
            batch: Mutex::new(Vec::with_capacity(BATCH_LEN)),
            capacity,
        }
    }

    /// Queues one datagram and, unless another thread is sending, sends all that wait.
    ///
    /// Returns `false` when the queue was full; the datagram is dropped then.
    pub(super) fn send(
        &self,
        socket: &UdpSocket,
        counters: &SocketCounters,
        outgoing: Outgoing,
    ) -> bool {
        match self.queue(outgoing) {
            Queued::Full => {
                add(&counters.dropped_send_queue, 1);
                return false;
            }
            Queued::Theirs | Queued::PutOff => {}
            Queued::Ours => self.drain(socket, counters),
        }
        true
    }

    /// Datagrams waiting now, and the most that ever did.
    pub(super) fn len(&self) -> (usize, usize) {
        let waiting = self.waiting();
        (waiting.datagrams.len(), waiting.len_high_water)
    }

    /// How many datagrams may wait.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// From now on this thread does not send what it queues, until the guard
    /// [sends](PutOff::send) it or is dropped, or a whole batch waits.
    pub(super) fn put_off<'a>(
        &'a self,
        socket: &'a UdpSocket,
        counters: &'a SocketCounters,
    ) -> PutOff<'a> {
        PUT_OFF.set(self.address());
        PutOff {
            queue: self,
            socket,
            counters,
        }
    }

    fn queue(&self, outgoing: Outgoing) -> Queued {
        let mut waiting = self.waiting();
        if waiting.datagrams.len() >= self.capacity {
            return Queued::Full;
        }
        waiting.datagrams.push_back(outgoing);
        waiting.len_high_water = waiting.len_high_water.max(waiting.datagrams.len());
        if PUT_OFF.get() == self.address() && waiting.datagrams.len() < BATCH_LEN {
            return Queued::PutOff;
        }
        waiting.take_turn()
    }

    /// What tells this queue from others as long as it lives.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn drain(&self, socket: &UdpSocket, counters: &SocketCounters) {
        let mut batch = lock(&self.batch);
        let sender = SocketSender { socket, counters };
        while self.take_batch(&mut batch) {
            sender.send(&batch);
            batch.clear();
        }
    }

    /// Moves the next datagrams into `batch`; when there are none, sending has
    /// ended before the lock is free again, so none is forgotten.
    fn take_batch(&self, batch: &mut Vec<Outgoing>) -> bool {
        let mut waiting = self.waiting();
        let len = waiting.datagrams.len().min(BATCH_LEN);
        batch.extend(waiting.datagrams.drain(..len));
        waiting.sending = len > 0;
        len > 0
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }
}

impl Waiting {
    /// Whose turn it is to send.
    fn take_turn(&mut self) -> Queued {
        match std::mem::replace(&mut self.sending, true) {
            true => Queued::Theirs,
            false => Queued::Ours,
        }
    }
}

/// What its thread queues is put off, for as long as it lives.
pub(super) struct PutOff<'a> {
    queue: &'a SendQueue,
    socket: &'a UdpSocket,
    counters: &'a SocketCounters,
}

impl PutOff<'_> {
    /// Sends what waits, unless another thread is sending.
    pub(super) fn send(&self) {
        let mut waiting = self.queue.waiting();
        if waiting.datagrams.is_empty() {
            return;
        }
        let turn = waiting.take_turn();
        drop(waiting);
        if let Queued::Ours = turn {
            self.queue.drain(self.socket, self.counters);
        }
    }
}

impl Drop for PutOff<'_> {
    fn drop(&mut self) {
        PUT_OFF.set(0);
        self.send();
    }
}

enum Queued {
    /// There was no room.
    Full,
    /// Another thread is sending and will take it along.
    Theirs,
    /// Nobody was sending: the caller must.
    Ours,
    /// The thread sends it a little later.
    PutOff,
}

/// The socket, for as long as one thread drains the queue.
struct SocketSender<'a> {
    socket: &'a UdpSocket,
    counters: &'a SocketCounters,
}

impl SocketSender<'_> {
    /// Sends the whole batch; a datagram that the kernel refuses is counted and passed over.
    fn send(&self, mut batch: &[Outgoing]) {
        while let Some(first) = batch.first() {
            let done = match self.send_some(batch) {
                Ok(count) => self.count(batch, count),
                Err(Errno::EINTR) => 0,
                Err(error) => self.pass_over(first, error),
            };
            batch = batch.get(done..).unwrap_or_default();
        }
    }

    /// Sends as many of the first ones as the kernel takes in one call; an error is
    /// about the first one.
    fn send_some(&self, batch: &[Outgoing]) -> nix::Result<usize> {
        match of_same_address(batch) {
            [one] if one.from.is_none() => self.send_one(one),
            several @ [first, ..] => match first.from {
                None => HEADERS
                    .with_borrow_mut(|headers| self.send_several(several, headers, NO_MESSAGES)),
                Some(from) => self.send_from(from, several),
            },
            [] => Ok(0),
        }
    }

    fn send_from(&self, from: IpAddr, batch: &[Outgoing]) -> nix::Result<usize> {
        let from = SentFrom::new(from);
        let mut headers = MultiHeaders::preallocate(batch.len(), Some(from.space()));
        self.send_several(batch, &mut headers, &[from.message()])
    }

    fn send_one(&self, one: &Outgoing) -> nix::Result<usize> {
        let sent = self.socket.send_to(&one.payload, one.to);
        sent.map(|_| 1)
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))
    }

    fn send_several(
        &self,
        batch: &[Outgoing],
        headers: &mut MultiHeaders<SockaddrStorage>,
        messages: &[ControlMessage<'_>],
    ) -> nix::Result<usize> {
        let slices: Vec<[IoSlice<'_>; 1]> = batch
            .iter()
            .map(|one| [IoSlice::new(&one.payload)])
            .collect();
        let addresses: Vec<Option<SockaddrStorage>> =
            batch.iter().map(|one| Some(one.to.into())).collect();
        let sent = sendmmsg(
            self.socket.as_raw_fd(),
            headers,
            &slices,
            &addresses,
            messages,
            MsgFlags::empty(),
        )?;
        Ok(sent.count())
    }

    fn count(&self, batch: &[Outgoing], count: usize) -> usize {
        let sent = batch.iter().take(count);
        add(&self.counters.send_calls, 1);
        add(&self.counters.sent, count);
        add(
            &self.counters.sent_bytes,
            sent.map(|one| one.payload.len()).sum(),
        );
        count
    }

    fn pass_over(&self, refused: &Outgoing, error: Errno) -> usize {
        add(&self.counters.send_errors, 1);
        tracing::debug!(to = %refused.to, %error, "a datagram could not be sent");
        1
    }
}

/// The first ones that are sent from the same address of ours.
fn of_same_address(batch: &[Outgoing]) -> &[Outgoing] {
    let from = batch.first().and_then(|first| first.from);
    let len = batch.iter().take_while(|one| one.from == from).count();
    batch.get(..len).unwrap_or(batch)
}

const NO_MESSAGES: &[ControlMessage<'static>] = &[];

thread_local! {
    /// The queue for which this thread puts sending off; 0 for none.
    static PUT_OFF: Cell<usize> = const { Cell::new(0) };
    /// Room for one call's headers; it holds raw pointers, so each thread has its own.
    static HEADERS: RefCell<MultiHeaders<SockaddrStorage>> =
        RefCell::new(MultiHeaders::preallocate(BATCH_LEN, None));
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour::buffer::BufferPool;

    #[test]
    fn a_full_queue_refuses_and_the_first_to_queue_must_send() {
        let buffers = BufferPool::builder().build().unwrap();
        let queue = SendQueue::new(2);
        let outgoing = || Outgoing {
            to: SocketAddr::from(([127, 0, 0, 1], 9)),
            from: None,
            payload: buffers.copy_from(b"x").unwrap(),
        };
        assert!(matches!(queue.queue(outgoing()), Queued::Ours));
        assert!(matches!(queue.queue(outgoing()), Queued::Theirs));
        assert!(matches!(queue.queue(outgoing()), Queued::Full));
        assert_eq!(queue.len(), (2, 2));

        let mut batch = Vec::new();
        assert!(queue.take_batch(&mut batch));
        assert!(matches!(queue.queue(outgoing()), Queued::Theirs));
        assert!(queue.take_batch(&mut batch));
        assert!(
            !queue.take_batch(&mut batch),
            "sending ends with an empty queue"
        );
        assert!(matches!(queue.queue(outgoing()), Queued::Ours));
    }

    #[test]
    fn what_is_put_off_is_sent_together_in_order_by_the_thread_or_by_another() {
        let buffers = BufferPool::builder().build().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (queue, counters) = (SendQueue::new(100), SocketCounters::default());
        let send = |text: &[u8]| {
            let outgoing = Outgoing {
                to: peer.local_addr().unwrap(),
                from: None,
                payload: buffers.copy_from(text).unwrap(),
            };
            assert!(queue.send(&socket, &counters, outgoing));
        };
        let received = || {
            let mut bytes = [0; 8];
            let length = peer.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..length]).into_owned()
        };
        let put_off = queue.put_off(&socket, &counters);
        send(b"1");
        send(b"2");
        assert_eq!(queue.len().0, 2);
        put_off.send();
        assert_eq!((received(), received()), ("1".into(), "2".into()));
        assert_eq!(counters.read().send_calls, 1);

        send(b"3");
        std::thread::scope(|scope| scope.spawn(|| send(b"4")).join().unwrap());
        assert_eq!((received(), received()), ("3".into(), "4".into()));
        send(b"5");
        drop(put_off);
        assert_eq!(received(), "5");
        send(b"6");
        assert_eq!((received(), queue.len().0), ("6".into(), 0));
    }

    #[test]
    fn a_whole_batch_is_not_put_off() {
        let buffers = BufferPool::builder().build().unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (queue, counters) = (SendQueue::new(1000), SocketCounters::default());
        let _put_off = queue.put_off(&socket, &counters);
        for count in 1..=BATCH_LEN {
            let outgoing = Outgoing {
                to: socket.local_addr().unwrap(),
                from: None,
                payload: buffers.copy_from(b"x").unwrap(),
            };
            assert!(queue.send(&socket, &counters, outgoing));
            assert_eq!(queue.len().0, count % BATCH_LEN);
        }
    }
}
