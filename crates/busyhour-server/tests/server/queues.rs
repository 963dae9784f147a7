//! What the server says of its own queues.

use super::{Fixture, client, local, log_lines::LogLines, open_config, register};
use busyhour::{buffer::Buffer, runtime::Runtime};
use busyhour_server::server::{
    Limits, Network, QueueKindStats, QueueView, SendError, Server, ServerConfig,
};
use busyhour_sip::Flow;
use busyhour_store::{DiskBehaviour, SimulatedDisk};
use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

impl Fixture {
    /// Leaves a registration to its device's strand, which does not run it yet.
    fn leave(&self, cseq: u32) {
        let request = register(cseq, "Contact: <sip:a@192.0.2.7>");
        let request = self.runtime.buffers().copy_from(request.as_bytes());
        let flow = Flow::udp(local(), client());
        self.server.message(flow, &request.unwrap());
    }

    fn queues_of(&self, kind: &str) -> Vec<QueueView> {
        of_kind(self.server.queues(), kind)
    }

    fn kind_stats(&self, name: &str) -> QueueKindStats {
        let queues = self.stats().queues;
        *queues.iter().find(|kind| kind.name == name).unwrap()
    }
}

fn of_kind(mut queues: Vec<QueueView>, kind: &str) -> Vec<QueueView> {
    queues.retain(|queue| queue.kind == kind);
    queues
}

#[test]
fn every_kind_of_serializer_has_watermarks_and_a_strand_tells_that_it_is_above() {
    let server = Fixture::with(ServerConfig {
        limits: Limits {
            device_queue_max: 100,
            ..Limits::default()
        },
        ..open_config()
    });
    for kind in ["strand", "expiry", "watcher", "hint", "iax2"] {
        let [all] = &server.queues_of(kind)[..] else {
            panic!("nothing is busy: {:?}", server.queues_of(kind));
        };
        assert_eq!((&*all.name, all.is_high), ("all", Some(false)), "{kind}");
        assert!(all.low_watermark < all.high_watermark, "{kind}");
    }
    let high = server.kind_stats("strand").high_watermark as u32;
    (1..high).for_each(|cseq| server.leave(cseq));
    assert_eq!(server.kind_stats("strand").high_count, 0);
    server.leave(high);
    let clock = server.runtime.clock().as_virtual().unwrap();
    clock.advance(Duration::from_secs(2));

    let strands = server.queues_of("strand");
    let [all, busiest] = &strands[..] else {
        panic!("one is busy: {strands:?}");
    };
    assert!(busiest.name.parse::<u32>().is_ok(), "{busiest:?}");
    for queue in [all, busiest] {
        assert_eq!(queue.queued_len, u64::from(high));
        assert_eq!(queue.is_high, Some(true));
        assert_eq!(queue.oldest_waiting_ns, Some(2_000_000_000));
    }
    let pool = &server.queues_of("pool")[0];
    assert_eq!(
        pool.oldest_waiting_ns,
        Some(2_000_000_000),
        "it waits for a worker"
    );
    let kind = server.kind_stats("strand");
    assert_eq!((kind.alerts_raised, kind.high_count), (1, 1));

    server.simulation().run_until_idle();
    let kind = server.kind_stats("strand");
    assert_eq!((kind.alerts_raised, kind.high_count), (1, 0), "it is over");
    let [all] = &server.queues_of("strand")[..] else {
        panic!("nothing is busy");
    };
    assert_eq!((all.queued_len, all.is_high), (0, Some(false)));
}

/// The lines about queues since the last call, without their times.
fn long_queues(log: &LogLines) -> Vec<String> {
    let text = log.take();
    let lines = text.lines().filter_map(|line| line.split_once(" a queue "));
    lines.map(|(_, fields)| fields.to_owned()).collect()
}

#[test]
fn a_queue_that_becomes_too_long_is_a_line_of_the_log_and_its_end_is_none() {
    let server = Fixture::with(ServerConfig {
        limits: Limits {
            device_queue_max: 100,
            ..Limits::default()
        },
        ..open_config()
    });
    let log = LogLines::default();
    let _logged = log.keep();
    let high = server.kind_stats("strand").high_watermark as u32;
    let mut cseq = 0;
    let mut overload = |count: u32| {
        for _ in 0..count {
            (0..high).for_each(|_| {
                cseq += 1;
                server.leave(cseq);
            });
            server.simulation().run_until_idle();
        }
    };
    overload(1);
    let told = long_queues(&log);
    assert_eq!(told.len(), 1, "{told:?}");
    let fields = format!(" waiting={high} oldest_waiting_ms=0 running=");
    assert!(
        told[0].starts_with("is too long queue=strand #") && told[0].contains(&fields),
        "{told:?}"
    );
    // At most ten lines a minute; the next one says how many were left out.
    overload(14);
    assert_eq!(long_queues(&log).len(), 9);
    let clock = server.runtime.clock().as_virtual().unwrap();
    clock.advance(Duration::from_secs(60));
    overload(1);
    let told = long_queues(&log);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with(" left_out=5"), "{told:?}");
    server.simulation().run_for(Duration::from_secs(2));
    assert_eq!(long_queues(&log).len(), 0, "each is told once");
    // Alerts that end are not delivered, only that their keys have left the cache.
    let subscriptions = server.runtime.queue_alerts().subscriptions();
    assert_eq!((subscriptions[0].delivered, subscriptions[0].lost), (32, 0));
}

/// Asks the server for its strands whenever it sends something.
#[derive(Default)]
struct Asking {
    server: OnceLock<Server>,
    strands: Mutex<Vec<QueueView>>,
}

impl Network for Asking {
    fn send(&self, _flow: Flow, _datagram: Buffer) -> Result<(), SendError> {
        if let Some(server) = self.server.get() {
            let clock = server.runtime().clock().as_virtual().unwrap();
            clock.advance(Duration::from_millis(5));
            let strands = of_kind(server.queues(), "strand");
            self.strands.lock().unwrap().extend(strands);
        }
        Ok(())
    }
}

#[test]
fn a_strand_tells_what_runs_on_it_and_for_how_long() {
    let runtime = Runtime::simulated(1);
    let network = Arc::new(Asking::default());
    let disk = SimulatedDisk::new(1, DiskBehaviour::default());
    let store = Box::new(disk.open(runtime.clock().clone()));
    let server = Server::start(runtime.clone(), open_config(), network.clone(), store).unwrap();
    assert!(network.server.set(server.clone()).is_ok());
    // A query changes nothing, so it is answered at once.
    for (cseq, headers, label) in [
        (1, "Contact: <sip:a@192.0.2.7>", "commit"),
        (2, "X: y", "request"),
    ] {
        let request = register(cseq, headers);
        let request = runtime.buffers().copy_from(request.as_bytes()).unwrap();
        server.message(Flow::udp(local(), client()), &request);
        let simulation = runtime.simulation().unwrap();
        simulation.run_until_idle();
        while let Some(due) = disk.next_due() {
            simulation.run_until(due);
            disk.run_due();
            simulation.run_until_idle();
        }
        let strands = std::mem::take(&mut *network.strands.lock().unwrap());
        assert_eq!(strands.len(), 2, "{strands:?}");
        for strand in &strands {
            assert_eq!(strand.running.as_deref(), Some(label), "{strands:?}");
            assert_eq!(strand.running_for_ns, Some(5_000_000));
        }
    }
}
