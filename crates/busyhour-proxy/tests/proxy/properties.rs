//! What must hold for any bytes; tests and fuzzer share it.

use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
};
use busyhour_proxy::{
    Actions, Begun, Edge, Identity, Inbound, LoopDetection, NextHop, Passage, Policy, Proxy,
    Received, Routing, Target, TargetSet, Way,
};
use busyhour_sip::{Flow, HeaderName, Host, Message, SipUri, Transport};
use std::collections::VecDeque;

/// Gives `bytes` to a proxy as a message. What it forwards is a sound message with one Via
/// more and nothing else changed; responses to that go back; nothing is left at the end.
pub fn hold(bytes: &[u8]) {
    let pool = BufferPool::builder().build().expect("a pool");
    let datagram = pool.copy_from(bytes).expect("memory");
    let Ok(message) = Message::parse(&datagram) else {
        return;
    };
    let loops = LoopDetection::new(1);
    let proxy = Proxy::new(Policy::default(), Anybody, pool.clone(), loops.clone(), 2);
    let mut run = Run {
        proxy,
        loops,
        pool,
        now: Instant::ZERO,
        out: Actions::default(),
    };
    let inbound = Inbound {
        message: &message,
        datagram: &datagram,
        flow: flow(Transport::Udp),
    };
    match message.status() {
        Some(_) => assert!(!run.proxy.receive_response(run.now, &inbound, &mut run.out)),
        None => run.request(&inbound),
    }
    run.end();
}

/// Requests that were forwarded, in this order, and where to.
type Forwarded = VecDeque<(Flow, Buffer)>;

struct Run {
    proxy: Proxy<Anybody>,
    loops: LoopDetection,
    pool: BufferPool,
    now: Instant,
    out: Actions,
}

impl Run {
    fn request(&mut self, inbound: &Inbound<'_, '_>) {
        let Ok(essentials) = inbound.message.essentials() else {
            return;
        };
        let routing = Routing::read(inbound.message, &essentials, &self.loops, &Anybody);
        match routing {
            Err(refusal) => {
                self.proxy.refuse(inbound, &refusal, &mut self.out);
                self.check_answers(inbound.message);
            }
            Ok(routing) => self.valid(inbound, &routing),
        }
    }

    fn valid(&mut self, inbound: &Inbound<'_, '_>, routing: &Routing<'_>) {
        let hop = NextHop::registered(flow(Transport::Tcp));
        self.proxy
            .forward_ack(inbound, routing, &hop.into(), &mut self.out);
        self.check_forwarded(inbound.message);
        if self.proxy.receive(self.now, inbound, &mut self.out) != Received::New {
            return;
        }
        let begun = self
            .proxy
            .begin(self.now, inbound, routing, (), &mut self.out);
        let Ok(Begun::New(id)) = begun else {
            panic!("{begun:?}")
        };
        self.check_answers(inbound.message);
        let near = Target::new(None, hop);
        let far = Target::new(
            Some("sip:far@192.0.2.9".into()),
            Way {
                route: Some("<sip:path.example.net;lr>".into()),
                ..NextHop::resolved(flow(Transport::Udp)).into()
            },
        );
        let set = TargetSet {
            targets: vec![near, far],
            ..TargetSet::default()
        };
        self.proxy.forward(self.now, id, set, &mut self.out);
        let mut waiting = self.check_forwarded(inbound.message);
        for status in [486, 200] {
            if let Some((flow, forwarded)) = waiting.pop_front() {
                waiting.extend(self.respond(inbound.message, (flow, &forwarded), status));
            }
        }
    }

    /// The response to a request that was forwarded goes back, or it is the next target's turn,
    /// since `Max-Breadth: 1` allows one at a time. Returns what was forwarded then.
    fn respond(
        &mut self,
        original: &Message<'_>,
        (flow, forwarded): (Flow, &Buffer),
        status: u16,
    ) -> Forwarded {
        let request = Message::parse(forwarded).expect("a message");
        let mut text = Vec::new();
        let status = busyhour_sip::Status::new(status).expect("a status");
        busyhour_sip::ResponseBuilder::new(&mut text, &request, status, None)
            .to_tag("t")
            .finish();
        let datagram = self.pool.copy_from(&text).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = Inbound {
            message: &message,
            datagram: &datagram,
            flow,
        };
        let is_known = self
            .proxy
            .receive_response(self.now, &inbound, &mut self.out);
        assert!(is_known);
        let own = |it: &[u8]| it.starts_with(b"ACK ") || it.starts_with(b"CANCEL ");
        let mut forwarded = Forwarded::new();
        for outbound in self.out.outbound().iter().filter(|it| !own(&it.datagram)) {
            let message = Message::parse(&outbound.datagram).expect("a message");
            if message.status().is_some() {
                assert_eq!(message.vias().count(), original.vias().count());
                assert_eq!(message.call_id(), original.call_id());
            } else {
                check_copy(original, &message);
                forwarded.push_back((outbound.flow, outbound.datagram.clone()));
            }
        }
        self.out.clear();
        forwarded
    }

    fn check_answers(&mut self, request: &Message<'_>) {
        for outbound in self.out.outbound() {
            let answer = Message::parse(&outbound.datagram).expect("a message");
            assert_eq!(answer.vias().count(), request.vias().count());
            assert_eq!(answer.cseq(), request.cseq());
        }
        self.out.clear();
    }

    fn check_forwarded(&mut self, original: &Message<'_>) -> Forwarded {
        let mut forwarded = Forwarded::new();
        for outbound in self.out.outbound() {
            check_copy(
                original,
                &Message::parse(&outbound.datagram).expect("a message"),
            );
            forwarded.push_back((outbound.flow, outbound.datagram.clone()));
        }
        self.out.clear();
        forwarded
    }

    /// Nothing is left when all timers have run.
    fn end(&mut self) {
        for _ in 0..1_000 {
            let Some(due) = self.proxy.next_deadline() else {
                break;
            };
            self.now = due.max(self.now);
            self.proxy.expire(self.now, &mut self.out);
            self.out.clear();
        }
        assert!(self.proxy.is_empty());
        assert_eq!(self.proxy.stats().held_bytes, 0);
    }
}

fn check_copy(original: &Message<'_>, copy: &Message<'_>) {
    assert_eq!(copy.validate(), Ok(()));
    assert_eq!(copy.method(), original.method());
    assert_eq!(copy.vias().count(), original.vias().count() + 1);
    assert_eq!(copy.body(), original.body());
    let left = original.max_forwards().expect("valid");
    assert_eq!(
        copy.max_forwards(),
        Ok(Some(left.map_or(70, |left| left - 1)))
    );
    assert_eq!(unchanged(copy), unchanged(original));
}

/// The lines that a proxy has no business with.
fn unchanged(message: &Message<'_>) -> Vec<(String, String)> {
    let changes = [
        HeaderName::Via,
        HeaderName::MaxForwards,
        HeaderName::MaxBreadth,
        HeaderName::Route,
        HeaderName::RecordRoute,
        HeaderName::ContentLength,
    ];
    let lines = message.all_headers();
    let kept = lines.filter(|(name, _, _)| !changes.contains(name));
    kept.map(|(_, name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Everything called "example.com" is this proxy.
struct Anybody;

impl Edge for Anybody {
    type Data = ();

    fn put_sent_by(&self, _: Flow, out: &mut String) {
        out.push_str("192.0.2.1");
    }

    fn put_record_route(&self, _: &Passage<'_, '_, ()>, out: &mut String) {
        out.push_str("<sip:rr@192.0.2.1;lr>");
    }
}

impl Identity for Anybody {
    fn is_us(&self, host: &Host<'_>, _: Option<u16>) -> bool {
        host.matches(&Host::Name("example.com"))
    }

    fn is_record_route(&self, uri: &SipUri<'_>) -> bool {
        uri.user == Some("rr")
    }
}

fn flow(transport: Transport) -> Flow {
    let (local, remote) = (([192, 0, 2, 1], 5060), ([192, 0, 2, 9], 5060));
    Flow {
        transport,
        ..Flow::udp(local.into(), remote.into())
    }
}
