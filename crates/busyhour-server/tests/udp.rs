//! Real UDP sockets on loopback: order, sizes, budgets, errors and shutdown.

use busyhour::{
    buffer::{Buffer, BufferPool},
    pool::TaskPool,
};
use busyhour_server::{
    net::{BATCH_LEN, Datagram, Udp, UdpOptions},
    server::{Network, ReadMode, SendError},
};
use busyhour_sip::Flow;
use std::{
    collections::HashSet,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

const LOOPBACK: &str = "127.0.0.1:0";
/// A limit that only a hang reaches.
const HANG: Duration = Duration::from_secs(60);

struct Fixture {
    udp: Udp,
    buffers: BufferPool,
    arrivals: Receiver<Datagram>,
}

fn fixture(budget_bytes: u64) -> Fixture {
    let buffers = BufferPool::builder()
        .budget_bytes(budget_bytes)
        .build()
        .unwrap();
    let udp = Udp::bind(&UdpOptions::new([LOOPBACK.parse().unwrap()])).unwrap();
    let (arrived, arrivals) = channel();
    let deliver = move |datagram| drop(arrived.send(datagram));
    udp.start(&buffers, &pool(), deliver, || ReadMode::All)
        .unwrap();
    Fixture {
        udp,
        buffers,
        arrivals,
    }
}

fn pool() -> TaskPool {
    TaskPool::builder().workers(1).build().unwrap()
}

impl Fixture {
    fn address(&self) -> SocketAddr {
        self.udp.addresses()[0]
    }

    fn next(&self) -> Datagram {
        self.arrivals.recv_timeout(HANG).expect("a datagram")
    }
}

fn flow(local: SocketAddr, remote: SocketAddr) -> Flow {
    Flow::udp(local, remote)
}

fn client() -> UdpSocket {
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket
}

#[test]
fn the_queues_show_what_waits_in_the_kernel() {
    let udp = Udp::bind(&UdpOptions::new([LOOPBACK.parse().unwrap()])).unwrap();
    let here = udp.addresses()[0];
    let to_read = || udp.queues().swap_remove(0);
    assert_eq!(to_read().name, format!("SIP {here} to read"));
    assert_eq!(to_read().queued_bytes, Some(0));
    // Nobody reads before the start.
    client().send_to(&[b'x'; 500], here).unwrap();
    while to_read().queued_bytes < Some(500) {
        thread::yield_now();
    }
    let (arrived, arrivals) = channel();
    let deliver = move |datagram: Datagram| _ = arrived.send(datagram.payload.len());
    let buffers = BufferPool::builder().build().unwrap();
    udp.start(&buffers, &pool(), deliver, || ReadMode::All)
        .unwrap();
    assert_eq!(arrivals.recv_timeout(HANG), Ok(500));
    while to_read().queued_bytes > Some(0) {
        thread::yield_now();
    }
    assert_eq!(to_read().processed, Some(1));
}

#[test]
fn registrations_that_come_too_fast_are_dropped_before_they_wait_and_none_when_that_is_over() {
    drop_registrations(LOOPBACK);
}

#[test]
fn registrations_over_ipv6_are_dropped_as_well() {
    drop_registrations("[::1]:0");
}

fn drop_registrations(address: &str) {
    let udp = Arc::new(Udp::bind(&UdpOptions::new([address.parse().unwrap()])).unwrap());
    let here = udp.addresses()[0];
    let buffers = BufferPool::builder().build().unwrap();
    let (arrived, arrivals) = channel();
    let deliver = move |datagram: Datagram| match datagram.payload.ends_with(b"slow") {
        true => thread::sleep(Duration::from_micros(200)),
        false => drop(arrived.send(datagram)),
    };
    udp.start(&buffers, &pool(), deliver, || ReadMode::All)
        .unwrap();
    let client = UdpSocket::bind(address).unwrap();
    let hangs_at = Instant::now() + HANG;
    let mut dropped_while_short = 0;
    let mut before = udp.stats().kernel_dropped;
    // So many that the filter has dropped them, and not a full buffer.
    while dropped_while_short < 10_000 {
        (0..40).for_each(|_| drop(client.send_to(b"REGISTER slow", here)));
        thread::sleep(Duration::from_millis(1));
        let queue = &udp.queues()[0];
        let is_short = queue.queued_bytes < queue.capacity_bytes.map(|bytes| bytes / 4);
        let dropped = udp.stats().kernel_dropped;
        if is_short {
            dropped_while_short += dropped - before;
        }
        before = dropped;
        assert!(Instant::now() < hangs_at, "{:?}", udp.stats());
    }
    assert!(udp.stats().early_drops_begun > 0);
    // The filter goes when a read has waited in vain.
    while udp.queues()[0].queued_bytes > Some(0) || udp.stats().early_drop_permille_max > 0 {
        assert!(Instant::now() < hangs_at, "{:?}", udp.queues());
        thread::yield_now();
    }
    let count = 100_u8;
    for number in 0..count {
        let register = [&b"REGISTER "[..], &[number]].concat();
        client.send_to(&register, here).unwrap();
    }
    for number in 0..count {
        let datagram = arrivals.recv_timeout(HANG).expect("no REGISTER is dropped");
        assert_eq!(datagram.payload.last(), Some(&number));
    }
}

#[test]
fn datagrams_of_one_sender_arrive_in_order_with_their_source() {
    let fixture = fixture(64 << 20);
    let client = client();
    let count = 3 * BATCH_LEN as u32 + 1;
    for number in 0..count {
        client
            .send_to(&number.to_be_bytes(), fixture.address())
            .unwrap();
    }
    for number in 0..count {
        let datagram = fixture.next();
        assert_eq!(&*datagram.payload, number.to_be_bytes());
        assert_eq!(datagram.flow.remote, client.local_addr().unwrap());
        assert_eq!(datagram.flow.local, fixture.address());
    }
    let stats = fixture.udp.stats();
    assert_eq!(stats.received, u64::from(count));
    assert_eq!(stats.received_bytes, u64::from(count) * 4);
}

#[test]
fn every_length_that_udp_can_carry_arrives_whole() {
    let fixture = fixture(64 << 20);
    let client = client();
    for len in [0, 1, 2047, 2048, 2049, 4096, 65_507] {
        let sent: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        client.send_to(&sent, fixture.address()).unwrap();
        assert_eq!(&*fixture.next().payload, sent, "{len} bytes");
    }
}

#[test]
fn datagrams_beyond_the_budget_are_dropped_and_counted_until_there_is_room() {
    let fixture = fixture(1 << 20);
    let client = client();
    let mut held: Vec<Buffer> = Vec::new();
    while let Ok(buffer) = fixture.buffers.copy_from(&[0; 2048]) {
        held.push(buffer);
    }
    // The receiver has one batch of slots from before; later datagrams find no
    // room.
    while fixture.udp.stats().dropped_no_buffer == 0 {
        client.send_to(b"too much", fixture.address()).unwrap();
        held.extend(fixture.arrivals.try_iter().map(|datagram| datagram.payload));
        thread::yield_now();
    }
    held.clear();
    while fixture.arrivals.try_recv().is_err() {
        client.send_to(b"room again", fixture.address()).unwrap();
        thread::yield_now();
    }
}

#[test]
fn each_datagram_of_many_threads_is_sent_once() {
    let fixture = fixture(64 << 20);
    let receiver = fixture_receiver();
    let to = receiver.local_addr().unwrap();
    const THREADS: u32 = 4;
    const EACH: u32 = 300;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (udp, buffers) = (&fixture.udp, &fixture.buffers);
            scope.spawn(move || {
                for number in 0..EACH {
                    let bytes = (thread * EACH + number).to_be_bytes();
                    let payload = buffers.copy_from(&bytes).unwrap();
                    udp.send(flow(udp.addresses()[0], to), payload).unwrap();
                }
            });
        }
    });
    let mut seen = HashSet::new();
    let mut buffer = [0; 16];
    for _ in 0..THREADS * EACH {
        let len = receiver.recv(&mut buffer).expect("a datagram");
        assert!(seen.insert(buffer[..len].to_vec()), "sent twice");
    }
    let stats = fixture.udp.stats();
    assert_eq!(stats.sent, u64::from(THREADS * EACH));
    assert_eq!(stats.send_queued_len, 0);
    fixture.udp.stop_receiving();
    assert_eq!(fixture.buffers.live_count(), 0, "every pin is released");
}

/// A socket with room for everything that the test sends before it reads.
fn fixture_receiver() -> UdpSocket {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    socket.set_recv_buffer_size(4 << 20).unwrap();
    let address: SocketAddr = LOOPBACK.parse().unwrap();
    socket.bind(&address.into()).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    socket.into()
}

#[test]
fn a_datagram_that_cannot_be_sent_delays_no_other() {
    let fixture = fixture(64 << 20);
    let receiver = client();
    let to = receiver.local_addr().unwrap();
    // The kernel refuses port 0 and another address family.
    for bad in ["127.0.0.1:0", "[::1]:9"] {
        let payload = fixture.buffers.copy_from(b"lost").unwrap();
        let flow = flow(fixture.address(), bad.parse().unwrap());
        fixture.udp.send(flow, payload).unwrap();
    }
    let payload = fixture.buffers.copy_from(b"through").unwrap();
    fixture
        .udp
        .send(flow(fixture.address(), to), payload)
        .unwrap();
    let mut buffer = [0; 16];
    let len = receiver.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..len], b"through");
    assert_eq!(fixture.udp.stats().send_errors, 2);
    assert_eq!(fixture.udp.stats().sent, 1);
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = client();
    let options = UdpOptions::new([taken.local_addr().unwrap()]);
    let error = Udp::bind(&options).err().unwrap().to_string();
    let address = taken.local_addr().unwrap();
    assert!(
        error.starts_with(&format!(
            "SIP address {address} (UDP) cannot be served: the port is in use"
        )),
        "{error}"
    );
}

#[test]
fn an_address_of_another_machine_is_reported() {
    let options = UdpOptions::new(["192.0.2.1:5060".parse().unwrap()]);
    let error = Udp::bind(&options).err().unwrap().to_string();
    assert!(
        error.contains("this machine has no interface with that address"),
        "{error}"
    );
}

/// The names of the threads that process `datagrams` datagrams, which wait when
/// receiving begins.
fn threads_for(datagrams: usize) -> HashSet<String> {
    let (buffers, pool) = (BufferPool::builder().build().unwrap(), pool());
    let udp = Udp::bind(&UdpOptions::new([LOOPBACK.parse().unwrap()])).unwrap();
    for _ in 0..datagrams {
        client().send_to(b"x", udp.addresses()[0]).unwrap();
    }
    let (done, is_done) = channel();
    let workers = pool.clone();
    while pool.stats().idle_worker_count == 0 {
        thread::yield_now();
    }
    let deliver = move |_| {
        let done = done.clone();
        let tell = move || done.send(thread::current().name().unwrap().to_owned());
        workers.push(move || tell().unwrap()).unwrap();
    };
    udp.start(&buffers, &pool, deliver, || ReadMode::All)
        .unwrap();
    (0..datagrams)
        .map(|_| is_done.recv_timeout(HANG).unwrap())
        .collect()
}

#[test]
fn a_few_datagrams_are_processed_by_their_receiver_and_many_by_workers() {
    // An inline run ends after 200 us. If the system has interrupted the receiver for
    // longer, workers do the rest.
    let is_done_here = |few: HashSet<String>| few.iter().eq(["bh-rx-sip-0"]);
    assert!((0..100).any(|_| is_done_here(threads_for(3))));
    let many = threads_for(64);
    assert!(!many.contains("bh-rx-sip-0"), "{many:?}");
}

#[test]
fn both_families_are_served_at_once() {
    let addresses = ["0.0.0.0:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
    let buffers = BufferPool::builder().build().unwrap();
    let udp = Udp::bind(&UdpOptions::new(addresses)).unwrap();
    let (arrived, arrivals) = channel();
    let deliver = move |datagram| drop(arrived.send(datagram));
    udp.start(&buffers, &pool(), deliver, || ReadMode::All)
        .unwrap();
    let v6 = udp.addresses()[1];
    udp.send(flow(v6, v6), buffers.copy_from(b"six").unwrap())
        .unwrap();
    let datagram = arrivals.recv_timeout(HANG).unwrap();
    assert_eq!((datagram.flow.remote, datagram.flow.local), (v6, v6));
}

#[test]
fn sending_still_works_after_receiving_has_stopped() {
    let fixture = fixture(64 << 20);
    fixture.udp.stop_receiving();
    let receiver = client();
    let payload = fixture.buffers.copy_from(b"last words").unwrap();
    let flow = flow(fixture.address(), receiver.local_addr().unwrap());
    fixture.udp.send(flow, payload).unwrap();
    let mut buffer = [0; 16];
    assert_eq!(receiver.recv(&mut buffer).unwrap(), 10);
    assert!(
        fixture.arrivals.recv().is_err(),
        "the receive thread is gone"
    );
    assert_eq!(fixture.buffers.live_count(), 0);
}

#[test]
fn a_flow_without_a_socket_is_refused() {
    let fixture = fixture(64 << 20);
    let elsewhere = "127.0.0.1:1".parse().unwrap();
    let payload = fixture.buffers.copy_from(b"x").unwrap();
    let refused = fixture.udp.send(flow(elsewhere, elsewhere), payload);
    assert_eq!(refused, Err(SendError::NoSocket));
}

#[test]
fn a_panic_over_one_datagram_is_counted_and_the_next_arrives() {
    let buffers = BufferPool::builder().build().unwrap();
    let udp = Udp::bind(&UdpOptions::new([LOOPBACK.parse().unwrap()])).unwrap();
    let (arrived, arrivals) = channel();
    let deliver = move |datagram: Datagram| {
        assert_ne!(&*datagram.payload, b"deadly", "a bug in the program");
        drop(arrived.send(datagram));
    };
    udp.start(&buffers, &pool(), deliver, || ReadMode::All)
        .unwrap();
    let client = client();
    for payload in ["deadly", "one", "deadly", "two"] {
        let sent = client.send_to(payload.as_bytes(), udp.addresses()[0]);
        assert_eq!(sent.unwrap(), payload.len());
    }
    for expected in ["one", "two"] {
        let datagram = arrivals.recv_timeout(HANG).expect("a datagram");
        assert_eq!(&*datagram.payload, expected.as_bytes());
    }
    assert_eq!((udp.stats().panicked, udp.stats().received), (2, 4));
    udp.stop_receiving();
    assert_eq!(
        buffers.live_count(),
        0,
        "the buffer of the dropped datagram is free"
    );
}

/// A handler that says whether it wants datagrams, and counts how often it was
/// asked.
#[derive(Default)]
struct Wanted {
    read_mode: AtomicU32,
    asked: AtomicU32,
}

impl Wanted {
    fn set(&self, read_mode: ReadMode) {
        self.read_mode.store(read_mode as u32, Ordering::SeqCst);
        let before = self.asked.load(Ordering::SeqCst);
        while self.asked.load(Ordering::SeqCst) < before + 3 {
            thread::yield_now();
        }
    }

    fn get(&self) -> ReadMode {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let all = [ReadMode::All, ReadMode::Fresh, ReadMode::Nothing];
        let wanted = self.read_mode.load(Ordering::SeqCst);
        all.into_iter().find(|one| *one as u32 == wanted).unwrap()
    }
}

#[test]
fn datagrams_that_the_handler_does_not_want_wait_in_the_kernel() {
    let buffers = BufferPool::builder().build().unwrap();
    let udp = Udp::bind(&UdpOptions::new([LOOPBACK.parse().unwrap()])).unwrap();
    let (arrived, arrivals) = channel();
    let wanted: Arc<Wanted> = Arc::default();
    wanted
        .read_mode
        .store(ReadMode::Nothing as u32, Ordering::SeqCst);
    let asked = wanted.clone();
    let deliver = move |datagram: Datagram| drop(arrived.send(datagram));
    udp.start(&buffers, &pool(), deliver, move || asked.get())
        .unwrap();
    client().send_to(b"early", udp.addresses()[0]).unwrap();
    wanted.set(ReadMode::Nothing);
    assert!(arrivals.try_recv().is_err());
    wanted
        .read_mode
        .store(ReadMode::Fresh as u32, Ordering::SeqCst);
    let datagram = arrivals.recv_timeout(HANG).expect("there is room again");
    assert_eq!(
        &*datagram.payload, b"early",
        "its time of arrival was not recorded"
    );

    wanted
        .read_mode
        .store(ReadMode::Nothing as u32, Ordering::SeqCst);
    client().send_to(b"to wake it", udp.addresses()[0]).unwrap();
    wanted.set(ReadMode::Nothing);
    udp.stop_receiving();
}
