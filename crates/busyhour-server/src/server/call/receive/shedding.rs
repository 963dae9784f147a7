//! New calls that the server refuses while it has too much to do.

use crate::server::{
    call::refused_calls::Caller,
    capture::message_tap::Direction,
    core::Core,
    sip::{receive::Request, transactions::TransactionKey},
};
use busyhour::buffer::Buffer;
use busyhour_sip::{Flow, Message, Method, Status, UnreadRequest, Uri};

impl Core {
    pub(in crate::server::call) fn sheds_call(&self, flow: Flow) -> bool {
        self.load.sheds_call(flow, self.responder.network())
    }

    /// As cheap as can be: it is counted, and not logged one by one.
    pub(in crate::server::call) fn shed_call(
        &self,
        message: &Message<'_>,
        flow: Flow,
        transaction: TransactionKey,
    ) {
        self.calls.counters.refused.increment();
        if !self.load.answers_shed(flow) {
            return;
        }
        if message.method() == Some(Method::Invite) {
            let holder = self.holder(flow, None);
            let refused = (flow, Status::SERVICE_UNAVAILABLE);
            let caller = Caller::Stranger(holder);
            self.call_log.note_refused(message, refused, caller, None);
            self.load.note_shed(flow, transaction.hash(), holder);
        }
        self.responder.refuse_for_load(message, flow, transaction);
    }

    /// Whether a request is an INVITE that was refused when there was too much to do; then it is
    /// refused again.
    pub(in crate::server::call) fn sheds_again(&self, request: &Request<'_>) -> bool {
        let Request { message, flow, .. } = *request;
        let was_shed = message.method() == Some(Method::Invite)
            && !flow.transport.is_reliable()
            && self.load.was_shed(request.transaction.hash());
        if was_shed {
            let traffic = &self.responder.traffic;
            traffic.retransmissions_answered.increment();
            self.responder
                .refuse_for_load(message, flow, request.transaction);
        }
        was_shed
    }

    /// While new calls are refused, an INVITE is looked at no further than to see that it is a
    /// new one, and the ACK of its refusal no further than to see our mark: what is spent on
    /// them is taken from the calls that exist. `false` if it must be read.
    pub(in crate::server) fn sheds_unread(&self, flow: Flow, datagram: &Buffer) -> bool {
        if self.responder.is_ack_of_shed(datagram, flow.remote) {
            self.heard_unread(flow, datagram);
            return true;
        }
        let Some(request) = UnreadRequest::find(datagram) else {
            return false;
        };
        let is_ack = request.method() == Method::Ack;
        let is_refused = match is_ack {
            true => (self.responder).is_acknowledged(flow, |name| request.header(name)),
            false => self.sheds_invite(flow, &request),
        };
        if is_refused {
            self.heard_unread(flow, datagram);
        }
        if is_refused && !is_ack {
            self.shed_unread(flow, &request, datagram);
        }
        is_refused
    }

    fn heard_unread(&self, flow: Flow, datagram: &Buffer) {
        self.responder.tap().see(Direction::In, flow, datagram);
        self.peers.heard_on(flow);
    }

    fn sheds_invite(&self, flow: Flow, request: &UnreadRequest<'_>) -> bool {
        !self.calls_for_help(Uri::parse(request.uri()).as_ref())
            && !self.calls.knows(request)
            && self.sheds_call(flow)
    }

    fn shed_unread(&self, flow: Flow, request: &UnreadRequest<'_>, datagram: &Buffer) {
        self.calls.counters.refused.increment();
        if !self.load.answers_shed(flow) {
            return;
        }
        let (holder, status) = (self.holder(flow, None), Status::SERVICE_UNAVAILABLE);
        let header = |name| request.header(name);
        if (self.call_log).admits_refused(Caller::Stranger(holder), header, status)
            && let Ok(message) = Message::parse(datagram)
        {
            self.call_log.note_admitted(&message, (flow, status), None);
        }
        let key = self.responder.transactions().key_of(flow.remote, header);
        self.load.note_shed(flow, key.hash(), holder);
        self.responder.refuse_unread(request, flow, key);
    }
}
