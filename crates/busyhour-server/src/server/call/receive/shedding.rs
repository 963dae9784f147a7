//! New calls that the server refuses while it has too much to do.

use crate::server::{call::refused_calls::Caller, core::Core, sip::transactions::TransactionKey};
use busyhour_sip::{Flow, HeaderName, Message, Method};

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

    /// While new calls are refused, an INVITE is looked at no further than to see that it is
    /// one: what is spent on it is taken from the calls that exist. `false` if it must be read.
    pub(in crate::server) fn sheds_unread(&self, message: &Message<'_>, flow: Flow) -> bool {
        if !self.load.is_shedding_calls() {
            return false;
        }
        let to = message.header(HeaderName::To).unwrap_or("");
        let mut parts = to.as_bytes().windows(3);
        let may_be_in_dialog = parts.any(|part| part.eq_ignore_ascii_case(b"tag"));
        let sheds = !may_be_in_dialog
            && !self.calls_for_help(message.request_uri().ok().as_ref())
            && !self.calls.knows(message)
            && self.sheds_call(flow);
        if sheds {
            let transaction = self.responder.transactions().key(message, flow.remote);
            self.shed_call(message, flow, transaction);
        }
        sheds
    }
}
