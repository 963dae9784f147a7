//! The memory of an idle watcher, counted in bytes: a subscription that has been told the state and waits for the next one.

#[path = "support/exchange.rs"]
mod exchange;

use allocation_counter::measure;
use busyhour::runtime::Runtime;
use busyhour_server::server::{Server, ServerConfig};
use busyhour_sip::Flow;
use busyhour_store::MemoryStore;
use exchange::{Sent, ok, open_config};
use std::{net::SocketAddr, sync::Arc, time::Duration};

#[test]
fn a_watcher_takes_1_5_kib_at_most_which_are_returned_at_its_end() {
    for package in ["presence", "dialog", "message-summary"] {
        hold(package, 100, 1_536);
    }
}

/// Then the subscription on the bus is its own as well, and so is the device, which is not registered.
#[test]
fn a_watcher_of_a_device_that_nobody_else_watches_takes_3_700_bytes_at_most() {
    hold("presence", 4 * MANY, 3_700);
}

/// Watchers of so many resources take so many bytes each at most.
fn hold(package: &str, watched: u32, most: i64) {
    let world = World {
        watched,
        ..World::new()
    };
    world.subscribe(package, 0..MANY);
    let more = measure(|| world.subscribe(package, MANY..4 * MANY));
    let each = more.bytes_current / i64::from(3 * MANY);
    println!("{package} of {watched}: {each} bytes each");
    assert!(
        (1_000..=most).contains(&each),
        "{package}: {each} bytes each"
    );
    let watch = world.server.stats().watch;
    assert_eq!(watch.watcher_count, u64::from(4 * MANY));

    let end = measure(|| world.pass(LIFE));
    assert_eq!(world.server.stats().watch.watcher_count, 0);
    let back = -end.bytes_current / i64::from(4 * MANY);
    // The tables themselves stay allocated.
    assert!(back > each / 2, "{back} of {each} bytes were returned");
}

/// A server in virtual time whose watchers answer each NOTIFY.
struct World {
    runtime: Runtime,
    server: Server,
    sent: Arc<Sent>,
    /// Devices that they watch.
    watched: u32,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::simulated(1);
        let sent = Arc::new(Sent::default());
        let store = Box::new(MemoryStore::new());
        let config = ServerConfig {
            domains: vec!["busyhour.test".to_owned()],
            ..open_config()
        };
        let server = Server::start(runtime.clone(), config, sent.clone(), store).unwrap();
        Self {
            runtime,
            server,
            sent,
            watched: 1,
        }
    }

    /// When it returns, no answer is kept for retransmissions any more.
    fn subscribe(&self, package: &str, watchers: std::ops::Range<u32>) {
        for number in watchers {
            self.receive(address(number), &self.request(package, number));
            self.answer();
        }
        self.pass(Duration::from_secs(60));
    }

    fn request(&self, package: &str, number: u32) -> String {
        let (address, watched, life) = (address(number), number % self.watched, LIFE.as_secs());
        format!(
            "SUBSCRIBE sip:device{watched}@busyhour.test SIP/2.0\r\n\
         Via: SIP/2.0/UDP {address};branch=z9hG4bK{number};rport\r\n\
         From: <sip:lamp{number}@busyhour.test>;tag=f1\r\n\
         To: <sip:device{watched}@busyhour.test>\r\n\
         Call-ID: {number:016x}@busyhour.test\r\n\
         CSeq: 1 SUBSCRIBE\r\n\
         Contact: <sip:lamp{number}@{address}>\r\n\
         Event: {package}\r\n\
         User-Agent: phone 1.0\r\n\
         Expires: {life}\r\n\
         Content-Length: 0\r\n\r\n"
        )
    }

    fn answer(&self) {
        for (flow, datagram) in self.sent.take_all() {
            if datagram.starts_with(b"NOTIFY ") {
                let request = std::str::from_utf8(&datagram).unwrap();
                self.receive(flow.remote, &ok(request));
            }
        }
    }

    fn receive(&self, from: SocketAddr, text: &str) {
        let datagram = self.runtime.buffers().copy_from(text.as_bytes()).unwrap();
        let local = "192.0.2.1:5060".parse().unwrap();
        self.server.message(Flow::udp(local, from), &datagram);
        self.runtime.simulation().unwrap().run_until_idle();
    }

    fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs() {
            self.runtime
                .simulation()
                .unwrap()
                .run_for(Duration::from_secs(1));
            self.answer();
        }
    }
}

fn address(number: u32) -> SocketAddr {
    let [_, b, c, d] = number.to_be_bytes();
    ([10, b, c, d], 5060).into()
}

/// A quarter of all watchers of a package.
const MANY: u32 = 2_000;
const LIFE: Duration = Duration::from_secs(1_200);
