//! A device publishes and others watch over a network that loses, doubles, delays and
//! reorders datagrams. For every seed: no watcher gets an older state after a newer
//! one, versions only grow, and after the faults have ended every watcher has the
//! last acknowledged state.

use crate::{
    random::Random,
    world::{DIALOG, World, answer, body, header},
};
use busyhour_sip::Message;
use std::collections::BTreeMap;

#[test]
fn the_last_state_reaches_every_watcher_and_no_older_one_follows_it() {
    let scale = std::env::var("BUSYHOUR_TEST_SCALE")
        .ok()
        .and_then(|scale| scale.parse().ok());
    for seed in 1..=20 * scale.unwrap_or(1) {
        Lossy::new(seed).run();
    }
}

struct Lossy {
    seed: u64,
    world: World,
    random: Random,
    now_ms: u64,
    /// Sorted by the time of arrival, and then in the order of sending.
    way: BTreeMap<(u64, u64), (To, String)>,
    sent_count: u64,
    publisher: Publisher,
    watchers: BTreeMap<String, Belief>,
    is_quiet: bool,
}

#[derive(Clone, Copy)]
enum To {
    Server,
    Clients,
}

/// Publishes one state after the other, as RFC 3261 §17.1.2 retransmits.
#[derive(Default)]
struct Publisher {
    etag: Option<String>,
    number: u64,
    acknowledged: u64,
    pending: Option<Pending>,
    next_at: u64,
}

struct Pending {
    request: String,
    branch: String,
    interval: u64,
    resend_at: u64,
    give_up_at: u64,
}

#[derive(Default)]
struct Belief {
    cseq: u32,
    number: u64,
    version: Option<u32>,
}

impl Lossy {
    fn new(seed: u64) -> Self {
        let mut world = World::open();
        let mut watchers = BTreeMap::new();
        for index in 0..4 {
            let id = format!("watcher{index}");
            world.watch(&id, "alice", "dialog");
            watchers.insert(id, Belief::default());
        }
        Self {
            seed,
            world,
            random: Random::new(seed),
            now_ms: 0,
            way: BTreeMap::new(),
            sent_count: 0,
            publisher: Publisher::default(),
            watchers,
            is_quiet: false,
        }
    }

    fn run(mut self) {
        self.live(60_000);
        self.is_quiet = true;
        self.live(110_000);
        let (last, seed) = (self.publisher.acknowledged, self.seed);
        assert!(
            last > 0 && self.publisher.pending.is_none(),
            "seed {seed}: {last}"
        );
        // A watcher that was not reached for 32 s was given up. It finds out when it
        // sends a request.
        let beliefs: Vec<_> = self.watchers.iter().collect();
        let lost: Vec<_> = beliefs
            .into_iter()
            .filter(|(id, belief)| {
                let lives = lives(&mut self.world, id);
                assert!(!lives || belief.number == last, "seed {seed}: {id} {last}");
                !lives
            })
            .collect();
        let given_up = self.world.stats().watch.given_up;
        assert_eq!(lost.len() as u64, given_up, "seed {seed}");
        assert!(
            lost.len() < self.watchers.len(),
            "seed {seed}: every NOTIFY was lost"
        );
    }

    fn live(&mut self, time_ms: u64) {
        let end = self.now_ms + time_ms;
        while self.now_ms < end {
            self.world.pass(STEP_MS);
            self.now_ms += STEP_MS;
            for datagram in self.world.sent() {
                self.send(To::Clients, datagram);
            }
            self.publish();
            self.arrive();
        }
    }

    fn send(&mut self, to: To, datagram: String) {
        let (copies, delay_ms) = match self.is_quiet {
            true => (1, 10),
            // Watchers are given up after 32 s and may subscribe again. A publisher
            // must not be given up by bad luck, since that would end the run.
            false if datagram.contains("NOTIFY") => {
                (self.random.pick(&[0, 0, 0, 1, 1, 1, 1, 1, 1, 2]), 400)
            }
            false => (self.random.pick(&[0, 1, 1, 1, 1, 1, 1, 1, 1, 2]), 400),
        };
        for _ in 0..copies {
            self.sent_count += 1;
            let at = self.now_ms + self.random.within(0, delay_ms);
            self.way
                .insert((at, self.sent_count), (to, datagram.clone()));
        }
    }

    fn arrive(&mut self) {
        while let Some(first) = self.way.first_entry() {
            if first.key().0 > self.now_ms {
                return;
            }
            match first.remove() {
                (To::Server, datagram) => self.world.receive(&datagram),
                (To::Clients, datagram) if datagram.starts_with("NOTIFY ") => {
                    self.notified(&datagram)
                }
                (To::Clients, datagram) => self.published(&datagram),
            }
        }
    }

    fn publish(&mut self) {
        let now = self.now_ms;
        if let Some(pending) = &mut self.publisher.pending {
            assert!(
                now < pending.give_up_at,
                "seed {}: too many losses in a row",
                self.seed
            );
            if now >= pending.resend_at {
                pending.interval = (2 * pending.interval).min(4_000);
                pending.resend_at = now + pending.interval;
                let request = pending.request.clone();
                self.send(To::Server, request);
            }
        } else if now >= self.publisher.next_at && !self.is_quiet {
            self.publish_next();
        }
    }

    fn publish_next(&mut self) {
        self.publisher.number += 1;
        let headers = match &self.publisher.etag {
            Some(etag) => format!("{DIALOG}SIP-If-Match: {etag}\r\n"),
            None => DIALOG.to_owned(),
        };
        let text = document(self.publisher.number);
        let request = self
            .world
            .request("PUBLISH", "alice", None, "publisher", &headers, &text);
        let branch = branch(&request);
        self.publisher.pending = Some(Pending {
            request: request.clone(),
            branch,
            interval: 500,
            resend_at: self.now_ms + 500,
            give_up_at: self.now_ms + 32_000,
        });
        self.send(To::Server, request);
    }

    fn published(&mut self, response: &str) {
        let is_it = |pending: &mut Pending| pending.branch == branch(response);
        if self.publisher.pending.take_if(is_it).is_none() {
            return;
        }
        assert!(
            response.starts_with("SIP/2.0 200 "),
            "seed {}: {response}",
            self.seed
        );
        self.publisher.etag = Some(header(response, "SIP-ETag"));
        self.publisher.acknowledged = self.publisher.number;
        self.publisher.next_at = self.now_ms + self.random.within(0, 2_000);
    }

    fn notified(&mut self, notify: &str) {
        self.send(To::Server, answer(notify, "200 OK"));
        let belief = self.watchers.get_mut(&header(notify, "Call-ID")).unwrap();
        let cseq = Message::parse(notify.as_bytes())
            .unwrap()
            .cseq()
            .unwrap()
            .number;
        if cseq <= belief.cseq {
            return;
        }
        let (number, version) = (number(notify), version(notify));
        let seed = self.seed;
        assert!(
            number >= belief.number,
            "seed {seed}: {number} after {}",
            belief.number
        );
        assert!(
            belief.version < Some(version),
            "seed {seed}: version {version}"
        );
        *belief = Belief {
            cseq,
            number,
            version: Some(version),
        };
    }
}

/// Whether the server still has the dialog of a watcher; the watcher sends a request
/// in it.
fn lives(world: &mut World, id: &str) -> bool {
    let (answer, _) = world.subscribe(id, "alice", "Event: dialog\r\n");
    let lives = answer.starts_with("SIP/2.0 200 ");
    assert!(lives || answer.starts_with("SIP/2.0 481 "), "{answer}");
    lives
}

fn document(number: u64) -> String {
    format!(
        "<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"0\" state=\"full\" \
         entity=\"sip:alice@example.com\">\
         <dialog id=\"n{number}\"><state>confirmed</state></dialog></dialog-info>"
    )
}

/// The number in the id of the dialog; 0 without an id.
fn number(notify: &str) -> u64 {
    let Some((_, rest)) = body(notify).split_once("<dialog id=\"p1-n") else {
        return 0;
    };
    rest.split_once('"').unwrap().0.parse().unwrap()
}

fn version(notify: &str) -> u32 {
    let document = roxmltree::Document::parse(body(notify)).unwrap();
    let version = document.root_element().attribute("version");
    version.unwrap().parse().unwrap()
}

fn branch(message: &str) -> String {
    let message = Message::parse(message.as_bytes()).unwrap();
    message.via().unwrap().branch().unwrap().to_owned()
}

const STEP_MS: u64 = 20;
