//! A proxy with its clock, and messages as text.

use busyhour::{buffer::BufferPool, clock::Instant};
use busyhour_proxy::{
    Actions, Begun, Edge, Event, EventKind, Identity, Inbound, LoopDetection, NextHop, Passage,
    Policy, Proxy, Received, RequestRefusal, Routing, Target, TargetSet, TransactionId, Way,
};
use busyhour_sip::{Flow, Host, Message, Method, SipUri, Transport, UnreadRequest};
use std::{net::SocketAddr, rc::Rc, time::Duration};

/// The proxy is `192.0.2.1`; its domain is `example.org`.
pub struct Us;

impl Edge for Us {
    type Data = Permit;

    fn put_sent_by(&self, flow: Flow, out: &mut String) {
        out.push_str(&flow.local.ip().to_string());
    }

    fn put_record_route(&self, passage: &Passage<'_, '_, Permit>, out: &mut String) {
        let Passage { from, to, .. } = *passage;
        let uri = |flow: Flow| format!("<sip:rr@192.0.2.1;lr{}>", flow.transport.uri_suffix());
        out.push_str(&uri(to));
        if from.transport != to.transport {
            out.push_str(", ");
            out.push_str(&uri(from));
        }
    }

    fn passes_identity(&self, passage: &Passage<'_, '_, Permit>) -> bool {
        passage.from == trusted()
    }

    fn passes_identity_back(&self, _: &Message<'_>, _: &Permit, label: u64) -> bool {
        label == TRUSTED_LABEL
    }
}

impl Identity for Us {
    fn is_us(&self, host: &Host<'_>, port: Option<u16>) -> bool {
        let ours = ["192.0.2.1", "example.org"];
        ours.contains(&host.to_string().as_str()) && matches!(port, None | Some(5060))
    }

    fn is_record_route(&self, uri: &SipUri<'_>) -> bool {
        uri.user == Some("rr") && self.is_us(&uri.host, uri.port)
    }
}

/// Counts the requests that the proxy holds.
pub type Permit = Rc<()>;

/// Who may assert who calls.
pub fn trusted() -> Flow {
    flow("192.0.2.60:5060")
}

/// The same for who answers.
pub const TRUSTED_LABEL: u64 = 60;

/// A message that was sent.
#[derive(Debug, Clone)]
pub struct Sent {
    pub to: Flow,
    pub text: String,
    pub branch: Option<busyhour_proxy::BranchId>,
    pub may_connect: bool,
}

pub struct Bench {
    pub proxy: Proxy<Us>,
    pub now: Instant,
    pub events: Vec<EventKind>,
    pub permit: Permit,
    pub loops: LoopDetection,
    pool: BufferPool,
    out: Actions,
    sent: Vec<Sent>,
    last_call: Option<TransactionId>,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Policy::default())
    }

    pub fn with(policy: Policy) -> Self {
        let pool = BufferPool::builder().build().expect("a pool");
        let loops = LoopDetection::new(1);
        Self {
            proxy: Proxy::new(policy, Us, pool.clone(), loops.clone(), 2),
            now: Instant::from_nanos(1_000_000_000),
            events: Vec::new(),
            permit: Rc::new(()),
            loops,
            pool,
            out: Actions::default(),
            sent: Vec::new(),
            last_call: None,
        }
    }

    /// A request as far as the retransmission filter.
    pub fn receive(&mut self, flow: Flow, text: &str) -> Received {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = inbound(&message, &datagram, flow);
        let unread = UnreadRequest::find(text.as_bytes());
        let is_known = unread.map(|unread| self.proxy.knows(&unread));
        let received = self.proxy.receive(self.now, &inbound, &mut self.out);
        self.collect();
        // The ACK of a 2xx has the names of the INVITE, and is new; so has a CANCEL from elsewhere.
        let is_elsewhere = received == Received::UnknownCancel;
        if let (Some(is_known), Some(Method::Invite)) = (is_known, message.method())
            && !is_elsewhere
        {
            assert_eq!(is_known, received == Received::Absorbed);
        }
        received
    }

    /// A request of a known transaction.
    pub fn absorb(&mut self, flow: Flow, text: &str) {
        assert_eq!(self.receive(flow, text), Received::Absorbed);
    }

    /// A new request, validated and begun.
    pub fn try_begin(&mut self, flow: Flow, text: &str) -> Result<Begun, RequestRefusal> {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = inbound(&message, &datagram, flow);
        let begun = routing(&message, &self.loops).and_then(|routing| {
            let permit = self.permit.clone();
            self.proxy
                .begin(self.now, &inbound, &routing, permit, &mut self.out)
        });
        if let Err(refusal) = &begun {
            self.proxy.refuse(&inbound, refusal, &mut self.out);
        }
        self.collect();
        begun
    }

    pub fn begin(&mut self, flow: Flow, text: &str) -> TransactionId {
        assert_eq!(self.receive(flow, text), Received::New);
        match self.try_begin(flow, text) {
            Ok(Begun::New(id)) => id,
            other => panic!("{other:?} for {text}"),
        }
    }

    pub fn forward(&mut self, id: TransactionId, set: impl Into<TargetSet>) {
        self.proxy.forward(self.now, id, set.into(), &mut self.out);
        self.collect();
    }

    /// A late target of the last call has been found; what was sent.
    pub fn add_late(&mut self, target: Target) -> Vec<Sent> {
        let id = self.last_call.expect("a call");
        self.proxy.add_late(self.now, id, target, &mut self.out);
        self.collect();
        self.take()
    }

    pub fn end_late(&mut self, reason: &'static str) -> Vec<Sent> {
        let id = self.last_call.expect("a call");
        self.proxy.end_late(self.now, id, reason, &mut self.out);
        self.collect();
        self.take()
    }

    /// A request to these targets, and what was sent for it, 100 left out.
    pub fn call(&mut self, text: &str, set: impl Into<TargetSet>) -> Vec<Sent> {
        let id = self.begin(alice(), text);
        self.last_call = Some(id);
        self.forward(id, set);
        let sent = self.take();
        let is_trying = |sent: &Sent| sent.text.starts_with("SIP/2.0 100 ");
        sent.into_iter().filter(|it| !is_trying(it)).collect()
    }

    /// An ACK to a 2xx.
    pub fn ack(&mut self, flow: Flow, text: &str, way: impl Into<Way>) {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = inbound(&message, &datagram, flow);
        let routing = routing(&message, &self.loops).expect("a valid ACK");
        self.proxy
            .forward_ack(&inbound, &routing, &way.into(), &mut self.out);
        self.collect();
    }

    /// A response; whether it was the proxy's.
    pub fn respond(&mut self, flow: Flow, text: &str) -> bool {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = inbound(&message, &datagram, flow);
        let is_known = self
            .proxy
            .receive_response(self.now, &inbound, &mut self.out);
        self.collect();
        is_known
    }

    /// A response to what was sent, and what is sent because of it.
    pub fn reply(&mut self, to: &Sent, status: u16) -> Vec<Sent> {
        assert!(self.respond(to.to, &response(&to.text, status, "b")));
        self.take()
    }

    pub fn fail(&mut self, sent: &Sent) -> Vec<Sent> {
        let branch = sent.branch.expect("a message of a branch");
        self.proxy.transport_error(self.now, branch, &mut self.out);
        self.collect();
        self.take()
    }

    /// A connection ends; what is sent because of it.
    pub fn end_connection(&mut self, flow: Flow) -> Vec<Sent> {
        self.proxy.connection_ended(self.now, flow, &mut self.out);
        self.collect();
        self.take()
    }

    pub fn answer(&mut self, id: TransactionId, answer: &busyhour_proxy::Answer<'_>) -> Vec<Sent> {
        self.proxy.answer(self.now, id, answer, &mut self.out);
        self.collect();
        self.take()
    }

    /// Lets time pass, and does what is due on the way.
    pub fn pass(&mut self, time: Duration) -> Vec<Sent> {
        let end = self.now + time;
        while let Some(due) = self.proxy.next_deadline().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.proxy.expire(self.now, &mut self.out);
            self.collect();
        }
        self.now = end;
        self.take()
    }

    pub fn pass_ms(&mut self, millis: u64) -> Vec<Sent> {
        self.pass(Duration::from_millis(millis))
    }

    /// What was sent since.
    pub fn take(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.sent)
    }

    pub fn take_events(&mut self) -> Vec<EventKind> {
        std::mem::take(&mut self.events)
    }

    /// Nothing is left of any request.
    pub fn assert_empty(&mut self) {
        self.proxy.drop_ended();
        assert!(self.proxy.is_empty(), "{} are left", self.proxy.len());
        assert_eq!(self.proxy.next_deadline(), None);
        assert_eq!(self.proxy.stats().held_bytes, 0);
        assert_eq!(Rc::strong_count(&self.permit), 1);
    }

    fn collect(&mut self) {
        let sent = self.out.take_outbound().map(|outbound| Sent {
            to: outbound.flow,
            text: String::from_utf8(outbound.datagram.to_vec()).expect("a text"),
            branch: outbound.branch,
            may_connect: outbound.may_connect,
        });
        self.sent.extend(sent);
        let kinds = self.out.take_events().map(|Event { kind, .. }| kind);
        self.events.extend(kinds);
    }
}

pub fn routing<'a>(
    message: &Message<'a>,
    loops: &LoopDetection,
) -> Result<Routing<'a>, RequestRefusal> {
    let essentials = message.essentials()?;
    Routing::read(message, &essentials, loops, &Us)
}

pub fn inbound<'m, 'a>(
    message: &'m Message<'a>,
    datagram: &'m busyhour::buffer::Buffer,
    flow: Flow,
) -> Inbound<'m, 'a> {
    Inbound {
        message,
        datagram,
        flow,
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

pub fn flow(remote: &str) -> Flow {
    Flow::udp(address("192.0.2.1:5060"), address(remote))
}

pub fn tcp(remote: &str) -> Flow {
    Flow {
        transport: Transport::Tcp,
        connection: 1,
        ..flow(remote)
    }
}

pub fn alice() -> Flow {
    flow("192.0.2.7:40000")
}

/// Telephone `number` of bob.
pub fn bob(number: u8) -> Flow {
    flow(&format!("192.0.2.{}:5060", 100 + number))
}

pub fn target(number: u8) -> Target {
    let uri = format!("sip:bob@192.0.2.{}", 100 + number);
    let mut target = Target::new(Some(uri.into()), NextHop::registered(bob(number)));
    target.label = number.into();
    target
}

/// Telephones in groups.
pub fn targets(groups: &[&[u8]]) -> TargetSet {
    let in_group = |(group, numbers): (usize, &&[u8])| {
        let target = move |number: &u8| Target {
            group: group as u16,
            ..target(*number)
        };
        numbers.iter().map(target).collect::<Vec<_>>()
    };
    TargetSet {
        targets: groups.iter().enumerate().flat_map(in_group).collect(),
        ..TargetSet::default()
    }
}

/// A request of alice's to bob, `method` with these further header lines.
pub fn request(method: &str, more: &str) -> String {
    format!(
        "{method} sip:bob@example.org SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKa{method};rport\r\n\
         {more}Max-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=a\r\n\
         To: <sip:bob@example.org>\r\n\
         Call-ID: call-1\r\n\
         CSeq: 1 {method}\r\n\
         Contact: <sip:alice@192.0.2.7:40000>\r\n\
         Content-Length: 4\r\n\r\nbody"
    )
}

pub fn invite() -> String {
    request("INVITE", "")
}

/// ACK or CANCEL of alice's INVITE.
pub fn of_invite(method: &str, more: &str) -> String {
    request(method, more).replace(&format!("z9hG4bKa{method}"), "z9hG4bKaINVITE")
}

/// A response to a request, as a UAS writes it.
pub fn response(request: &str, status: u16, tag: &str) -> String {
    let mut text = format!("SIP/2.0 {status} Reason\r\n");
    let copied = ["Via", "From", "To", "Call-ID", "CSeq", "Record-Route"];
    for line in request.lines().skip(1).take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or("");
        if copied.contains(&name) {
            text.push_str(line);
            if name == "To" && status > 100 && !line.contains("tag=") {
                text.push_str(&format!(";tag={tag}"));
            }
            text.push_str("\r\n");
        }
    }
    text + "Content-Length: 0\r\n\r\n"
}

/// A response with a header more.
pub fn response_with(request: &str, status: u16, header: &str) -> String {
    let plain = response(request, status, "b");
    plain.replace("Content-Length", &format!("{header}\r\nContent-Length"))
}

/// The lines of this header.
pub fn lines<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let head = text.split("\r\n\r\n").next().unwrap_or("");
    let named = head
        .split("\r\n")
        .skip(1)
        .filter_map(|line| line.split_once(": "));
    named
        .filter(|(it, _)| *it == name)
        .map(|(_, value)| value)
        .collect()
}

/// Status lines or request lines, with the address they went to.
pub fn starts(sent: &[Sent]) -> Vec<String> {
    let start = |sent: &Sent| {
        let line = sent.text.lines().next().unwrap_or("");
        let short = match line.strip_prefix("SIP/2.0 ") {
            Some(status) => status.split(' ').next().unwrap_or(""),
            None => line.split(' ').next().unwrap_or(""),
        };
        format!("{short} > {}", sent.to.remote)
    };
    sent.iter().map(start).collect()
}
