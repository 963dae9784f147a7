//! The media of a telephone behind a real translation of addresses, through a real rtpengine.

use crate::{
    Site,
    internet::Internet,
    support::{Place, wait_until},
    telephone::Telephone,
};
use std::{
    fs::File,
    process::{Child, Command, Stdio},
};

/// Nobody has said that this call needs a relay: the server sees it by the addresses, whoever calls.
#[test]
fn a_telephone_behind_nat_and_one_outside_hear_each_other_through_the_relay() {
    let internet = Internet::new();
    let _relay = Relay::start(&internet);
    let site = Site::new(
        &internet,
        "nat_probe_seconds = 2\n[media]\nrelays = \"127.0.0.1:2223\"\nuse = \"auto\"\n",
    );
    wait_until(
        || site.show(&["media"])[0]["last_answer_ns"].is_u64(),
        || site.show(&["media"]).to_string(),
    );
    for is_called_from_outside in [true, false] {
        let calls = |is_caller: bool, whom: &str| match is_caller {
            true => format!("/dial sip:{whom}@example.com"),
            false => String::new(),
        };
        let (inside, outside) = (internet.inside(), internet.outside());
        let alice = || {
            let command = calls(!is_called_from_outside, "bob");
            Telephone::playing(&inside, "10.0.0.2", "alice", (INSIDE_HERTZ, &command))
        };
        let bob = || {
            let command = calls(is_called_from_outside, "alice");
            Telephone::playing(&outside, "198.51.100.1", "bob", (OUTSIDE_HERTZ, &command))
        };
        // Who is called has registered before.
        let (alice, bob) = match is_called_from_outside {
            true => {
                let alice = alice();
                (alice, bob())
            }
            false => {
                let bob = bob();
                (alice(), bob)
            }
        };
        alice.wait_for_tone(OUTSIDE_HERTZ, INSIDE_HERTZ);
        bob.wait_for_tone(INSIDE_HERTZ, OUTSIDE_HERTZ);
        let offers = [alice.output(), bob.output()].concat();
        assert!(offers.contains("c=IN IP4 10.0.0.2"), "{offers}");
        let relays = site.show(&["media"]);
        let calls = relays[0]["calls"].as_u64().unwrap();
        assert_eq!(
            calls,
            if is_called_from_outside { 1 } else { 2 },
            "{relays}"
        );
    }
}

/// rtpengine on the outside, until it is dropped.
struct Relay {
    child: Child,
    _place: Place,
}

impl Relay {
    fn start(internet: &Internet) -> Self {
        let place = Place::new();
        let output = File::create(place.path("output")).expect("a writable temporary folder");
        let mut program = Command::new("rtpengine");
        program.args([
            "--interface=198.51.100.1",
            "--listen-ng=127.0.0.1:2223",
            "--port-min=30000",
            "--port-max=30100",
            "--foreground",
            "--table=-1",
            "--log-stderr",
            "--delete-delay=0",
            "--config-file=none",
        ]);
        let child = internet
            .outside()
            .run(&program)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("another handle"))
            .stderr(output)
            .spawn()
            .expect("rtpengine, which scripts/install-deps.sh test installs");
        Self {
            child,
            _place: place,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const INSIDE_HERTZ: u32 = 600;
const OUTSIDE_HERTZ: u32 = 1000;
