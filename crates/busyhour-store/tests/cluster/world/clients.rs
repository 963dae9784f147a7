//! Publishers, panels that watch, and telephones that answer questions or send keep-alives; and what must be so for them.

use super::{BEGIN, Event, QUIET, ROUGH, World};
use crate::{
    letter::{client_of, flow_of},
    node::{
        Life,
        presence::{body_of, request_name},
    },
};
use busyhour_registrar::watch::Restorable;
use busyhour_sip::{Flow, HeaderName, Message, Transport};
use busyhour_store::SoftStateKind;

/// Publishes the state of one device: it begins, changes and takes back, and sends a request again, to any node, until it
/// is answered.
pub struct Publisher {
    aor: Box<str>,
    tag: Option<String>,
    cseq: u32,
    version: u32,
    /// Each publication has a Call-ID of its own.
    begun: u32,
    /// Those that were given up, so that nobody knows whether they are there.
    given_up: usize,
    waiting: Option<SentRequest>,
}

/// Watches one device over datagrams or a connection.
pub struct Panel {
    aor: Box<str>,
    transport: Transport,
    node: usize,
    /// The process that has its connection, and the number of that.
    process: u64,
    connection: u32,
    calls: u32,
    cseq: u32,
    /// The other end's tag.
    tag: Option<String>,
    waiting: Option<SentRequest>,
    last_cseq: u32,
    body: String,
    subscribe_at: u64,
}

#[derive(Clone)]
struct SentRequest {
    text: String,
    name: String,
    sent: u32,
}

impl World {
    /// Publishers and panels take most of the time, so one seed in thirteen has them, which is odd and even ones.
    pub(super) fn add_clients(&mut self) {
        for number in 0..self.devices.len() {
            if !self.seed.is_multiple_of(13) {
                let at = 1500 + self.below(1000);
                self.push(at, Event::Phone(number));
                continue;
            }
            let aor = self.devices[number].aor.clone();
            self.publishers.push(Publisher {
                aor: aor.clone(),
                tag: None,
                cseq: 0,
                version: 0,
                begun: 0,
                given_up: 0,
                waiting: None,
            });
            let node = self.any_node();
            self.panels.push(Panel {
                aor,
                transport: match number.is_multiple_of(3) {
                    true => Transport::Tcp,
                    false => Transport::Udp,
                },
                node,
                process: 0,
                connection: 0,
                calls: 0,
                cseq: 0,
                tag: None,
                waiting: None,
                last_cseq: 0,
                body: String::new(),
                subscribe_at: 0,
            });
            let at = 1500 + self.below(1000);
            self.push(at, Event::Publisher(number));
            self.push(at, Event::Panel(number));
            self.push(at, Event::Phone(number));
        }
    }

    pub(super) fn any_node(&mut self) -> usize {
        self.below(self.machines.len() as u64) as usize
    }

    fn send_from(&mut self, flow: Flow, text: &str) {
        let node = usize::from(flow.node) - 1;
        let process = self.machines[node].process;
        self.tell(|| format!("client {} to {node}: {}", client_of(flow), summary(text)));
        let delays = match flow.transport.is_reliable() {
            true => vec![2],
            false => self.delays(),
        };
        for delay in delays {
            let arrives = Event::FromClient(node, process, flow, text.to_owned());
            self.push(delay, arrives);
        }
    }

    pub(super) fn send_to_client(&mut self, number: usize, flow: Flow, text: String) {
        let process = self.machines[number].process;
        let delays = match flow.transport.is_reliable() {
            true => vec![2],
            false => self.delays(),
        };
        for delay in delays {
            self.push(delay, Event::ToClient(number, process, flow, text.clone()));
        }
    }

    /// Clients are numbered: telephones, publishers, panels.
    pub(super) fn client_hears(&mut self, number: usize, process: u64, flow: Flow, text: &str) {
        let (client, count) = (client_of(flow), self.devices.len());
        self.tell(|| format!("{number} to client {client}: {}", summary(text)));
        let message = Message::parse(text.as_bytes()).expect("our own text");
        match client / count {
            0 => {
                if text.starts_with("OPTIONS ") && !is_mute(client) {
                    let flow = flow_of(client, number, (Transport::Udp, 0));
                    self.send_from(flow, &answer_to(text, "200 OK"));
                }
            }
            1 => self.publish_answered(client % count, &message, text),
            _ => self.panel_hears(client % count, (process, flow), &message, text),
        }
    }

    pub(super) fn phone(&mut self, number: usize) {
        self.push(1200, Event::Phone(number));
        if is_mute(number) {
            let asked = self.devices[number].asked;
            self.send_from(flow_of(number, asked, (Transport::Udp, 0)), "\r\n\r\n");
        }
    }

    /// For who sends keep-alives those have to be enough, once it has registered when no node starts any more: a node that
    /// has just started does not know whose keep-alives come to it.
    pub(super) fn is_kept_alive(&self, number: usize) -> bool {
        let device = &self.devices[number];
        let is_registered =
            device.waiting.is_none() && device.asked_at >= BEGIN + ROUGH + QUIET / 4;
        is_mute(number) && is_registered
    }

    pub(super) fn publisher(&mut self, number: usize) {
        let pause = 1000 + self.below(2000);
        let (choice, node) = (self.below(4), self.any_node());
        let publisher = &mut self.publishers[number];
        match &mut publisher.waiting {
            Some(waiting) if waiting.sent < SENT_MAX => {
                waiting.sent += 1;
                let text = waiting.text.clone();
                self.push(500, Event::Publisher(number));
                return self.send_publish(number, node, &text);
            }
            Some(_) => {
                // It begins anew, and what was may live on.
                publisher.given_up += 1;
                (publisher.waiting, publisher.tag) = (None, None);
            }
            None => {}
        }
        if !self.is_busy {
            return;
        }
        self.push(pause, Event::Publisher(number));
        let text = self.publishers[number].next(choice == 0);
        self.send_publish(number, node, &text);
    }

    fn send_publish(&mut self, number: usize, node: usize, text: &str) {
        let client = self.devices.len() + number;
        self.send_from(flow_of(client, node, (Transport::Udp, 0)), text);
    }

    fn publish_answered(&mut self, number: usize, message: &Message<'_>, text: &str) {
        let name = request_name(message);
        let (seed, publisher) = (self.seed, &mut self.publishers[number]);
        if publisher.waiting.as_ref().is_none_or(|it| it.name != name) {
            return;
        }
        let is_removal = text.contains("\r\nExpires: 0\r\n");
        if text.starts_with("SIP/2.0 200 ") {
            let tag = message.header(HeaderName::SipEtag).map(str::to_owned);
            publisher.tag = tag.filter(|_| !is_removal);
            publisher.waiting = None;
        } else if text.starts_with("SIP/2.0 412 ") {
            let aor = &publisher.aor;
            assert!(
                !self.database.published.contains(&name),
                "seed {seed}: {aor} has 412 to {name}, which was committed"
            );
            (publisher.waiting, publisher.tag) = (None, None);
        }
    }

    pub(super) fn panel(&mut self, number: usize) {
        self.push(500, Event::Panel(number));
        let node = self.any_node();
        let now = self.now.as_millis() as u64;
        let renewal = 3000 + self.below(6000);
        let count = self.devices.len();
        let panel = &mut self.panels[number];
        let machine = &self.machines[panel.node];
        let is_cut = panel.transport.is_reliable()
            && (machine.process != panel.process || machine.life.is_none());
        if is_cut {
            // Whoever takes its next connection.
            panel.node = node;
            panel.process = self.machines[node].process;
            panel.connection += 1;
            panel.waiting = None;
        }
        match &mut panel.waiting {
            Some(waiting) if waiting.sent < SENT_MAX => {
                waiting.sent += 1;
                if panel.transport.is_reliable() {
                    return;
                }
            }
            _ => {
                let was_given_up = panel.waiting.take().is_some();
                // When there are no faults any more, it has to be told without asking.
                let is_due = now >= panel.subscribe_at && self.is_rough;
                if panel.tag.is_some() && !is_cut && !is_due && !was_given_up {
                    return;
                }
                if panel.tag.is_none() || was_given_up {
                    panel.begin();
                }
                panel.subscribe_at = now + renewal;
                panel.subscribe(number);
            }
        }
        let Some(waiting) = &panel.waiting else {
            return;
        };
        let (text, client) = (waiting.text.clone(), 2 * count + number);
        let way = (panel.transport, panel.connection);
        let flow = flow_of(client, panel.node, way);
        self.send_from(flow, &text);
    }

    fn panel_hears(
        &mut self,
        number: usize,
        (process, flow): (u64, Flow),
        message: &Message<'_>,
        text: &str,
    ) {
        let panel = &mut self.panels[number];
        if flow.transport.is_reliable()
            && (flow.connection != panel.connection || process != panel.process)
        {
            return;
        }
        if text.starts_with("SIP/2.0 ") {
            return panel.answered(message, text);
        }
        let answer = panel.notified(message, text);
        let node = usize::from(flow.node) - 1;
        let way = (panel.transport, panel.connection);
        let flow = flow_of(client_of(flow), node, way);
        self.send_from(flow, &answer_to(text, answer));
    }

    /// What must be so for the clients of a device when all is quiet.
    pub(super) fn check_clients(&self, number: usize, owner: &Life) {
        let seed = self.seed;
        let Some(panel) = self.panels.get(number) else {
            return;
        };
        let device = &self.devices[number];
        let aor = &device.aor;
        assert!(panel.tag.is_some(), "seed {seed}: {aor} is not watched");
        let count = self.devices.len();
        let flow = flow_of(2 * count + number, panel.node, (panel.transport, 1));
        let now = self.local(owner.number);
        let subscribe = panel.request(number, "any@any", 1, None);
        let expected = owner.expected_body(now, aor, &subscribe, flow);
        assert_eq!(panel.body, expected, "seed {seed}: what watches {aor}");
        if device.acknowledged > 0 && !device.is_away {
            let is_open = expected.contains("<basic>open</basic>");
            assert!(is_open, "seed {seed}: {aor} is told as gone");
        }
        let publisher = &self.publishers[number];
        let soft = self.database.soft_of(aor);
        let publications = soft.filter(|row| row.kind == SoftStateKind::Publication);
        let live = publications.filter(|row| {
            let stored = Restorable::read(&row.value).expect("as it was written");
            !stored.is_removal()
        });
        let live: Vec<&str> = live.map(|row| &*row.value).collect();
        if let (Some(tag), None) = (&publisher.tag, &publisher.waiting) {
            let is_there = live.iter().any(|row| row.contains(tag.as_str()));
            assert!(is_there, "seed {seed}: {aor} has published {tag}: {live:?}");
        }
        let known = usize::from(publisher.tag.is_some() || publisher.waiting.is_some());
        assert!(
            live.len() <= publisher.given_up + known,
            "seed {seed}: {aor} has {live:?}, and {} were given up",
            publisher.given_up
        );
    }
}

impl Publisher {
    fn next(&mut self, is_removal: bool) -> String {
        self.cseq += 1;
        self.version += 1;
        let condition = match &self.tag {
            Some(tag) => format!("SIP-If-Match: {tag}\r\n"),
            None => {
                self.begun += 1;
                String::new()
            }
        };
        let (begun, cseq, version, aor) = (self.begun, self.cseq, self.version, &self.aor);
        let body = format!(
            "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"{aor}\"><tuple id=\"t\"><status>\
             <basic>closed</basic></status><note>v{version}.</note></tuple></presence>"
        );
        let (body, expires) = match is_removal && self.tag.is_some() {
            true => ("", 0),
            false => (&*body, 3600),
        };
        let kind = match body {
            "" => "",
            _ => "Content-Type: application/pidf+xml\r\n",
        };
        let text = format!(
            "PUBLISH {aor} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.100;branch=z9hG4bKp{begun}x{cseq};rport\r\n\
             From: <{aor}>;tag=p\r\nTo: <{aor}>\r\nCall-ID: p{begun}@{aor}\r\nCSeq: {cseq} PUBLISH\r\n\
             Event: presence\r\nExpires: {expires}\r\n{condition}{kind}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.waiting = Some(SentRequest {
            name: format!("p{begun}@{aor} {cseq}"),
            text: text.clone(),
            sent: 1,
        });
        text
    }
}

impl Panel {
    /// Another subscription.
    fn begin(&mut self) {
        self.calls += 1;
        (self.tag, self.last_cseq) = (None, 0);
        self.body.clear();
    }

    fn call_id(&self) -> String {
        format!("w{}@{}", self.calls, self.aor)
    }

    fn subscribe(&mut self, number: usize) {
        self.cseq += 1;
        let call_id = self.call_id();
        let text = self.request(number, &call_id, self.cseq, self.tag.as_deref());
        let name = format!("{call_id} {}", self.cseq);
        self.waiting = Some(SentRequest {
            text,
            name,
            sent: 1,
        });
    }

    fn request(&self, number: usize, call_id: &str, cseq: u32, tag: Option<&str>) -> String {
        let aor = &self.aor;
        let transport = self.transport;
        let tag = tag.map_or(String::new(), |tag| format!(";tag={tag}"));
        format!(
            "SUBSCRIBE {aor} SIP/2.0\r\n\
             Via: SIP/2.0/{transport} 192.0.2.100;branch=z9hG4bKw{number}x{cseq};rport\r\n\
             From: <sip:panel{number}@example.com>;tag=w\r\nTo: <{aor}>{tag}\r\nCall-ID: {call_id}\r\n\
             CSeq: {cseq} SUBSCRIBE\r\nContact: <sip:panel{number}@192.0.2.100>\r\nEvent: presence\r\n\
             Expires: 3600\r\nContent-Length: 0\r\n\r\n"
        )
    }

    fn answered(&mut self, message: &Message<'_>, text: &str) {
        let name = request_name(message);
        if self.waiting.take_if(|it| it.name == name).is_none() {
            return;
        }
        let to = message.to().expect("our own text");
        let tag = to.tag().filter(|_| text.starts_with("SIP/2.0 200 "));
        if tag.is_some() && self.tag.is_some() {
            // A copy of the request may have opened another one at the next owner. It has refused what that said, which ended it
            // (RFC 6665 §4.4.1).
            return;
        }
        self.last_cseq = 0;
        self.tag = tag.map(str::to_owned);
    }

    /// How a NOTIFY is answered.
    fn notified(&mut self, message: &Message<'_>, text: &str) -> &'static str {
        let from = message.from().expect("our own text");
        let is_its = message.call_id().ok() == Some(&*self.call_id())
            && self
                .tag
                .as_deref()
                .is_none_or(|tag| from.tag() == Some(tag));
        if !is_its {
            return "481 No Subscription";
        }
        // It may come before the answer to its SUBSCRIBE, which opened the dialog.
        self.tag = self.tag.take().or(from.tag().map(str::to_owned));
        let cseq = message.cseq().expect("our own text").number;
        if cseq < self.last_cseq {
            return "500 Out Of Order";
        }
        if cseq > self.last_cseq {
            self.last_cseq = cseq;
            self.body = body_of(text).to_owned();
        }
        if text.contains("\r\nSubscription-State: terminated") {
            self.tag = None;
        }
        "200 OK"
    }
}

/// For a replay.
fn summary(text: &str) -> String {
    let kept = ["CSeq:", "Call-ID:", "To:", "From:"];
    let is_kept = |line: &&str| kept.iter().any(|name| line.starts_with(name));
    let lines: Vec<&str> = text.lines().filter(is_kept).collect();
    let notes: Vec<&str> = text.split("<note>").skip(1).collect();
    let notes = notes.iter().filter_map(|note| note.split('.').next());
    let first = text.lines().next().unwrap_or_default();
    format!("{first} {lines:?} {:?}", notes.collect::<Vec<_>>())
}

/// Every third telephone answers no questions.
pub(super) fn is_mute(phone: usize) -> bool {
    phone % 3 == 2
}

fn answer_to(request: &str, status: &str) -> String {
    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let is_kept = |line: &&str| kept.iter().any(|name| line.starts_with(name));
    let (head, _) = request.split_once("\r\n\r\n").unwrap_or((request, ""));
    let lines: Vec<&str> = head.lines().filter(is_kept).collect();
    let lines = lines.join("\r\n");
    format!("SIP/2.0 {status}\r\n{lines}\r\nContent-Length: 0\r\n\r\n")
}

/// Then a request is given up.
const SENT_MAX: u32 = 16;
