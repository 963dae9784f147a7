//! The proxy's events tell the table of dialogs what it forwards, and the tokens in
//! Record-Route say where a request within a dialog goes: as a server wires them.

use std::{collections::BTreeMap, time::Duration};

use busyhour::{
    buffer::BufferPool,
    bus::Name,
    clock::{Instant, UnixTime},
};
use busyhour_proxy::{
    Actions, Begun, Edge, EventKind, FailureCause, Identity, Inbound, LoopDetection, NextHop,
    Passage, Policy, Proxy, Received, Routing, Target, TargetSet,
    dialogs::{
        CallEvent, CallHandle, DialogActions, DialogPolicy, DialogRequest, Dialogs, Party, Role,
        RouteToken, RouteTokens,
    },
};
use busyhour_registrar::{
    Now,
    watch::{DeviceDialogs, LineState},
};
use busyhour_sip::{Flow, HeaderName, Host, Message, Method, SipUri};

/// RFC 3261 §16: alice calls bob, who has two telephones; one answers; each holds; he hangs
/// up.
#[test]
fn lamps_follow_a_call_through_the_proxy() {
    let mut server = Server::new();
    let sent = server.request(alice(), &INVITE.replace("BRANCH", "1"));
    let invites: Vec<_> = sent
        .iter()
        .filter(|it| it.1.starts_with("INVITE"))
        .collect();
    assert_eq!(
        (invites.len(), server.line("alice"), server.line("bob")),
        (2, IN_USE, IDLE)
    );
    for (flow, text) in &invites {
        server.response(*flow, &answer(text, 180, &tag_of(*flow)));
    }
    assert_eq!(server.line("bob"), LineState::Ringing);
    let (flow, invite) = invites[1];
    let sent = server.response(*flow, &answer(invite, 200, &tag_of(*flow)));
    assert_eq!((server.line("alice"), server.line("bob")), (IN_USE, IN_USE));
    let ok = &sent
        .iter()
        .find(|it| it.1.starts_with("SIP/2.0 200"))
        .expect("the answer")
        .1;

    // The ACK goes by its tokens to the very flow.
    let ack = within("ACK", 1, ok, "", Role::Caller);
    let sent = server.request(alice(), &ack);
    assert_eq!((sent.len(), sent[0].0.remote), (1, flow.remote));
    assert_eq!(
        sent[0].1.lines().next(),
        Some("ACK sip:bob2@192.0.2.9:2 SIP/2.0")
    );

    // Alice holds.
    hold(&mut server, ok, Role::Caller, 2);
    assert_eq!(
        (server.line("alice"), server.line("bob")),
        (LineState::OnHold, IN_USE)
    );

    let bye = within("BYE", 1, ok, "", Role::Callee);
    let sent = server.request(*flow, &bye);
    assert_eq!(sent[0].0.remote.port(), 1_000);
    assert_eq!((server.line("alice"), server.line("bob")), (IDLE, IDLE));
    server.response(sent[0].0, &answer(&sent[0].1, 200, "a"));
    assert_eq!((server.records, server.dialogs.len()), (1, 0));
}

/// The other telephones go back to idle with the refusal, whose reason is the best
/// response.
#[test]
fn lamps_follow_a_call_that_nobody_takes() {
    let mut server = Server::new();
    let sent = server.request(alice(), &INVITE.replace("BRANCH", "1"));
    for (flow, text) in sent.iter().filter(|it| it.1.starts_with("INVITE")) {
        server.response(*flow, &answer(text, 180, &tag_of(*flow)));
        server.response(*flow, &answer(text, 486, &tag_of(*flow)));
    }
    assert_eq!((server.line("alice"), server.line("bob")), (IDLE, IDLE));
    assert_eq!((server.records, server.dialogs.len()), (1, 0));
}

#[test]
fn lamps_go_out_when_no_telephone_answers_at_all() {
    let mut server = Server::new();
    server.request(alice(), &INVITE.replace("BRANCH", "1"));
    assert_eq!(server.line("alice"), IN_USE);
    server.wait(33);
    assert_eq!((server.line("alice"), server.line("bob")), (IDLE, IDLE));
}

#[test]
fn a_cancelled_call_leaves_no_lamp() {
    let mut server = Server::new();
    let sent = server.request(alice(), &INVITE.replace("BRANCH", "1"));
    let invites: Vec<_> = sent
        .iter()
        .filter(|it| it.1.starts_with("INVITE"))
        .collect();
    for (flow, text) in &invites {
        server.response(*flow, &answer(text, 180, &tag_of(*flow)));
    }
    let cancel = INVITE.replace("BRANCH", "1");
    let cancel = cancel
        .split("Content-Type")
        .next()
        .unwrap()
        .replace("INVITE", "CANCEL");
    server.request(alice(), &format!("{cancel}Content-Length: 0\r\n\r\n"));
    for (flow, text) in &invites {
        server.response(*flow, &answer(text, 487, &tag_of(*flow)));
    }
    assert_eq!((server.line("alice"), server.line("bob")), (IDLE, IDLE));
}

/// A server that has started anew knows no dialog; the tokens still carry requests, and a
/// re-INVITE brings the lamps back.
#[test]
fn a_new_process_carries_the_calls_of_the_old_one() {
    let mut server = Server::new();
    let sent = server.request(alice(), &INVITE.replace("BRANCH", "1"));
    let (flow, invite) = sent
        .iter()
        .find(|it| it.1.starts_with("INVITE"))
        .expect("sent");
    let sent = server.response(*flow, &answer(invite, 200, &tag_of(*flow)));
    let ok = sent
        .iter()
        .find(|it| it.1.starts_with("SIP/2.0 200"))
        .expect("the answer")
        .1
        .clone();
    let mut server = Server::new();
    hold(&mut server, &ok, Role::Callee, 7);
    assert_eq!(
        (server.line("alice"), server.line("bob")),
        (IN_USE, LineState::OnHold)
    );
    server.request(alice(), &within("BYE", 9, &ok, "", Role::Caller));
    assert_eq!((server.line("alice"), server.line("bob")), (IDLE, IDLE));
    // A token of another call leads nowhere.
    let forged = within("INFO", 9, &ok, "", Role::Caller).replace("Call-ID: c1", "Call-ID: c2");
    assert!(server.request(alice(), &forged).is_empty());
}

/// What a server keeps with each request.
struct Data {
    call: Option<CallHandle>,
    within: Option<DialogRequest>,
    /// By role, for a request within a dialog; its sender.
    parties: Option<([Party; 2], Role)>,
    caller: Party,
}

struct Us {
    tokens: RouteTokens,
}

impl Edge for Us {
    type Data = Data;

    fn put_sent_by(&self, flow: Flow, out: &mut String) {
        out.push_str(&flow.local.ip().to_string());
    }

    fn put_record_route(&self, passage: &Passage<'_, '_, Data>, out: &mut String) {
        if passage.data.within.is_some() || passage.data.parties.is_some() {
            return;
        }
        let call_id = passage.request.call_id().expect("it was checked");
        let sides = [
            (Role::Callee, bob(passage.label)),
            (Role::Caller, passage.data.caller.clone()),
        ];
        for (index, (role, party)) in sides.into_iter().enumerate() {
            out.push_str(if index == 0 { "<sip:" } else { ", <sip:" });
            let carrier = 0;
            let token = RouteToken {
                role,
                party,
                carrier,
            };
            self.tokens.write(&token, call_id, out);
            out.push_str("@192.0.2.1;lr>");
        }
    }
}

impl Identity for Us {
    fn is_us(&self, host: &Host<'_>, _: Option<u16>) -> bool {
        ["192.0.2.1", "example.org"].contains(&host.to_string().as_str())
    }

    fn is_record_route(&self, uri: &SipUri<'_>) -> bool {
        uri.user.is_some_and(RouteTokens::is_token)
    }
}

struct Server {
    proxy: Proxy<Us>,
    dialogs: Dialogs,
    devices: BTreeMap<Name, DeviceDialogs>,
    records: usize,
    now: Instant,
    pool: BufferPool,
    loops: LoopDetection,
    tokens: RouteTokens,
    out: Actions,
    follows: DialogActions,
}

impl Server {
    fn new() -> Self {
        let pool = BufferPool::builder().build().expect("a pool");
        let loops = LoopDetection::new(1);
        let tokens = RouteTokens::new([9; 32]);
        let us = Us {
            tokens: tokens.clone(),
        };
        Self {
            proxy: Proxy::new(Policy::default(), us, pool.clone(), loops.clone(), 2),
            dialogs: Dialogs::new(1, 0, DialogPolicy::default()),
            devices: BTreeMap::new(),
            records: 0,
            now: Instant::from_nanos(1_000_000_000),
            pool,
            loops,
            tokens,
            out: Actions::default(),
            follows: DialogActions::default(),
        }
    }

    fn line(&self, user: &str) -> LineState {
        let device = self.devices.get(&aor(user));
        device.and_then(DeviceDialogs::line).unwrap_or(IDLE)
    }

    /// A request comes; what is sent.
    fn request(&mut self, flow: Flow, text: &str) -> Vec<(Flow, String)> {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = Inbound {
            message: &message,
            datagram: &datagram,
            flow,
        };
        if self.proxy.receive(self.now, &inbound, &mut self.out) == Received::New {
            self.begin(&inbound);
        }
        self.follow(Some(&message))
    }

    fn begin(&mut self, inbound: &Inbound<'_, '_>) {
        let essentials = inbound.message.essentials().expect("sound");
        let us = Us {
            tokens: self.tokens.clone(),
        };
        let routing = Routing::read(inbound.message, &essentials, &self.loops, &us).expect("valid");
        match routing.is_in_dialog() {
            true => self.begin_within(inbound, &routing),
            false => self.begin_call(inbound, &routing),
        }
    }

    fn begin_call(&mut self, inbound: &Inbound<'_, '_>, routing: &Routing<'_>) {
        let caller = Party::device(aor("alice"), inbound.flow);
        let (at, follows) = (self.at(), &mut self.follows);
        let call = self
            .dialogs
            .invite(at, inbound.message, caller.clone(), None, follows);
        let data = Data {
            call,
            within: None,
            parties: None,
            caller,
        };
        let begun = self
            .proxy
            .begin(self.now, inbound, routing, data, &mut self.out);
        let Ok(Begun::New(id)) = begun else {
            panic!("it is new")
        };
        let target = |label: u64| {
            let uri = format!("sip:bob{label}@192.0.2.9:{label}").into();
            let mut target = Target::new(Some(uri), NextHop::registered(bob(label).flow));
            target.label = label;
            target
        };
        let targets = TargetSet {
            targets: vec![target(1), target(2)],
            ..TargetSet::default()
        };
        self.proxy.forward(self.now, id, targets, &mut self.out);
    }

    fn begin_within(&mut self, inbound: &Inbound<'_, '_>, routing: &Routing<'_>) {
        let message = inbound.message;
        let users: Vec<_> = routing.own_routes().filter_map(|uri| uri.user).collect();
        let call_id = message.call_id().expect("sound");
        let Ok((parties, sender)) = self.tokens.read_pair(users[0], users[1], call_id) else {
            return;
        };
        let known = self
            .dialogs
            .request(self.now, message, inbound.flow, &mut self.follows);
        let hop = NextHop::registered(parties[sender.other() as usize].flow);
        if message.method() == Some(Method::Ack) {
            return self
                .proxy
                .forward_ack(inbound, routing, &hop.into(), &mut self.out);
        }
        let caller = parties[0].clone();
        let parties = Some((parties, sender));
        let data = Data {
            call: None,
            within: known,
            parties,
            caller,
        };
        let begun = self
            .proxy
            .begin(self.now, inbound, routing, data, &mut self.out);
        let Ok(Begun::New(id)) = begun else {
            panic!("it is new")
        };
        self.proxy
            .forward(self.now, id, Target::new(None, hop).into(), &mut self.out);
    }

    fn response(&mut self, flow: Flow, text: &str) -> Vec<(Flow, String)> {
        let datagram = self.pool.copy_from(text.as_bytes()).expect("memory");
        let message = Message::parse(&datagram).expect("a message");
        let inbound = Inbound {
            message: &message,
            datagram: &datagram,
            flow,
        };
        assert!(
            self.proxy
                .receive_response(self.now, &inbound, &mut self.out)
        );
        self.follow(Some(&message))
    }

    fn wait(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        loop {
            let next = [self.proxy.next_deadline(), self.dialogs.next_deadline()];
            let Some(next) = next
                .into_iter()
                .flatten()
                .min()
                .filter(|next| *next <= until)
            else {
                break;
            };
            self.now = self.now.max(next);
            self.proxy.expire(self.now, &mut self.out);
            self.dialogs.expire(self.now, &mut self.follows);
            self.follow(None);
        }
        self.now = until;
    }

    /// Tells the table what has happened, and the devices what follows.
    fn follow(&mut self, message: Option<&Message<'_>>) -> Vec<(Flow, String)> {
        for event in self.out.take_events().collect::<Vec<_>>() {
            let Some(data) = self.proxy.data(event.transaction) else {
                continue;
            };
            let (call, within, parties) = (data.call, data.within, data.parties.clone());
            match (call, within) {
                (Some(call), _) => self.tell_call(call, event.kind, message),
                (None, Some(within)) => self.tell_dialog(within, event.kind, message),
                (None, None) => {
                    if let (EventKind::Answered { .. }, Some((parties, sender)), Some(message)) =
                        (event.kind, parties, message)
                    {
                        let (at, follows) = (self.at(), &mut self.follows);
                        self.dialogs.adopt(at, message, parties, sender, follows);
                    }
                }
            }
        }
        for change in self.follows.changes.drain(..) {
            let device = self.devices.entry(change.device.clone()).or_default();
            device.apply(change);
        }
        let calls = self.follows.calls.drain(..);
        self.records += calls.filter_map(CallEvent::into_record).count();
        self.follows.clear();
        let sent = self.out.take_outbound();
        sent.map(|it| (it.flow, String::from_utf8_lossy(&it.datagram).into_owned()))
            .collect()
    }

    fn tell_call(&mut self, call: CallHandle, kind: EventKind, message: Option<&Message<'_>>) {
        let (dialogs, out, now) = (&mut self.dialogs, &mut self.follows, self.now);
        match (kind, message) {
            (EventKind::Forwarded { branch, label, .. }, _) => {
                dialogs.forwarded(call, branch, bob(label));
            }
            (
                EventKind::Progress { branch, .. }
                | EventKind::Answered { branch, .. }
                | EventKind::Failed {
                    branch,
                    cause: FailureCause::Response,
                    ..
                },
                Some(message),
            ) => dialogs.response(now, call, branch, message, out),
            (EventKind::Failed { branch, status, .. }, _) => {
                dialogs.failed(now, call, branch, status, out);
            }
            (EventKind::Cancelled, _) => dialogs.cancelled(call),
            (EventKind::Refused { status, .. }, _) => dialogs.refused(now, call, status, out),
            _ => {}
        }
    }

    fn tell_dialog(
        &mut self,
        within: DialogRequest,
        kind: EventKind,
        message: Option<&Message<'_>>,
    ) {
        let (dialogs, out, now) = (&mut self.dialogs, &mut self.follows, self.now);
        match (kind, message) {
            (EventKind::Progress { .. } | EventKind::Answered { .. }, Some(message)) => {
                dialogs.answered(now, within, message, out);
            }
            (
                EventKind::Failed {
                    cause: FailureCause::Response,
                    ..
                },
                _,
            ) => dialogs.heard(now, within),
            (EventKind::Refused { status, .. }, _) => {
                dialogs.unanswered(now, within, status, out);
            }
            (EventKind::Unanswered, _) => dialogs.unanswered(now, within, 408, out),
            _ => {}
        }
    }

    fn at(&self) -> Now {
        let unix = UnixTime::from_secs(1_800_000_000);
        Now {
            now: self.now,
            unix,
            steady: unix,
        }
    }
}

/// A re-INVITE that holds, answered and acknowledged.
fn hold(server: &mut Server, ok: &str, sender: Role, cseq: u32) {
    let body = "m=audio 4000 RTP/AVP 0\r\na=sendonly\r\n";
    let flow = match sender {
        Role::Caller => alice(),
        Role::Callee => bob(2).flow,
    };
    let sent = server.request(flow, &within("INVITE", cseq, ok, body, sender));
    let (flow, text) = sent
        .iter()
        .find(|it| it.1.starts_with("INVITE"))
        .expect("sent");
    let recvonly = answer(text, 200, "x").replace("a=sendonly", "a=recvonly");
    server.response(*flow, &recvonly);
}

/// The answer to a request as it was sent, with its body; the tag only where none is.
fn answer(request: &str, status: u16, tag: &str) -> String {
    let (_, rest) = request.split_once("\r\n").expect("a line");
    let message = Message::parse(request.as_bytes()).expect("sound");
    let to = format!("To: {}", message.header(HeaderName::To).expect("To"));
    let rest = match message.to().expect("To").tag() {
        None => rest.replacen(&to, &format!("{to};tag={tag}"), 1),
        Some(_) => rest.to_owned(),
    };
    let contact = format!(
        "Contact: {}",
        message.header(HeaderName::Contact).unwrap_or("")
    );
    let uri = request.split(' ').nth(1).expect("a URI");
    let rest = rest.replacen(&contact, &format!("Contact: <{uri}>"), 1);
    format!("SIP/2.0 {status} Because\r\n{rest}")
}

/// A request within the dialog of a 200 that the caller received: the callee's route is as
/// in Record-Route, the caller's is reversed (RFC 3261 §12.1).
fn within(method: &str, cseq: u32, ok: &str, body: &str, sender: Role) -> String {
    let ok = Message::parse(ok.as_bytes()).expect("sound");
    let mut route: Vec<_> = ok.elements(HeaderName::RecordRoute).collect();
    let mut names = [ok.header(HeaderName::From), ok.header(HeaderName::To)].map(Option::unwrap);
    let mut uri = "sip:bob2@192.0.2.9:2";
    match sender {
        Role::Caller => route.reverse(),
        Role::Callee => {
            names.reverse();
            uri = "sip:alice@192.0.2.7:1000";
        }
    }
    let [from, to] = names;
    let media = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/sdp\r\n"
    };
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK{method}{cseq}\r\n\
         Max-Forwards: 70\r\nRoute: {}\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: c1\r\n\
         CSeq: {cseq} {method}\r\nContact: <{uri}>\r\n{media}Content-Length: {}\r\n\r\n{body}",
        route.join(", "),
        body.len()
    )
}

fn aor(user: &str) -> Name {
    Name::new(&format!("sip:{user}@example.org"))
}

/// One of bob's telephones.
fn bob(label: u64) -> Party {
    let remote = ([192, 0, 2, 9], label as u16).into();
    let flow = Flow::udp(([192, 0, 2, 1], 5_060).into(), remote);
    Party::device(aor("bob"), flow)
}

fn alice() -> Flow {
    Flow::udp(
        ([192, 0, 2, 1], 5_060).into(),
        ([192, 0, 2, 7], 1_000).into(),
    )
}

fn tag_of(flow: Flow) -> String {
    format!("b{}", flow.remote.port())
}

const IN_USE: LineState = LineState::InUse;
const IDLE: LineState = LineState::Idle;
const INVITE: &str = "INVITE sip:bob@example.org SIP/2.0\r\n\
    Via: SIP/2.0/UDP 192.0.2.7:1000;branch=z9hG4bKBRANCH\r\nMax-Forwards: 70\r\n\
    From: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>\r\nCall-ID: c1\r\n\
    CSeq: 1 INVITE\r\nContact: <sip:alice@192.0.2.7:1000>\r\n\
    Content-Type: application/sdp\r\nContent-Length: 24\r\n\r\nm=audio 4000 RTP/AVP 0\r\n";
