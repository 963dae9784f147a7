//! From a datagram to the part that handles it; runs on the network's threads.

use super::{
    inbound_request::InboundRequest,
    responder::{Response, answer_flow},
    transactions::{Seen, TransactionKey},
};
use crate::server::{
    call::calls::elsewhere::ResponseStep,
    capture::message_tap::Direction,
    cluster::requests::request_route::{Arrival, RequestRoute},
    core::Core,
    device::flows::PROBE_BRANCH,
    spans::request_span::RequestSpan,
};
use busyhour::{buffer::Buffer, clock::Instant};
use busyhour_cluster::KeptPlace;
use busyhour_proxy::Inbound;
use busyhour_registrar::{
    ALLOW_EVENTS, EVENTLIST, RECIPIENT_LIST, Refusal, SUPPORTED, address_of_record, check_require,
    watch::Dialog,
};
use busyhour_sip::{
    ACCEPT_ENCODING, Essentials, Flow, HeaderName, Message, Method, ParseError, Start, Status,
    Transport, Uri, stun,
};
use std::{
    cell::RefCell,
    sync::{Arc, atomic::Ordering},
};

/// A request that is being handled on the network's thread.
pub(in crate::server) struct Request<'a> {
    pub(in crate::server) message: &'a Message<'a>,
    pub(in crate::server) essentials: &'a Essentials<'a>,
    pub(in crate::server) datagram: &'a Buffer,
    pub(in crate::server) flow: Flow,
    pub(in crate::server) transaction: TransactionKey,
    pub(in crate::server) span: RefCell<RequestSpan>,
    /// Among those that wait for its partition, if it has to.
    pub(in crate::server) place: KeptPlace,
}

impl Core {
    pub(in crate::server) fn receive(self: &Arc<Self>, flow: Flow, datagram: &Buffer) {
        let traffic = &self.responder.traffic;
        traffic.received.increment();
        traffic.received_bytes.add(datagram.len() as u64);
        if self.is_closing.load(Ordering::Acquire) {
            return traffic.dropped_shutdown.increment();
        }
        self.devices.note_life(flow);
        if flow.transport == Transport::Udp && stun::is_stun(datagram) {
            return self.keep_alive(flow, datagram);
        }
        if self.load.is_shedding_calls() && self.sheds_unread(flow, datagram) {
            return;
        }
        match Message::parse(datagram) {
            Ok(mut message) => {
                self.responder.tap().see(Direction::In, flow, datagram);
                match message.start() {
                    Start::Request { method, .. } => {
                        // Some telephones keep their way open with it.
                        if method == Method::Options {
                            self.pass_keepalive_on(flow);
                        }
                        self.request(&mut message, method, flow, datagram, Arrival::NEW);
                    }
                    Start::Response { status, .. } => {
                        self.response(&mut message, status, flow, datagram);
                    }
                }
            }
            Err(ParseError::Empty) => {
                traffic.keepalives.increment();
                self.pass_keepalive_on(flow);
            }
            Err(error) => self.malformed(datagram, flow, error),
        }
    }

    /// Handles a request again, which has waited for the credentials of its sender.
    pub(in crate::server) fn resume(self: &Arc<Self>, flow: Flow, datagram: &Buffer) {
        if self.is_closing.load(Ordering::Acquire) {
            return self.responder.traffic.dropped_shutdown.increment();
        }
        let Ok(mut message) = Message::parse(datagram) else {
            return;
        };
        if let Start::Request { method, .. } = message.start() {
            self.request(&mut message, method, flow, datagram, Arrival::NEW);
        }
    }

    /// A keep-alive of a flow of datagrams (RFC 5626 §3.5.2).
    fn keep_alive(&self, flow: Flow, datagram: &Buffer) {
        let traffic = &self.responder.traffic;
        let mut is_request = false;
        let answer = self
            .responder
            .write(|out| is_request = stun::answer(datagram, flow.remote, out));
        match answer {
            Some(answer) if is_request => {
                traffic.keepalives.increment();
                self.responder.send(flow, answer);
                self.pass_keepalive_on(flow);
            }
            _ => traffic.malformed_silent.increment(),
        }
    }

    /// What cannot be a message, in a connection.
    pub(in crate::server) fn broken_stream(&self, flow: Flow, bytes: &Buffer, error: ParseError) {
        let traffic = &self.responder.traffic;
        traffic.received.increment();
        traffic.received_bytes.add(bytes.len() as u64);
        self.malformed(bytes, flow, error);
    }

    /// Answers what can be answered, and is silent about the rest.
    fn malformed(&self, datagram: &Buffer, flow: Flow, error: ParseError) {
        let traffic = &self.responder.traffic;
        match Message::salvage(datagram) {
            Some(request) => {
                traffic.malformed_answered.increment();
                self.responder.refuse_malformed(&request, flow, error);
            }
            None => traffic.malformed_silent.increment(),
        }
    }

    /// A response answers a probe, one of our NOTIFYs, or a request that we forwarded.
    pub(in crate::server) fn response(
        &self,
        message: &mut Message<'_>,
        status: u16,
        flow: Flow,
        datagram: &Buffer,
    ) {
        let traffic = &self.responder.traffic;
        if self.passes_response_on(message, flow, datagram) {
            return;
        }
        if self.devices.flows.may_probe() && answers_options(message) {
            let flow = self.probed_flow(message, flow);
            return self.devices.flows.answered(&flow, self.devices.clock.now());
        }
        if self.peers.answered(message, status, flow)
            || self.devices.upstream.answered(message, status, flow)
        {
            return;
        }
        let Some((tag, cseq)) = notify_of(message) else {
            let is_valid = message.keep_essentials().is_ok();
            let inbound = Inbound {
                message,
                datagram,
                flow,
            };
            let step = match is_valid {
                true => self.calls.response(&inbound),
                false => ResponseStep::Stray,
            };
            return match step {
                ResponseStep::Stray => traffic.stray_responses.increment(),
                ResponseStep::Taken => {}
                ResponseStep::Adopted(request) => self.tell_nodes_of_request(flow, &request),
            };
        };
        let Some(watcher) = self.watchers.find(tag) else {
            return traffic.stray_responses.increment();
        };
        // Requests leave half the room to responses: over a connection a response is
        // not retransmitted.
        if self.is_flooded(watcher.queued_len() / 2) || !watcher.push_answer(cseq, status) {
            traffic.dropped_device_queue.increment();
        }
    }

    pub(in crate::server) fn request(
        self: &Arc<Self>,
        message: &mut Message<'_>,
        method: Method<'_>,
        flow: Flow,
        datagram: &Buffer,
        mut arrival: Arrival,
    ) {
        match method {
            Method::Ack if self.is_acknowledged(message, flow) => {
                return self.peers.heard_on(flow);
            }
            _ => {}
        }
        let essentials = match message.keep_essentials() {
            Ok(essentials) => essentials,
            Err(error) => {
                self.responder.traffic.malformed_answered.increment();
                return self.responder.refuse_malformed(message, flow, error);
            }
        };
        let message = &*message;
        self.peers.heard_on(flow);
        let request = self.arrived(message, &essentials, (flow, datagram), &mut arrival);
        match self.hand_on(&request, &arrival) {
            RequestRoute::Here => {}
            RequestRoute::Kept => return,
            RequestRoute::HandedOn => {
                self.admission.note_handed_on(&request);
                return request.discard_span();
            }
            RequestRoute::Nobody => {
                return self.set_aside(message, flow, &mut request.span.borrow_mut());
            }
        }
        self.handle(&request, method);
    }

    /// Its span goes on if it has waited.
    fn arrived<'a>(
        &self,
        message: &'a Message<'a>,
        essentials: &'a Essentials<'a>,
        (flow, datagram): (Flow, &'a Buffer),
        arrival: &mut Arrival,
    ) -> Request<'a> {
        let begin = || self.spans.begin(message, essentials, flow);
        Request {
            message,
            essentials,
            datagram,
            flow,
            transaction: self.responder.transactions().key(message, flow.remote),
            span: arrival.take_span().unwrap_or_else(begin).into(),
            place: arrival.place(),
        }
    }

    /// As [`request`](Self::request), for one that another node has handed on; `false` if it is neither ours nor somebody's
    /// whom this node knows, and there is no room for it to wait. One that has waited here is answered here.
    pub(in crate::server) fn handed_request(
        self: &Arc<Self>,
        message: &mut Message<'_>,
        method: Method<'_>,
        flow: Flow,
        datagram: &Buffer,
        mut arrival: Arrival,
    ) -> bool {
        let Ok(essentials) = message.keep_essentials() else {
            return false;
        };
        let message = &*message;
        let request = self.arrived(message, &essentials, (flow, datagram), &mut arrival);
        match self.hand_on(&request, &arrival) {
            RequestRoute::Here => {
                self.responder.tap().see(Direction::In, flow, datagram);
                self.handle(&request, method);
            }
            RequestRoute::Kept => {}
            RequestRoute::HandedOn => request.discard_span(),
            RequestRoute::Nobody if arrival.has_waited() => {
                self.set_aside(message, flow, &mut request.span.borrow_mut());
            }
            RequestRoute::Nobody => {
                request.discard_span();
                return false;
            }
        }
        true
    }

    fn handle(self: &Arc<Self>, request: &Request<'_>, method: Method<'_>) {
        let Request {
            message,
            flow,
            transaction,
            ..
        } = *request;
        if self.is_for_proxy(request, method) {
            return self.proxy(request);
        }
        if self.absorb(message, flow, transaction) {
            return request.discard_span();
        }
        match method {
            Method::Register => self.register(request),
            Method::Subscribe => self.subscribe(request),
            Method::Publish => self.publish(request),
            Method::Options => self.options(request),
            _ => {}
        }
    }

    fn is_acknowledged(&self, ack: &Message<'_>, flow: Flow) -> bool {
        let header = |name| ack.header(name).unwrap_or("");
        self.responder.is_acknowledged(flow, header)
    }

    /// Whether it is a retransmission, which is answered here.
    pub(in crate::server) fn absorb(
        &self,
        message: &Message<'_>,
        flow: Flow,
        transaction: TransactionKey,
    ) -> bool {
        let traffic = &self.responder.traffic;
        match self.responder.transactions().seen(transaction) {
            Seen::New => false,
            Seen::InWork => {
                traffic.retransmissions_absorbed.increment();
                true
            }
            Seen::Answered(answer) => {
                traffic.retransmissions_answered.increment();
                self.responder
                    .send(answer_flow(message, flow), answer.clone());
                self.asked_again(message, flow, &answer);
                true
            }
        }
    }

    fn options(&self, request: &Request<'_>) {
        self.responder.traffic.options.increment();
        let asked = check_require(request.message).and_then(|()| self.check_asked(request));
        if let Err(refusal) = asked {
            let Request { message, flow, .. } = *request;
            return self
                .responder
                .refuse(message, flow, request.transaction, &refusal);
        }
        self.answer_options(request);
    }

    /// Phones keep their NAT open with OPTIONS, thousands of them behind one address.
    /// An answer that is no longer than its request is useless to an attacker with a
    /// forged address, so it takes no token; if no token is left, the answer omits what
    /// RFC 3261 §11.2 says it SHOULD contain.
    fn answer_options(&self, request: &Request<'_>) {
        let Request { message, flow, .. } = *request;
        let is_short = |answer: &Buffer| answer.len() <= request.datagram.len();
        let answer = |finish: fn(Response<'_, '_, '_>)| {
            self.responder
                .answer_to(message, flow, request.transaction, Status::OK, finish)
        };
        let Some(whole) = answer(tell_all) else {
            return;
        };
        if is_short(&whole) || self.responder.has_token(flow) {
            return self.responder.send(request.answer_flow(), whole);
        }
        match answer(tell_nothing).filter(is_short) {
            Some(short) => self.responder.send(request.answer_flow(), short),
            None => self.responder.traffic.unproven_not_answered.increment(),
        }
    }

    /// OPTIONS for a device that is not registered get the same answer as an INVITE
    /// (RFC 3261 §11.2).
    fn check_asked(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let uri = request.essentials.request_uri;
        match uri.as_ref().and_then(Uri::as_sip) {
            Some(sip) if sip.param("gr").is_some() => {
                let aor = address_of_record(&Uri::Sip(*sip), &self.domains)?;
                self.check_gruu(sip, &aor)
            }
            _ => Ok(()),
        }
    }
}

impl Request<'_> {
    /// Where the response to it goes.
    pub(in crate::server) fn answer_flow(&self) -> Flow {
        self.flow.answered_by(&self.essentials.via)
    }

    /// Another part takes it.
    pub(in crate::server) fn step(&self, name: &'static str) {
        self.span.borrow_mut().step(name);
    }

    /// Its final response leaves.
    pub(in crate::server) fn answered(&self, status: Status) {
        self.span.borrow_mut().answered(status.code());
    }

    /// Nobody is told of it.
    pub(in crate::server) fn discard_span(&self) {
        self.span.borrow_mut().discard();
    }

    /// For whoever goes on with it.
    pub(in crate::server) fn take_span(&self) -> RequestSpan {
        self.span.borrow_mut().take()
    }

    /// It does not go on for now after all.
    pub(in crate::server) fn put_span(&self, span: RequestSpan) {
        *self.span.borrow_mut() = span;
    }

    /// What a serializer needs to go on with it.
    pub(in crate::server) fn inbound(&self, arrived_at: Instant) -> Box<InboundRequest> {
        Box::new(InboundRequest::new(self, arrived_at))
    }
}

fn tell_all(answer: Response<'_, '_, '_>) {
    answer
        .header(HeaderName::Allow, ALLOW)
        .header(HeaderName::AllowEvents, ALLOW_EVENTS)
        .header(HeaderName::Accept, "application/sdp")
        .header(HeaderName::AcceptEncoding, ACCEPT_ENCODING)
        .header(
            HeaderName::Supported,
            format_args!("{}, {EVENTLIST}, {RECIPIENT_LIST}", SUPPORTED.join(", ")),
        )
        .finish();
}

fn tell_nothing(answer: Response<'_, '_, '_>) {
    answer.finish();
}

/// Whether it answers one of our probes.
fn answers_options(message: &Message<'_>) -> bool {
    let via = message.via();
    via.is_ok_and(|via| {
        via.branch()
            .is_some_and(|branch| branch.starts_with(PROBE_BRANCH))
    })
}

/// Our tag and the CSeq number of the NOTIFY that a response answers.
fn notify_of<'a>(message: &Message<'a>) -> Option<(&'a str, u32)> {
    let cseq = message.cseq().ok()?;
    let via = (cseq.method == Method::Notify).then(|| message.via().ok())?;
    let tag = Dialog::tag_in_branch(via?.branch()?)?;
    Some((tag, cseq.number))
}

const ALLOW: &str = "REGISTER, SUBSCRIBE, PUBLISH, OPTIONS, INVITE, ACK, CANCEL, BYE, UPDATE, PRACK, INFO, REFER, \
                     MESSAGE, NOTIFY";
