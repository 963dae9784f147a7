//! The memory of an idle contact, counted in bytes. If many contacts end at one
//! instant, all of them end. What a search for devices takes, until five minutes after the last one, and what a page: with
//! `BUSYHOUR_TEST_SCALE=23 cargo test --release -p busyhour-server --test contact_memory -- --nocapture`
//! there are a million devices, and it prints the processor time of a page. Then a contact takes 300 bytes at most, where the few of `make test`
//! take 320, since they leave the table emptier.

#[path = "support/exchange.rs"]
mod exchange;

use allocation_counter::measure;
use busyhour::runtime::Runtime;
use busyhour_server::server::{
    Authentication, DeviceOrder, DevicePage, DeviceQuery, Server, ServerConfig,
};
use busyhour_store::MemoryStore;
use exchange::Silent;
use std::{sync::Arc, time::Duration};

#[test]
fn a_contact_takes_300_bytes_at_most_which_are_returned_at_its_end() {
    let world = World::new();
    world.register(0);
    let more = measure(|| (1..4).for_each(|batch| world.register(batch)));
    let many = many();
    let each = more.bytes_current / i64::from(3 * many);
    println!("{each} bytes each");
    // With a million the shards of the table are fuller.
    let most = if many > 250_000 { 300 } else { 320 };
    assert!((100..=most).contains(&each), "{each} bytes each");
    let stats = world.server.stats();
    assert_eq!(stats.registrar.binding_count, u64::from(4 * many));
    look_at_pages(&world);

    let end = measure(|| world.pass(LIFE));
    let stats = world.server.stats();
    assert_eq!(stats.registrar.expired, u64::from(4 * many));
    assert_eq!(stats.registrar.binding_count, 0);
    assert_eq!(stats.registrar.device_count, 0);
    let back = -end.bytes_current / i64::from(4 * many);
    // The tables themselves stay allocated.
    assert!(back > each / 2, "{back} of {each} bytes were returned");
}

/// Whoever searches first makes rows, which end some time after the last search. However many devices there are, a page
/// takes no more memory.
fn look_at_pages(world: &World) {
    let server = &world.server;
    let first = DeviceQuery {
        limit: 100,
        ..DeviceQuery::default()
    };
    let by = |order, is_descending| DeviceQuery {
        order,
        is_descending,
        ..first.clone()
    };
    let search = DeviceQuery {
        text: Some("DEVICE1234@".into()),
        ..first.clone()
    };
    let queries = [
        ("by address", first.clone()),
        ("last ones by address", by(DeviceOrder::Aor, true)),
        ("by user agent", by(DeviceOrder::UserAgent, false)),
        ("by their end", by(DeviceOrder::Expires, false)),
        ("searched", search),
    ];
    let rows = measure(|| drop(server.find_devices(&first)));
    let each = rows.bytes_current / i64::from(4 * many());
    println!("{each} bytes for the row of each");
    assert!(
        (100..220).contains(&each),
        "{each} bytes for the row of each"
    );
    let stats = server.stats().device_index;
    assert_eq!(stats.row_count, u64::from(4 * many()));
    let uncounted = rows.bytes_current - stats.row_bytes as i64;
    assert!(uncounted.abs() < 1 << 20, "{stats:?} of {rows:?}");
    for (name, query) in queries {
        let (mut page, begun) = (DevicePage::default(), processor_ns());
        let taken = measure(|| page = server.find_devices(&query));
        let spent_ms = (processor_ns() - begun) / 1_000_000;
        println!(
            "{name}: {} of {} devices in {spent_ms} ms of a processor, with at most {} KiB",
            page.devices.len(),
            page.match_count,
            taken.bytes_max / 1024,
        );
        let wanted = if query.text.is_some() { 1 } else { 100 };
        assert_eq!(page.devices.len(), wanted, "{name}");
        assert!(taken.bytes_max < 1 << 20, "{name}: {taken:?}");
    }
    let end = measure(|| world.pass(Duration::from_secs(301)));
    assert_eq!(server.stats().device_index.row_bytes, 0);
    assert!(-end.bytes_current > rows.bytes_current / 2, "{end:?}");
}

/// How long this thread has run.
fn processor_ns() -> u64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    spent.split(' ').next().unwrap().parse().unwrap()
}

/// A server in virtual time whose messages no one receives.
struct World {
    runtime: Runtime,
    server: Server,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::simulated(1);
        let config = ServerConfig {
            domains: vec!["busyhour.test".to_owned()],
            authentication: Authentication::Open,
            ..ServerConfig::default()
        };
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, Arc::new(Silent), store).unwrap();
        Self { runtime, server }
    }

    /// Registers a batch some time after the last one, so that both end together.
    /// When it returns, no answer is kept for retransmissions any more.
    fn register(&self, batch: u32) {
        let life = LIFE - PAUSE * batch;
        for number in batch * many()..(batch + 1) * many() {
            let text = register(number, life);
            let datagram = self.runtime.buffers().copy_from(text.as_bytes()).unwrap();
            let local = "192.0.2.1:5060".parse().unwrap();
            self.server
                .message(busyhour_sip::Flow::udp(local, address(number)), &datagram);
            self.runtime.simulation().unwrap().run_until_idle();
        }
        self.pass(PAUSE);
    }

    fn pass(&self, time: Duration) {
        self.runtime.simulation().unwrap().run_for(time);
    }
}

fn address(number: u32) -> std::net::SocketAddr {
    let [_, b, c, d] = number.to_be_bytes();
    ([10, b, c, d], 5060).into()
}

fn register(number: u32, life: Duration) -> String {
    let (address, life_s) = (address(number), life.as_secs());
    format!(
        "REGISTER sip:busyhour.test SIP/2.0\r\n\
         Via: SIP/2.0/UDP {address};branch=z9hG4bK{number};rport\r\n\
         From: <sip:device{number}@busyhour.test>;tag=f1\r\n\
         To: <sip:device{number}@busyhour.test>\r\n\
         Call-ID: {number:016x}@busyhour.test\r\n\
         CSeq: 1 REGISTER\r\n\
         Contact: <sip:device{number}@{address}>\r\n\
         User-Agent: phone 1.0\r\n\
         Expires: {life_s}\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// A quarter of all contacts. In each part of the server's table these are more
/// than one expiry handles.
fn many() -> u32 {
    let scale = std::env::var("BUSYHOUR_TEST_SCALE");
    11_000 * scale.map_or(1, |scale| scale.parse().expect("a whole number"))
}

const LIFE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_secs(60);
