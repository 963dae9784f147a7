//! What following one call costs beside 20,000 others, message by message: without finding
//! the headers of a message.
//!
//! ```text
//! cargo run --release -p busyhour-proxy --example dialog_cost
//! ```

use busyhour::{
    bus::Name,
    clock::{Instant, UnixTime},
};
use busyhour_proxy::dialogs::{
    DialogActions, DialogPolicy, Dialogs, Party, Role, RouteToken, RouteTokens,
};
use busyhour_registrar::{Now, watch::DeviceDialogs};
use busyhour_sip::{Flow, Message};
use std::{collections::HashMap, time::Duration};

/// The parts of a call, and the nanoseconds that each has taken every time.
#[derive(Default)]
struct Times {
    parts: Vec<(&'static str, Vec<u64>)>,
}

impl Times {
    fn measure<T>(&mut self, part: &'static str, run: impl FnOnce() -> T) -> T {
        let begun = std::time::Instant::now();
        let result = run();
        let took = begun.elapsed().as_nanos() as u64;
        match self.parts.iter_mut().find(|(name, _)| *name == part) {
            Some((_, times)) => times.push(took),
            None => self.parts.push((part, vec![took])),
        }
        result
    }

    fn print(&mut self) {
        let mut sum = 0;
        for (part, times) in &mut self.parts {
            times.sort_unstable();
            let median = times[times.len() / 2];
            sum += median;
            println!("{part:>32} {median:>7} ns");
        }
        println!("{:>32} {sum:>7} ns", "together");
    }
}

struct Bench {
    dialogs: Dialogs,
    out: DialogActions,
    devices: HashMap<Name, DeviceDialogs>,
    times: Times,
    now: Instant,
}

impl Bench {
    fn establish(&mut self, number: usize) {
        let parties = ["caller", "callee"].map(|role| party(number, role));
        let at = Now {
            now: self.now,
            unix: UnixTime::from_secs(1_800_000_000),
            steady: UnixTime::from_secs(1_800_000_000),
        };
        let text = text(
            "INVITE sip:callee@example.com SIP/2.0",
            number,
            "INVITE",
            false,
        );
        let message = Message::parse(text.as_bytes()).expect("sound");
        let (dialogs, out) = (&mut self.dialogs, &mut self.out);
        let [caller, callee] = parties;
        let call = self.times.measure("INVITE", || {
            let call = dialogs
                .invite(at, &message, caller, None, out)
                .expect("room");
            dialogs.forwarded(call, 0, callee);
            call
        });
        self.apply();
        for (part, line) in [("180", "SIP/2.0 180 Ringing"), ("200", "SIP/2.0 200 OK")] {
            let text = crate::text(line, number, "INVITE", true);
            let message = Message::parse(text.as_bytes()).expect("sound");
            let (dialogs, out, now) = (&mut self.dialogs, &mut self.out, self.now);
            self.times
                .measure(part, || dialogs.response(now, call, 0, &message, out));
            self.apply();
        }
        self.within("ACK", number);
    }

    fn within(&mut self, method: &'static str, number: usize) {
        let line = format!("{method} sip:callee@example.com SIP/2.0");
        let text = text(&line, number, method, true);
        let message = Message::parse(text.as_bytes()).expect("sound");
        let flow = party(number, "caller").flow;
        let (dialogs, out, now) = (&mut self.dialogs, &mut self.out, self.now);
        self.times
            .measure(method, || dialogs.request(now, &message, flow, out));
        self.apply();
    }

    /// Each change at its device.
    fn apply(&mut self) {
        let (out, devices) = (&mut self.out, &mut self.devices);
        for change in out.changes.drain(..) {
            let device = devices.entry(change.device.clone()).or_default();
            device.apply(change);
        }
        out.clear();
    }
}

fn main() {
    let policy = DialogPolicy {
        calls_per_source_max: CALLS * 2,
        ..DialogPolicy::default()
    };
    let mut bench = Bench {
        dialogs: Dialogs::new(1, 0, policy),
        out: DialogActions::default(),
        devices: HashMap::new(),
        times: Times::default(),
        now: Instant::ZERO + Duration::from_secs(1_000),
    };
    (0..CALLS).for_each(|number| bench.establish(number));
    bench.times = Times::default();
    for number in CALLS..2 * CALLS {
        bench.now = bench.now + Duration::from_millis(5);
        bench.establish(number);
        bench.within("BYE", number);
        let (dialogs, out, now) = (&mut bench.dialogs, &mut bench.out, bench.now);
        bench
            .times
            .measure("what is due", || dialogs.expire(now, out));
    }
    bench.times.print();
    tokens();
}

/// Two tokens are written into each INVITE, and read from each request within a dialog.
fn tokens() {
    let (tokens, mut times) = (RouteTokens::new([7; 32]), Times::default());
    let mut text = String::new();
    for number in 0..CALLS {
        let token = RouteToken {
            role: Role::Caller,
            party: party(number, "caller"),
            carrier: 0,
        };
        text.clear();
        times.measure("a token is written", || {
            tokens.write(&token, "5f2b1c7a9e@192.0.2.7", &mut text)
        });
        let read = times.measure("a token is read", || {
            tokens.read(&text, "5f2b1c7a9e@192.0.2.7")
        });
        assert!(read.is_ok());
    }
    times.print();
}

fn text(line: &str, number: usize, method: &str, has_tag: bool) -> String {
    let tag = if has_tag {
        format!(";tag=as6b8b4567-{number}")
    } else {
        String::new()
    };
    let body = "v=0\r\nc=IN IP4 192.0.2.7\r\nm=audio 4000 RTP/AVP 0\r\n";
    let number = number % DEVICES + 10_000 * (number / DEVICES);
    format!(
        "{line}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{number}\r\n\
         From: \"Caller\" <sip:caller@example.com>;tag=3a6f2c88-{number}\r\n\
         To: <sip:callee@example.com>{tag}\r\nCall-ID: 5f2b1c7a9e{number:08}@192.0.2.7\r\n\
         CSeq: 1 {method}\r\nContact: <sip:user{number}@192.0.2.7:5062;transport=udp>\r\n\
         Session-Expires: 1800;refresher=uac\r\nContent-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn party(number: usize, role: &str) -> Party {
    let number = number % DEVICES;
    let remote = ([192, 0, 2, 7], 10_000 + number as u16).into();
    let aor = Name::new(&format!("sip:{role}{number}@example.com"));
    Party::device(aor, Flow::udp(([192, 0, 2, 1], 5_060).into(), remote))
}

const CALLS: usize = 20_000;
const DEVICES: usize = 2_000;
