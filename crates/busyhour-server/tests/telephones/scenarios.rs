//! sipp calls sipp, by the scenarios of tests/sipp: with hold, with a 200 that crosses a
//! CANCEL, cancelled, and busy; over a good network, over one that doubles datagrams on each
//! side of the server, and over one that loses some as well.

use crate::{
    lamp::Lamp,
    support::{
        Place, ServerProcess,
        ports::free_port,
        random::Random,
        relay::{Faults, Relay},
        sipp::{Calls, Sipp, Transport},
    },
};
use serde_json::Value;
use std::{collections::BTreeMap, net::SocketAddr, thread, time::Duration};

/// Both sides of some calls, and how their records end.
struct Kind {
    name: &'static str,
    status: u64,
    end: &'static str,
}

/// A server, and the calls through it.
struct World {
    server: ServerProcess,
    /// One for each kind of calls, whose first line is the callee's. Without them, the
    /// network is good.
    relays: Vec<Relay>,
    faults: Faults,
    place: Place,
    lamps: Vec<Lamp>,
    running: Vec<Sipp>,
}

#[test]
fn calls_end_as_the_rfc_says_even_if_datagrams_are_doubled_or_lost() {
    let mut worlds = [Faults::NONE, DOUBLING, LOSING].map(World::start);
    for world in &mut worlds {
        world.call();
    }
    for world in worlds {
        world.finish();
    }
}

impl World {
    fn start(faults: Faults) -> Self {
        let place = Place::new();
        let server = place.server(CONFIGURATION);
        let is_bad = faults.doubled_percent > 0;
        let kinds = KINDS.iter().take(if is_bad { KINDS.len() } else { 0 });
        let mut random = Random::new();
        let relays = kinds.map(|_| {
            let relay = Relay::start(server.sip, 2, Faults::NONE, random.fork());
            relay.open();
            relay
        });
        let relays = relays.collect();
        Self {
            server,
            relays,
            faults,
            place,
            lamps: Vec::new(),
            running: Vec::new(),
        }
    }

    /// Registers the callees and starts all calls.
    fn call(&mut self) {
        let ports: Vec<u16> = KINDS.iter().map(|_| free_port()).collect();
        for (index, kind) in KINDS.iter().enumerate() {
            self.register(index, ports[index]);
            if let Some(relay) = self.relays.get(index) {
                relay.set_faults(self.faults);
            }
            for side in ["caller", "callee"] {
                let watched = format!("sip:{}{side}@busyhour.test", kind.name);
                self.lamps.push(Lamp::watch(&self.server, &watched));
            }
            let scenario = format!("{}_callee", kind.name);
            let callee = self.sipp(index, CALLEE, &scenario, ports[index], &[kind.name; CALLS]);
            self.running.push(callee);
        }
        for (index, Kind { name, .. }) in KINDS.iter().enumerate() {
            let injected = format!(
                "{name}caller;[authentication username={name}caller password=secret];{name}callee"
            );
            let scenario = format!("{name}_caller");
            let lines = [injected.as_str(); CALLS];
            let caller = self.sipp(index, CALLER, &scenario, free_port(), &lines);
            self.running.push(caller);
        }
    }

    /// Registers the callee of a kind at the address at which the server reaches it.
    fn register(&self, kind: usize, port: u16) {
        let user = format!("{}callee", KINDS[kind].name);
        let contact = match self.relays.get(kind) {
            Some(relay) => relay.address_for_server(CALLEE),
            None => SocketAddr::from(([127, 0, 0, 1], port)),
        };
        let injected = format!(
            "{user};[authentication username={user} password=secret];sip:{user}@{contact};600"
        );
        let sipp = self.sipp(kind, CALLEE, "register", port, &[&injected]);
        sipp.finish();
    }

    /// Starts one side of the calls of a kind.
    fn sipp(&self, kind: usize, line: usize, scenario: &str, port: u16, lines: &[&str]) -> Sipp {
        let target = match self.relays.get(kind) {
            Some(relay) => relay.address(line),
            None => self.server.sip,
        };
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let calls = Calls {
            scenario,
            lines: &lines,
            rate: 4,
            transport: Transport::Udp,
        };
        let name = format!("{}.{scenario}", KINDS[kind].name);
        Sipp::start_at(&calls, &name, port, target, &self.place)
    }

    /// Each call followed its scenario on both sides, each record says so, no lamp is lit
    /// and nothing is left.
    fn finish(mut self) {
        // Of two that talk to each other, the one that fails ends first; so each is looked at, and
        // not only the first that runs.
        let running = |all: &mut [Sipp]| {
            all.iter_mut()
                .map(Sipp::is_running)
                .filter(|it| *it)
                .count()
        };
        while running(&mut self.running) > 0 {
            thread::sleep(Duration::from_millis(100));
        }
        for sipp in self.running {
            let statistics = sipp.finish();
            assert_eq!(statistics.total("SuccessfulCall"), CALLS as u64);
            assert_eq!(statistics.total("FailedCall"), 0);
        }
        let server = &self.server;
        server.wait_for("/calls/dialogs/call_count", |count| count == 0);
        let mut expected = BTreeMap::new();
        for kind in &KINDS {
            let caller = format!("sip:{}caller@busyhour.test", kind.name);
            expected.insert((caller, kind.status, kind.end.to_owned()), CALLS);
        }
        assert_eq!(ends(server), expected);
        for lamp in &self.lamps {
            lamp.wait_for("");
        }
        let held = self.lamps.iter().filter(|lamp| {
            let told = lamp.told();
            told.iter().any(|states| states.contains("held"))
        });
        assert_eq!(held.count(), 2, "both sides of the calls with hold");
        // The longest wait of a transaction is 64 × T1, 32 s (RFC 3261 §17).
        server.wait_for("/calls/proxy/transaction_count", |count| count == 0);
        for counter in ["proxy/held_bytes", "proxy/branch_count", "untrusted_routes"] {
            assert_eq!(server.stat(&format!("/calls/{counter}")), 0, "{counter}");
        }
        for counter in ["timed_out", "lost", "adopted"] {
            assert_eq!(
                server.stat(&format!("/calls/dialogs/{counter}")),
                0,
                "{counter}"
            );
        }
        let fates: Vec<_> = self.relays.iter().map(Relay::fates).collect();
        let doubled: u64 = fates.iter().map(|fates| fates.doubled).sum();
        let lost: u64 = fates.iter().map(|fates| fates.lost).sum();
        let Faults {
            doubled_percent,
            lost_percent,
            ..
        } = self.faults;
        assert_eq!(
            (doubled > 0, lost > 0),
            (doubled_percent > 0, lost_percent > 0)
        );
    }
}

/// How often calls of a caller have ended with a status in some way.
fn ends(server: &ServerProcess) -> BTreeMap<(String, u64, String), usize> {
    let page: Value = serde_json::from_str(&server.get("/api/call-records")).expect("JSON");
    let mut ends = BTreeMap::new();
    for record in page["call_records"].as_array().expect("a list") {
        let text = |key: &str| record[key].as_str().expect("text").to_owned();
        let status = record["status"].as_u64().expect("a number");
        *ends
            .entry((text("caller"), status, text("end")))
            .or_default() += 1;
    }
    ends
}

const KINDS: [Kind; 4] = [
    Kind {
        name: "hold",
        status: 200,
        end: "local-bye",
    },
    Kind {
        name: "crossing",
        status: 200,
        end: "local-bye",
    },
    Kind {
        name: "cancel",
        status: 487,
        end: "cancelled",
    },
    Kind {
        name: "busy",
        status: 486,
        end: "rejected",
    },
];

/// Of each kind.
const CALLS: usize = 6;

/// The line of each side in the relay of its kind.
const CALLEE: usize = 0;
const CALLER: usize = 1;

/// Nothing is delayed: sipp takes messages that overtake each other for mistakes. What comes again
/// since an answer or its ACK was lost belongs to a transaction in the scenarios of callers, and is
/// known by its CSeq in that of the callee that is put on hold, so it is none.
const DOUBLING: Faults = Faults {
    lost_percent: 0,
    doubled_percent: 20,
    delayed_percent: 0,
};

/// On each of the four ways that a message and its answer take.
const LOSING: Faults = Faults {
    lost_percent: 10,
    doubled_percent: 10,
    delayed_percent: 0,
};

/// On a machine that is busy with other things, calls for help are carried all the same.
const CONFIGURATION: &str = "
[sip]
algorithms = [\"MD5\"]
domains = [\"busyhour.test\", \"example.com\"]

[calls]
emergency = \"holdcallee,crossingcallee,cancelcallee,busycallee\"

[[account]]
user = \"lamp\"
password = \"secret\"

[[account]]
user = \"holdcaller\"
password = \"secret\"

[[account]]
user = \"holdcallee\"
password = \"secret\"

[[account]]
user = \"crossingcaller\"
password = \"secret\"

[[account]]
user = \"crossingcallee\"
password = \"secret\"

[[account]]
user = \"cancelcaller\"
password = \"secret\"

[[account]]
user = \"cancelcallee\"
password = \"secret\"

[[account]]
user = \"busycaller\"
password = \"secret\"

[[account]]
user = \"busycallee\"
password = \"secret\"
";
