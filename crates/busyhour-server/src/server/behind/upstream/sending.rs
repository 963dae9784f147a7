//! How a request leaves: over UDP, or on a connection that this side makes.

use super::{super::register_request::RegisterRequest, Upstream, UpstreamAsk, WaitingRequest};
use busyhour::buffer::Buffer;
use busyhour_sip::{Flow, HeaderName};
use std::sync::{Arc, atomic::Ordering};

impl Upstream {
    /// What was not stored has not left: it is stored again. On the connection that it left on
    /// nothing is sent again (RFC 3261 §17.1.2.2); if that has ended, it goes on another one.
    pub(super) fn send_again(
        self: &Arc<Self>,
        index: usize,
        aor: &Arc<str>,
        request: (u64, UpstreamAsk),
    ) {
        let registrar = &self.registrars[index];
        let (message, first) = match registrar.lock().requests.get(&request.0) {
            Some(waiting) if waiting.is_committing => return,
            Some(waiting) => (
                waiting.message.clone().zip(Some(waiting.sent_on)),
                waiting.first.clone(),
            ),
            None => (None, None),
        };
        match (message, first) {
            (Some((message, before)), _) => self.hand_over_again(index, request.0, message, before),
            (None, Some(row)) => self.store_and_send(index, aor, request, row),
            (None, None) => self.send(index, aor, request, None),
        }
    }

    pub(super) fn send(
        &self,
        index: usize,
        aor: &str,
        (number, ask): (u64, UpstreamAsk),
        credentials: Option<(HeaderName, String)>,
    ) {
        let Some(flow) = self.flow(index) else {
            return;
        };
        let request = RegisterRequest {
            aor,
            ask,
            ours: self.advertised.for_flow(flow),
            transport: flow.transport,
            registrar: index,
            number,
            cseq: self.last_cseq.fetch_add(1, Ordering::Relaxed) + 1,
            run: self.run,
            credentials,
        };
        let Some(message) = self.responder.write(|out| request.write(out)) else {
            return;
        };
        let mut state = self.registrars[index].lock();
        if state.table.pending(number).is_some() {
            let waiting = WaitingRequest {
                message: Some(message.clone()),
                sent_on: None,
                first: None,
                is_committing: false,
            };
            state.requests.insert(number, waiting);
        }
        drop(state);
        if let Some(flow) = self.connected(flow) {
            self.hand_over(index, number, flow, message);
        }
    }

    fn hand_over_again(&self, index: usize, number: u64, message: Buffer, before: Option<Flow>) {
        let flow = self.flow(index).and_then(|flow| self.connected(flow));
        let is_on_its_way = |flow: Flow| flow.transport.is_reliable() && before == Some(flow);
        if let Some(flow) = flow.filter(|flow| !is_on_its_way(*flow)) {
            self.registrars[index].counters.retransmitted.increment();
            self.hand_over(index, number, flow, message);
        }
    }

    /// What is lost is sent again.
    fn hand_over(&self, index: usize, number: u64, flow: Flow, message: Buffer) {
        let sent_on = self.responder.forward(flow, message).then_some(flow);
        let mut state = self.registrars[index].lock();
        if let Some(waiting) = state.requests.get_mut(&number) {
            waiting.sent_on = sent_on;
        }
    }

    fn flow(&self, index: usize) -> Option<Flow> {
        let config = &self.registrars[index].config;
        let network = self.responder.network();
        let local = network.local_to(config.transport, config.address)?;
        Some(Flow {
            transport: config.transport,
            ..Flow::udp(local, config.address)
        })
    }

    /// The flow with its connection, which is there or is being made; `None` if none can be made
    /// now.
    fn connected(&self, flow: Flow) -> Option<Flow> {
        match flow.transport.is_reliable() {
            true => self.responder.network().connect(flow, None).ok(),
            false => Some(flow),
        }
    }
}
