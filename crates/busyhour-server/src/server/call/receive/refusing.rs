//! Calls that go nowhere: the answer, the log and the record.

use crate::server::{
    call::refused_calls::Caller, core::Core, load::shares::Holder, sip::receive::Request,
};
use busyhour_proxy::dialogs::Party;
use busyhour_registrar::Refusal;
use busyhour_sip::{Method, Status};

impl Core {
    /// A call that the server refuses has a record as others have.
    pub(super) fn record_refused(
        &self,
        request: &Request<'_>,
        status: Status,
        proven: Option<&(Party, Holder)>,
    ) {
        let Request { message, flow, .. } = *request;
        let is_new = request.essentials.to.tag().is_none();
        if !is_new || message.method() != Some(Method::Invite) {
            return;
        }
        let caller = match proven {
            Some((_, holder)) => Caller::Proven(*holder),
            None => Caller::Stranger(self.holder(flow, None)),
        };
        let party = proven.map(|(party, _)| party);
        self.call_log
            .note_refused(message, (flow, status), caller, party);
    }

    /// What a later moment could answer otherwise is kept: the caller has heard that its request
    /// failed, so a copy of it must not ring (RFC 3261 §17.2.1).
    pub(super) fn refuse_call(&self, request: &Request<'_>, refusal: &Refusal) {
        self.refuse_call_for(request, refusal, refusal.reason());
    }

    /// As [`refuse_call`](Self::refuse_call), with another reason for the operator than the
    /// caller is told.
    pub(super) fn refuse_call_for(&self, request: &Request<'_>, refusal: &Refusal, reason: &str) {
        let Request { message, flow, .. } = *request;
        request.answered(refusal.status());
        self.calls.counters.refused.increment();
        self.log.call_refused(message, flow, reason);
        match may_change(refusal) {
            true => self.responder.refuse_and_keep(request, refusal),
            false => (self.responder).refuse(message, flow, request.transaction, refusal),
        }
    }
}

/// Whether the same request could be carried soon: who is called registers, a peer answers again,
/// or there is room. The other refusals follow from the request, or from what the operator sets.
fn may_change(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::NotFound | Refusal::Unavailable(_) | Refusal::Overloaded(_)
    )
}
