//! New calls that the server refuses while it has too much to do.

use crate::server::{
    call::refused_calls::Caller, capture::message_tap::Direction, core::Core,
    sip::transactions::TransactionKey,
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
        let refusal = self.responder.overloaded();
        if message.method() == Some(Method::Invite) {
            let caller = Caller::Stranger(self.holder(flow, None));
            self.call_log
                .note_refused(message, (flow, refusal.status()), caller, None);
        }
        self.responder.refuse(message, flow, transaction, &refusal);
    }

    /// While new calls are refused, an INVITE is looked at no further than to see that it is a
    /// new one, and the ACK of its refusal no further than to know it again: what is spent on
    /// them is taken from the calls that exist. `false` if it must be read.
    pub(in crate::server) fn sheds_unread(&self, flow: Flow, datagram: &Buffer) -> bool {
        let Some(request) = UnreadRequest::find(datagram) else {
            return false;
        };
        let is_ack = request.method() == Method::Ack;
        let is_refused = match is_ack {
            true => (self.responder).is_acknowledged(flow, |name| request.header(name)),
            false => self.sheds_invite(flow, &request),
        };
        if is_refused {
            self.responder.tap().see(Direction::In, flow, datagram);
            self.peers.heard_on(flow);
        }
        if is_refused && !is_ack {
            self.shed_unread(flow, &request, datagram);
        }
        is_refused
    }

    fn sheds_invite(&self, flow: Flow, request: &UnreadRequest<'_>) -> bool {
        !self.calls_for_help(Uri::parse(request.uri()).as_ref())
            && !self.calls.knows(request)
            && self.sheds_call(flow)
    }

    /// `scripts/refusal-cost.sh` counts its calls.
    #[inline(never)]
    fn shed_unread(&self, flow: Flow, request: &UnreadRequest<'_>, datagram: &Buffer) {
        self.calls.counters.refused.increment();
        let caller = Caller::Stranger(self.holder(flow, None));
        let status = Status::SERVICE_UNAVAILABLE;
        let header = |name| request.header(name);
        if self.call_log.admits_refused(caller, header, status)
            && let Ok(message) = Message::parse(datagram)
        {
            self.call_log.note_admitted(&message, (flow, status), None);
        }
        self.responder.refuse_unread(request, flow);
    }
}
