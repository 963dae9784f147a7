//! A bad network between clients and the server: it loses, duplicates and
//! delays datagrams in both directions, so that later ones overtake earlier
//! ones.

use super::random::Random;
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{setsockopt, sockopt},
};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Passes datagrams between each client and the server until it is dropped.
pub struct Relay {
    shared: Arc<Shared>,
    /// Of each line, that for the client and that for the server.
    addresses: Vec<(SocketAddr, SocketAddr)>,
    thread: Option<JoinHandle<()>>,
}

/// What happens to the datagrams in each direction, in percent of them.
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    pub lost_percent: usize,
    pub doubled_percent: usize,
    /// Datagrams that come up to [`DELAY_MAX`] later, so that others overtake them.
    pub delayed_percent: usize,
}

/// Counts of what happened to the datagrams.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fates {
    pub passed: u64,
    pub lost: u64,
    pub doubled: u64,
    pub delayed: u64,
    /// Datagrams for the server that were lost because there was no server.
    pub unreachable: u64,
    /// Datagrams that were passed to the server since it was last opened.
    pub to_server: u64,
}

struct Shared(Mutex<State>);

struct State {
    is_over: bool,
    /// Whether there is a server.
    is_open: bool,
    faults: Faults,
    random: Random,
    fates: Fates,
    /// Datagrams on their way, by their time of arrival.
    air: BinaryHeap<Reverse<Datagram>>,
    count: u64,
}

/// Ordered by the time of arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    due: Instant,
    number: u64,
    line: usize,
    is_to_server: bool,
    bytes: Vec<u8>,
}

/// The two sockets of one client.
struct Line {
    client_side: UdpSocket,
    /// Known after its first datagram.
    client: Option<SocketAddr>,
    server_side: UdpSocket,
}

impl Relay {
    /// Makes a relay for `clients` clients; it is closed at first.
    pub fn start(server: SocketAddr, clients: usize, faults: Faults, random: Random) -> Self {
        let lines: Vec<Line> = (0..clients).map(|_| Line::to(server)).collect();
        let address = |socket: &UdpSocket| socket.local_addr().unwrap();
        let both = |line: &Line| (address(&line.client_side), address(&line.server_side));
        let addresses = lines.iter().map(both).collect();
        let state = State {
            is_over: false,
            is_open: false,
            faults,
            random,
            fates: Fates::default(),
            air: BinaryHeap::new(),
            count: 0,
        };
        let shared = Arc::new(Shared(Mutex::new(state)));
        let working = shared.clone();
        let thread = thread::spawn(move || working.run(lines));
        Self {
            shared,
            addresses,
            thread: Some(thread),
        }
    }

    /// The address to which a client sends instead of the server's.
    pub fn address(&self, client: usize) -> SocketAddr {
        self.addresses[client].0
    }

    /// The address from which the server hears a client.
    pub fn address_for_server(&self, client: usize) -> SocketAddr {
        self.addresses[client].1
    }

    /// There is a server now; datagrams that are passed to it are counted from
    /// now on.
    pub fn open(&self) {
        let mut state = self.shared.lock();
        state.is_open = true;
        state.fates.to_server = 0;
    }

    /// There is no server now; datagrams on their way are lost.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        state.is_open = false;
        state.fates.unreachable += state.air.len() as u64;
        state.air.clear();
    }

    /// From now on these faults happen.
    pub fn set_faults(&self, faults: Faults) {
        self.shared.lock().faults = faults;
    }

    pub fn fates(&self) -> Fates {
        self.shared.lock().fates
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.thread.take().map(JoinHandle::join);
    }
}

impl Faults {
    pub const NONE: Self = Self {
        lost_percent: 0,
        doubled_percent: 0,
        delayed_percent: 0,
    };
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panicked with the lock")
    }

    fn run(&self, mut lines: Vec<Line>) {
        let mut room = vec![0; 65536];
        loop {
            let mut is_idle = true;
            for number in 0..lines.len() {
                for is_to_server in [true, false] {
                    is_idle &= !self.take_all(&mut lines, number, is_to_server, &mut room);
                }
            }
            let mut state = self.lock();
            if state.is_over {
                return;
            }
            let next_due = state.deliver(&lines, Instant::now());
            drop(state);
            if is_idle {
                wait(&lines, next_due);
            }
        }
    }

    /// Reads all waiting datagrams of one side of a line; returns `false` if
    /// there are none.
    fn take_all(
        &self,
        lines: &mut [Line],
        number: usize,
        to_server: bool,
        room: &mut [u8],
    ) -> bool {
        let line = &mut lines[number];
        let mut some = false;
        for _ in 0..BATCH {
            let taken = match to_server {
                true => line.client_side.recv_from(room).map(|(count, from)| {
                    line.client = Some(from);
                    count
                }),
                // A datagram to a server that has ended is refused here.
                false => line.server_side.recv(room),
            };
            let Ok(count) = taken else {
                break;
            };
            some = true;
            self.lock().enqueue(number, to_server, &room[..count]);
        }
        some
    }
}

impl State {
    fn enqueue(&mut self, line: usize, is_to_server: bool, bytes: &[u8]) {
        let faults = self.faults;
        if self.random.below(100) < faults.lost_percent {
            self.fates.lost += 1;
            return;
        }
        let is_doubled = self.random.below(100) < faults.doubled_percent;
        self.fates.doubled += u64::from(is_doubled);
        for _ in 0..1 + usize::from(is_doubled) {
            let due = Instant::now() + self.delay(faults);
            self.count += 1;
            self.air.push(Reverse(Datagram {
                due,
                number: self.count,
                line,
                is_to_server,
                bytes: bytes.to_vec(),
            }));
        }
    }

    fn delay(&mut self, faults: Faults) -> Duration {
        if self.random.below(100) >= faults.delayed_percent {
            return Duration::ZERO;
        }
        self.fates.delayed += 1;
        let most = DELAY_MAX.as_micros() as usize;
        Duration::from_micros(self.random.below(most) as u64)
    }

    /// Delivers the datagrams that are due; returns when the next one will be.
    fn deliver(&mut self, lines: &[Line], now: Instant) -> Option<Instant> {
        while let Some(Reverse(next)) = self.air.peek() {
            if next.due > now {
                return Some(next.due);
            }
            if let Some(Reverse(datagram)) = self.air.pop() {
                self.hand_over(&lines[datagram.line], &datagram);
            }
        }
        None
    }

    fn hand_over(&mut self, line: &Line, datagram: &Datagram) {
        if !self.is_open {
            self.fates.unreachable += 1;
            return;
        }
        let sent = match (datagram.is_to_server, line.client) {
            (true, _) => line.server_side.send(&datagram.bytes),
            (false, Some(client)) => line.client_side.send_to(&datagram.bytes, client),
            (false, None) => return,
        };
        match sent {
            Ok(_) => {
                self.fates.passed += 1;
                self.fates.to_server += u64::from(datagram.is_to_server);
            }
            Err(_) => self.fates.unreachable += 1,
        }
    }
}

impl Line {
    fn to(server: SocketAddr) -> Self {
        let server_side = socket();
        server_side.connect(server).expect("loopback");
        Self {
            client_side: socket(),
            client: None,
            server_side,
        }
    }
}

/// A socket that never blocks, with large buffers.
pub fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_nonblocking(true).expect("a socket");
    let forced = setsockopt(&socket, sockopt::RcvBufForce, &ROOM_BYTES);
    // A user other than root gets the buffers that the system allows.
    if forced.is_err() {
        setsockopt(&socket, sockopt::RcvBuf, &ROOM_BYTES).expect("a socket");
    }
    socket
}

/// Waits until a datagram comes, or until the given time.
pub fn wait_for_any(sockets: &[&UdpSocket], until: Option<Instant>) -> io::Result<()> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let timeout = left.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
    let mut polled: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
        .collect();
    poll(
        &mut polled,
        PollTimeout::from(timeout.as_millis() as u16 + 1),
    )?;
    Ok(())
}

fn wait(lines: &[Line], until: Option<Instant>) {
    let sides = lines
        .iter()
        .flat_map(|line| [&line.client_side, &line.server_side]);
    let sides: Vec<&UdpSocket> = sides.collect();
    wait_for_any(&sides, until).expect("valid sockets");
}

/// Short in comparison with the time for which answers are kept for
/// retransmissions.
const DELAY_MAX: Duration = Duration::from_millis(100);
const BATCH: usize = 64;
const ROOM_BYTES: usize = 16 << 20;
const LONGEST_WAIT: Duration = Duration::from_millis(10);
