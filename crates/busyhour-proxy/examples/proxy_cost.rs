//! What the table's part of one call costs, message by message: without the network, and
//! without finding the headers of a message.
//!
//! ```text
//! cargo run --release -p busyhour-proxy --example proxy_cost
//! ```

use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
};
use busyhour_proxy::{
    Actions, Begun, Edge, Identity, Inbound, LoopDetection, NextHop, Passage, Policy, Proxy,
    Routing, Target,
};
use busyhour_sip::{Flow, Host, Message, ResponseBuilder, SipUri, Status};
use std::time::Duration;

struct Us;

impl Edge for Us {
    type Data = ();

    fn put_sent_by(&self, _: Flow, out: &mut String) {
        out.push_str("192.0.2.1");
    }

    fn put_record_route(&self, _: &Passage<'_, '_, ()>, out: &mut String) {
        out.push_str("<sip:token-of-fifty-five-characters-as-the-server-has@192.0.2.1;lr>");
    }
}

impl Identity for Us {
    fn is_us(&self, host: &Host<'_>, _: Option<u16>) -> bool {
        matches!(host, Host::V4(address) if address.octets() == [192, 0, 2, 1])
    }

    fn is_record_route(&self, uri: &SipUri<'_>) -> bool {
        uri.user.is_some_and(|user| user.starts_with("token"))
    }
}

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
}

struct Bench {
    proxy: Proxy<Us>,
    loops: LoopDetection,
    pool: BufferPool,
    out: Actions,
    now: Instant,
    times: Times,
}

fn main() {
    let pool = BufferPool::builder().build().expect("a pool");
    let loops = LoopDetection::new(1);
    let proxy = Proxy::new(Policy::default(), Us, pool.clone(), loops.clone(), 2);
    let mut bench = Bench {
        proxy,
        loops,
        pool,
        out: Actions::default(),
        now: Instant::ZERO,
        times: Times::default(),
    };
    // 500 calls a second for two minutes: all timers of the answered calls run as well.
    for number in 0..CALLS {
        bench.call(number);
        bench.now = bench.now + Duration::from_millis(2);
        bench.expire();
    }
    // The median: other programs' turns on the processor are not ours.
    let mut sum = 0;
    for (part, times) in &mut bench.times.parts {
        times.sort_unstable();
        let median = times[times.len() / 2];
        println!("{part:32} {median:6} ns");
        sum += median;
    }
    println!("{:32} {sum:6} ns", "a call in all");
    println!("{} transactions are held", bench.proxy.len());
}

impl Bench {
    fn call(&mut self, number: u64) {
        let (alice, bob) = (flow(7), flow(8));
        let sdp = "v=0\r\n".repeat(60);
        let ends = |to: &str| {
            format!(
                "Max-Forwards: 70\r\nFrom: \"Alice\" <sip:alice@example.org>;tag=a{number}\r\n\
                 To: <sip:bob@example.org>{to}\r\nCall-ID: {number}-call@192.0.2.7\r\n"
            )
        };
        let via = |method: &str| {
            format!("Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK{method}{number};rport\r\n")
        };
        let route =
            "Route: <sip:token-of-fifty-five-characters-as-the-server-has@192.0.2.1;lr>\r\n";
        let invite = format!(
            "INVITE sip:bob@example.org SIP/2.0\r\n{}{}CSeq: 1 INVITE\r\nContact: <sip:alice@192.0.2.7>\r\n\
             User-Agent: Desk/1.0\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{sdp}",
            via("i"),
            ends(""),
            sdp.len()
        );
        let target = Target::new(
            Some("sip:bob@192.0.2.8:5060".into()),
            NextHop::registered(bob),
        );
        let forwarded = self.request("INVITE: begin, 100, forward", &invite, alice, target);
        for (part, status) in [("180", Status::RINGING), ("200 to INVITE", Status::OK)] {
            self.respond(part, &forwarded, status);
        }
        let ack = format!(
            "ACK sip:bob@192.0.2.8 SIP/2.0\r\n{}{route}{}CSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n",
            via("a"),
            ends(";tag=b")
        );
        self.acknowledge(&ack, alice, bob);
        let bye = format!(
            "BYE sip:bob@192.0.2.8 SIP/2.0\r\n{}{route}{}CSeq: 2 BYE\r\nContent-Length: 0\r\n\r\n",
            via("b"),
            ends(";tag=b")
        );
        let target = Target::new(None, NextHop::registered(bob));
        let forwarded = self.request("BYE: begin, forward", &bye, alice, target);
        self.respond("200 to BYE", &forwarded, Status::OK);
    }

    /// Returns what was forwarded.
    fn request(&mut self, part: &'static str, text: &str, flow: Flow, target: Target) -> Buffer {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = Inbound {
            message: &message,
            datagram: &datagram,
            flow,
        };
        let (proxy, out, now, loops) = (&mut self.proxy, &mut self.out, self.now, &self.loops);
        self.times.measure(part, || {
            let _ = proxy.receive(now, &inbound, out);
            let essentials = message.essentials().expect("valid");
            let routing = Routing::read(&message, &essentials, loops, &Us).expect("valid");
            let begun = proxy.begin(now, &inbound, &routing, (), out);
            let Ok(Begun::New(id)) = begun else {
                panic!("it is new")
            };
            proxy.forward(now, id, target.into(), out);
        });
        let sent = self.out.take_outbound().last().expect("a request");
        self.out.clear();
        sent.datagram
    }

    fn acknowledge(&mut self, text: &str, from: Flow, to: Flow) {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = Inbound {
            message: &message,
            datagram: &datagram,
            flow: from,
        };
        let (proxy, out, now, loops) = (&mut self.proxy, &mut self.out, self.now, &self.loops);
        self.times.measure("ACK", || {
            let _ = proxy.receive(now, &inbound, out);
            let essentials = message.essentials().expect("valid");
            let routing = Routing::read(&message, &essentials, loops, &Us).expect("valid");
            proxy.forward_ack(&inbound, &routing, &NextHop::registered(to).into(), out);
        });
        self.out.clear();
    }

    fn respond(&mut self, part: &'static str, request: &Buffer, status: Status) {
        let message = Message::parse(request).expect("a message");
        let mut text = Vec::new();
        ResponseBuilder::new(&mut text, &message, status, None)
            .to_tag("b")
            .copy(busyhour_sip::HeaderName::RecordRoute)
            .body("application/sdp", &[b'x'; 300]);
        let datagram = self.pool.copy_from(&text).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = Inbound {
            message: &message,
            datagram: &datagram,
            flow: flow(8),
        };
        let (proxy, out, now) = (&mut self.proxy, &mut self.out, self.now);
        let is_known = self
            .times
            .measure(part, || proxy.receive_response(now, &inbound, out));
        assert!(is_known);
        self.out.clear();
    }

    fn expire(&mut self) {
        let (proxy, out, now) = (&mut self.proxy, &mut self.out, self.now);
        self.times.measure("timers", || proxy.expire(now, out));
        self.out.clear();
    }
}

fn flow(host: u8) -> Flow {
    Flow::udp(
        ([192, 0, 2, 1], 5060).into(),
        ([192, 0, 2, host], 5060).into(),
    )
}

const CALLS: u64 = 60_000;
