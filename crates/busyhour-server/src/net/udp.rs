use super::{
    BindError,
    bind::bind,
    local::source_to,
    receive::Receiver,
    send::{Outgoing, SendQueue},
    stats::{SocketCounters, add},
};
use crate::server::{
    CredentialJudgement, Network, NetworkStats, QueueView, ReadMode, SendError, Unread,
};
use busyhour::{
    buffer::{Buffer, BufferPool},
    pool::TaskPool,
};
use busyhour_sip::{Flow, Transport};
use nix::{
    getsockopt_impl, libc, sockopt_impl,
    sys::socket::{Shutdown, getsockopt, shutdown},
};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// The UDP sockets of a server.
///
/// # Examples
///
/// ```
/// use busyhour::{buffer::BufferPool, pool::TaskPool};
/// use busyhour_server::net::{Udp, UdpOptions};
/// use busyhour_sip::Flow;
/// use busyhour_server::server::{Network, ReadMode};
/// use std::sync::mpsc;
///
/// let buffers = BufferPool::builder().build()?;
/// let options = UdpOptions::new(["127.0.0.1:0".parse()?]);
/// let udp = Udp::bind(&options)?;
/// let here = udp.addresses()[0];
///
/// let (arrived, arrivals) = mpsc::channel();
/// let pool = TaskPool::builder().workers(1).build()?;
/// let deliver = move |datagram| drop(arrived.send(datagram));
/// udp.start(&buffers, &pool, deliver, || ReadMode::All)?;
/// let flow = Flow::udp(here, here);
/// udp.send(flow, buffers.copy_from(b"hello")?)?;
/// let datagram = arrivals.recv()?;
/// assert_eq!(&*datagram.payload, b"hello");
/// assert_eq!(datagram.flow, flow);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Udp {
    protocol: &'static str,
    sockets: Vec<Port>,
    addresses: Vec<SocketAddr>,
    /// The receive threads shall end.
    is_stopped: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Which addresses to serve, and with how much room.
#[derive(Debug, Clone)]
pub struct UdpOptions {
    /// The protocol, `SIP` or `IAX2`, for error messages.
    pub protocol: &'static str,
    /// The addresses; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// The kernel's receive buffer of each socket, in bytes.
    pub receive_buffer_bytes: usize,
    /// Datagrams that may wait to be sent on each socket.
    pub send_queue_len_max: usize,
}

/// One received datagram.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// Who sent it, and to which address of ours.
    pub flow: Flow,
    /// Its bytes, pinned where the kernel put them.
    pub payload: Buffer,
}

/// One socket and all that belongs to it.
struct Port {
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    queue: Arc<SendQueue>,
    counters: Arc<SocketCounters>,
}

impl UdpOptions {
    /// SIP with the default room for these addresses: 8 MiB in, 65,536 datagrams out.
    pub fn new(addresses: impl Into<Vec<SocketAddr>>) -> Self {
        Self {
            protocol: "SIP",
            addresses: addresses.into(),
            receive_buffer_bytes: 8 << 20,
            send_queue_len_max: 65_536,
        }
    }
}

impl Udp {
    /// Binds every address; datagrams wait in the kernel until [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// The first address that cannot be served, and why.
    pub fn bind(options: &UdpOptions) -> Result<Self, BindError> {
        let sockets: Vec<Port> = options
            .addresses
            .iter()
            .map(|address| Port::bind(*address, options))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            protocol: options.protocol,
            addresses: sockets.iter().map(|port| port.local).collect(),
            sockets,
            is_stopped: Arc::default(),
            threads: Mutex::default(),
        })
    }

    /// Starts a thread `bh-rx-<protocol>-<n>` for each socket, which calls `deliver`
    /// for each datagram, in the order of arrival at that socket. While little comes in
    /// the thread is an inline runner of `pool` (one of eight) and does itself what
    /// `deliver` pushes there, which must not block: later datagrams wait for it.
    /// `read_mode` is called before each system call: datagrams that it does not want
    /// wait in the kernel, or are dropped there for lack of room, which is the cheapest
    /// way to drop them.
    ///
    /// # Errors
    ///
    /// When the system refuses a thread.
    pub fn start(
        &self,
        buffers: &BufferPool,
        pool: &TaskPool,
        deliver: impl Fn(Datagram) + Send + Sync + 'static,
        read_mode: impl Fn() -> ReadMode + Send + Sync + 'static,
    ) -> io::Result<()> {
        let hooks = Arc::new((deliver, read_mode));
        for (index, port) in self.sockets.iter().enumerate() {
            let receiver = port.receiver(buffers.clone(), self.is_stopped.clone());
            let (pool, hooks) = (pool.clone(), hooks.clone());
            let name = format!("bh-rx-{}-{index}", self.protocol.to_lowercase());
            let thread = thread::Builder::new().name(name);
            let thread = thread.spawn(move || receiver.run(&pool, &hooks.0, &hooks.1))?;
            self.threads().push(thread);
        }
        Ok(())
    }

    /// The addresses in use, in the order asked for, each with the port it got.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Ends the receive threads and waits for them; sending stays possible.
    pub fn stop_receiving(&self) {
        self.is_stopped.store(true, Ordering::Release);
        for port in &self.sockets {
            // A thread that waits for a datagram gets an empty one: Linux does that first, and
            // then says that the socket has no peer.
            let _ = shutdown(port.socket.as_raw_fd(), Shutdown::Read);
        }
        for thread in self.threads().drain(..) {
            // The thread's own panic is already on standard error.
            let _ = thread.join();
        }
    }

    /// Whether this socket receives the datagrams for this local address.
    pub fn serves(&self, local: SocketAddr) -> bool {
        self.port(local).is_some()
    }

    /// The socket of this very address, or the one of all addresses.
    fn port(&self, local: SocketAddr) -> Option<&Port> {
        let sockets = || self.sockets.iter();
        let exact = sockets().find(|port| port.local == local);
        exact.or_else(|| sockets().find(|port| port.is_of_all() && port.includes(local)))
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for Udp {
    /// Queues the datagram. When no other thread is sending, the caller sends it
    /// at once, together with what others queue meanwhile; only a network card
    /// that is megabytes behind can hold it up, for 50 ms a call at most.
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        let port = self.port(flow.local).ok_or(SendError::NoSocket)?;
        port.send(flow, datagram)
    }

    fn note_credentials(&self, flow: Flow, judgement: CredentialJudgement) {
        if let Some(port) = self.port(flow.local) {
            let counter = match judgement {
                CredentialJudgement::Answer => &port.counters.credentials_answering,
                CredentialJudgement::OldAnswer => &port.counters.credentials_of_old_nonces,
                CredentialJudgement::Elsewhere => &port.counters.credentials_elsewhere,
                CredentialJudgement::AcceptedElsewhere => {
                    &port.counters.credentials_accepted_elsewhere
                }
            };
            add(counter, 1);
        }
    }

    /// The socket of the address that the system would send from; else one of all addresses
    /// of that family; else one that is, as that address, of this machine alone or not.
    fn local_to(&self, _transport: Transport, remote: SocketAddr) -> Option<SocketAddr> {
        let ip = source_to(remote).ok()?;
        let sockets = || {
            let sockets = self.sockets.iter();
            sockets.filter(|port| port.local.is_ipv4() == ip.is_ipv4())
        };
        let exact = sockets().find(|port| port.local.ip() == ip);
        if let Some(port) = exact.or_else(|| sockets().find(|port| port.is_of_all())) {
            return Some(SocketAddr::new(ip, port.local.port()));
        }
        let is_loopback = ip.is_loopback();
        let mut others = sockets().map(|port| port.local);
        others.find(|local| local.ip().is_loopback() == is_loopback)
    }

    fn unread(&self) -> Unread {
        let mut sum = Unread::default();
        for port in &self.sockets {
            let one = port.unread();
            sum.waiting += one.waiting;
            sum.read += one.read;
            sum.filled_permille = sum.filled_permille.max(one.filled_permille);
        }
        sum
    }

    /// The sum of all sockets.
    fn stats(&self) -> NetworkStats {
        let mut sum = NetworkStats::default();
        for port in &self.sockets {
            sum += port.stats();
        }
        sum
    }

    fn queues(&self) -> Vec<QueueView> {
        let ports = self.sockets.iter();
        ports.flat_map(|port| port.queues(self.protocol)).collect()
    }
}

impl Drop for Udp {
    fn drop(&mut self) {
        self.stop_receiving();
    }
}

impl Port {
    fn bind(address: SocketAddr, options: &UdpOptions) -> Result<Self, BindError> {
        let socket = bind(address, options)?;
        let local = socket.local_addr().map_err(|source| BindError {
            protocol: options.protocol,
            transport: Transport::Udp,
            address,
            source,
        })?;
        Ok(Self {
            local,
            socket: Arc::new(socket),
            queue: Arc::new(SendQueue::new(options.send_queue_len_max)),
            counters: Arc::default(),
        })
    }

    fn receiver(&self, buffers: BufferPool, is_stopped: Arc<AtomicBool>) -> Receiver {
        Receiver {
            socket: self.socket.clone(),
            local: self.local,
            buffers,
            queue: self.queue.clone(),
            counters: self.counters.clone(),
            is_stopped,
        }
    }

    /// Bound to all addresses.
    fn is_of_all(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    fn includes(&self, local: SocketAddr) -> bool {
        self.local.port() == local.port() && self.local.is_ipv4() == local.is_ipv4()
    }

    fn send(&self, flow: Flow, payload: Buffer) -> Result<(), SendError> {
        let is_told = self.is_of_all() && !flow.local.ip().is_unspecified();
        let outgoing = Outgoing {
            to: flow.remote,
            from: is_told.then(|| flow.local.ip()),
            payload,
        };
        let queued = self.queue.send(&self.socket, &self.counters, outgoing);
        queued.then_some(()).ok_or(SendError::Full)
    }

    fn stats(&self) -> NetworkStats {
        let (len, high_water) = self.queue.len();
        NetworkStats {
            kernel_dropped: self.kernel_dropped(),
            send_queued_len: len as u64,
            send_queued_high_water: high_water as u64,
            ..self.counters.read()
        }
    }

    /// The kernel charges a datagram with the memory that it takes: its bytes and headers, in
    /// a block whose size is a power of two, and a record about it.
    fn unread(&self) -> Unread {
        let stats = self.counters.read();
        let mean_len = stats.received_bytes / stats.received.max(1);
        let charged = (mean_len + HEADERS_LEN).next_power_of_two() + RECORD_LEN;
        let info = getsockopt(&self.socket, MemoryInfo).unwrap_or_default();
        let of_kernel = |index: libc::c_int| {
            let index = usize::try_from(index).unwrap_or(usize::MAX);
            info.get(index).map_or(0, |number| u64::from(*number))
        };
        let used = of_kernel(libc::SK_MEMINFO_RMEM_ALLOC);
        let room = of_kernel(libc::SK_MEMINFO_RCVBUF).max(1);
        Unread {
            waiting: used / charged,
            read: stats.received,
            filled_permille: (used * 1000 / room).min(1000) as u16,
        }
    }

    /// What waits in the kernel to be read, and here to be sent.
    fn queues(&self, protocol: &str) -> [QueueView; 2] {
        let stats = self.stats();
        let of_kernel = |index| self.memory(index).map(u64::from);
        [
            QueueView {
                kind: SOCKET,
                name: format!("{protocol} {} to read", self.local),
                queued_bytes: of_kernel(libc::SK_MEMINFO_RMEM_ALLOC),
                capacity_bytes: of_kernel(libc::SK_MEMINFO_RCVBUF),
                processed: Some(stats.received),
                refused: Some(stats.kernel_dropped),
                ..QueueView::default()
            },
            QueueView {
                kind: SOCKET,
                name: format!("{protocol} {} to send", self.local),
                queued_len: stats.send_queued_len,
                queued_high_water: Some(stats.send_queued_high_water),
                capacity: Some(self.queue.capacity() as u64),
                processed: Some(stats.sent),
                refused: Some(stats.dropped_send_queue),
                ..QueueView::default()
            },
        ]
    }

    /// The kernel's count since the socket was created; 0 if it is not available.
    fn kernel_dropped(&self) -> u64 {
        self.memory(libc::SK_MEMINFO_DROPS).map_or(0, u64::from)
    }

    /// A number of the kernel's account of the socket's memory.
    fn memory(&self, index: libc::c_int) -> Option<u32> {
        let info = getsockopt(&self.socket, MemoryInfo).ok()?;
        info.get(usize::try_from(index).ok()?).copied()
    }
}

sockopt_impl!(
    /// The kernel's account of a socket's memory, one number an index.
    MemoryInfo,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_MEMINFO,
    [u32; 9]
);

const SOCKET: &str = "socket";
/// What Linux adds to the bytes of a datagram on a 64-bit machine: IP, UDP and link headers
/// and `skb_shared_info`; and `sk_buff`.
const HEADERS_LEN: u64 = 384;
const RECORD_LEN: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::stats::read;

    #[test]
    fn credentials_are_counted_at_the_socket_that_they_came_to() {
        let addresses = ["127.0.0.1:0", "127.0.0.1:0"].map(|it| it.parse().unwrap());
        let udp = Udp::bind(&UdpOptions::new(addresses)).unwrap();
        let to = |place: usize| Flow::udp(udp.addresses()[place], udp.addresses()[0]);
        udp.note_credentials(to(1), CredentialJudgement::Answer);
        (0..4).for_each(|_| udp.note_credentials(to(1), CredentialJudgement::OldAnswer));
        udp.note_credentials(to(1), CredentialJudgement::Elsewhere);
        udp.note_credentials(to(1), CredentialJudgement::Elsewhere);
        (0..3).for_each(|_| udp.note_credentials(to(1), CredentialJudgement::AcceptedElsewhere));
        let counts = udp.sockets.iter().map(|port| {
            let counters = &port.counters;
            (
                read(&counters.credentials_answering),
                read(&counters.credentials_of_old_nonces),
                read(&counters.credentials_elsewhere),
                read(&counters.credentials_accepted_elsewhere),
            )
        });
        assert_eq!(counts.collect::<Vec<_>>(), [(0, 0, 0, 0), (1, 4, 2, 3)]);
    }
}
