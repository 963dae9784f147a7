//! Requests within a dialog, and their responses.

use std::{borrow::Cow, sync::Arc, time::Duration};

use busyhour::{clock::Instant, timer::QueueHandle};
use busyhour_registrar::{
    Now,
    watch::{DialogEnd, DialogState},
};
use busyhour_sip::{Flow, Message, Method, sdp::MediaDirection};

use super::call::{Branch, Call, Setup};
use super::dialog::Dialog;
use super::party::{Party, Role};
use super::session_timer;
use super::setup::{kept_names, take_contact};
use super::table::{DialogName, Dialogs, source_of_call};
use super::{DialogActions, ReplacedDialog};

/// A request within a dialog that the table follows, for its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DialogRequest {
    key: QueueHandle,
    dialog: u64,
    sender: Role,
    cseq: u32,
    kind: RequestKind,
}

/// How a table has come to carry a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// Its call began here.
    FromBeginning,
    /// It was [adopted](Dialogs::adopt).
    Adopted,
}

/// What a request within a dialog may do to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    /// INVITE and UPDATE: they refresh the session, and may change it.
    Refresh,
    /// PRACK, which may hold an offer.
    Prack,
    /// Of the INVITE's usage, so that 481 ends the dialog: BYE, INFO and others.
    Plain,
    /// Of a subscription's usage (RFC 5057 §4.2), or answered by no one.
    Foreign,
}

impl Dialogs {
    /// A request within a dialog is forwarded, ACK too; it came on `flow`, which is from now on
    /// its sender's, so it must be sure that it is [`sender`](Self::sender) who sends. `None` if
    /// the dialog is not known: see [`adopt`](Self::adopt).
    pub fn request(
        &mut self,
        now: Instant,
        request: &Message<'_>,
        flow: Flow,
        out: &mut DialogActions,
    ) -> Option<DialogRequest> {
        let (key, index, sender) = self.find_dialog(&DialogName::of(request)?)?;
        let (cseq, method) = (request.cseq().ok()?.number, request.method()?);
        let call = self.calls.get_mut(key)?;
        let dialog = call.dialogs.get_mut(index)?;
        let is_acked_now = method == Method::Ack && sender == Role::Caller && cseq == call.cseq;
        dialog.is_acked |= is_acked_now && dialog.is_confirmed;
        dialog.heard(sender, now);
        let answered = DialogRequest {
            key,
            dialog: dialog.id,
            sender,
            cseq,
            kind: RequestKind::of(method),
        };
        take_in(dialog, answered, method, request);
        follow(call, index, sender, flow);
        if answered.kind == RequestKind::Refresh {
            take_contact(call, index, sender, request);
        }
        if method == Method::Bye {
            // RFC 3261 §15.1.1: the session is over once BYE is sent, whatever comes back.
            call.end(index, bye_of(sender), None, Some(sender));
        }
        self.settle(key, now, out);
        Some(answered)
    }

    /// Whom a request within a dialog was sent to has answered, whatever it said.
    pub fn heard(&mut self, now: Instant, request: DialogRequest) {
        if let Some(dialog) = self.dialog_of(request) {
            dialog.heard(request.sender.other(), now);
        }
        self.reschedule(request.key, now);
    }

    /// A response to a request within a dialog is forwarded.
    pub fn answered(
        &mut self,
        now: Instant,
        request: DialogRequest,
        response: &Message<'_>,
        out: &mut DialogActions,
    ) {
        let Some(status) = response.status() else {
            return;
        };
        let Some(dialog) = self.dialog_of(request) else {
            return;
        };
        dialog.heard(request.sender.other(), now);
        if status >= 200 {
            conclude(dialog, request, now, response);
            self.end_unknown(request, status);
        }
        self.settle(request.key, now, out);
    }

    /// The proxy has put a session timer of this interval into a 2xx whose sender knows none:
    /// the other side refreshes the session, and without a refresh it is over (RFC 4028 §8.2).
    pub fn session_added(&mut self, now: Instant, response: &Message<'_>, interval: Duration) {
        let name = DialogName::of(response);
        let Some((key, index, _)) = name.and_then(|name| self.find_dialog(&name)) else {
            return;
        };
        let dialog = self.calls.get_mut(key).map(|call| &mut call.dialogs[index]);
        if let Some(dialog) = dialog.filter(|dialog| dialog.is_confirmed) {
            dialog.set_session(session_timer::bounded(interval), now);
        }
        self.reschedule(key, now);
    }

    /// A request within a dialog ended without a 2xx, and no way is left for it: its sender was
    /// sent this status, or nothing, which counts as 408. Until then, a way that fails says
    /// nothing of the dialog.
    pub fn unanswered(
        &mut self,
        now: Instant,
        request: DialogRequest,
        status: u16,
        out: &mut DialogActions,
    ) {
        let (sender, cseq) = (request.sender, request.cseq);
        if let Some(dialog) = self.dialog_of(request) {
            dialog.exchange(|exchange| exchange.response(sender, cseq, false, None));
        }
        self.end_unknown(request, status);
        self.settle(request.key, now, out);
    }

    /// A 2xx to a re-INVITE or UPDATE of a dialog that is not known: one of an earlier
    /// process, or of a call beyond the bounds. From now on it is known, since both sides
    /// have just said that it lives. `parties` are those of the route's tokens, by role. Returns
    /// whether it was not known and is now: [other servers](Self::hand_over) of a cluster have to be
    /// told.
    pub fn adopt(
        &mut self,
        at: Now,
        response: &Message<'_>,
        parties: [Party; 2],
        sender: Role,
        out: &mut DialogActions,
    ) -> bool {
        let Some(name) = DialogName::of(response) else {
            return false;
        };
        if self.find_dialog(&name).is_some() || !is_refresh_done(response) {
            return false;
        }
        let Some(call) = self.call_of(at, response, &name, parties, sender) else {
            return false;
        };
        let key = self.insert(call);
        self.stats.adopted += 1;
        self.settle(key, at.now, out);
        true
    }

    /// What this table has of the dialog of a request, if it lasts and these are its parties, by
    /// role.
    pub fn carried(&self, request: &Message<'_>, parties: &[Party; 2]) -> Option<Carried> {
        let (key, index) = self.find_of(request, parties)?;
        let call = self.calls.get(key)?;
        let dialog = call.dialogs.get(index).filter(|dialog| !dialog.is_over());
        dialog.map(|_| match call.is_adopted {
            true => Carried::Adopted,
            false => Carried::FromBeginning,
        })
    }

    /// Another server of the cluster has [adopted](Self::adopt) the dialog of this request, whose
    /// parties these are, and keeps it: what was adopted here is forgotten, without a record, and
    /// without a word of its end in [`DialogActions::ended`]. Returns whether something was.
    pub fn hand_over(
        &mut self,
        now: Instant,
        request: &Message<'_>,
        parties: &[Party; 2],
        out: &mut DialogActions,
    ) -> bool {
        let Some((key, index)) = self.find_of(request, parties) else {
            return false;
        };
        let call = self.calls.get_mut(key);
        let Some(call) = call.filter(|it| it.is_adopted && !it.dialogs[index].is_over()) else {
            return false;
        };
        call.end(index, [DialogEnd::Replaced; 2], None, None);
        let ended_len = out.ended.len();
        self.settle(key, now, out);
        out.ended.truncate(ended_len);
        self.forget(key);
        self.stats.handed_over += 1;
        true
    }

    /// The call and the index of the dialog of a request, if it has these parties, by role.
    fn find_of(&self, request: &Message<'_>, parties: &[Party; 2]) -> Option<(QueueHandle, usize)> {
        let name = DialogName::of(request)?;
        let within = |call: &Call| {
            let (index, _) = call.find_within(&name.from_tag, &name.to_tag)?;
            let dialog = call.dialogs.get(index)?;
            let is_its = |role: Role| {
                let party = call.party(dialog, role);
                party.is_some_and(|party| party.get().is_same_sender(&parties[role as usize]))
            };
            Role::ALL.into_iter().all(is_its).then_some(index)
        };
        let key = self.find(name.call_id, |call| within(call).is_some())?;
        Some((key, within(self.calls.get(key)?)?))
    }

    /// Another server of the cluster has forwarded this BYE, and did not carry its dialog alone. Nothing
    /// happens if it is not known here, or has other parties than these.
    pub fn ended_elsewhere(
        &mut self,
        now: Instant,
        bye: &Message<'_>,
        (parties, sender): (&[Party; 2], Role),
        out: &mut DialogActions,
    ) {
        let Some((key, index)) = self.find_of(bye, parties) else {
            return;
        };
        if let Some(call) = self.calls.get_mut(key) {
            call.end(index, bye_of(sender), None, Some(sender));
        }
        self.settle(key, now, out);
    }

    /// Another dialog has taken the place of this one (RFC 3891 §3).
    pub fn replace(&mut self, now: Instant, replaced: &ReplacedDialog, out: &mut DialogActions) {
        let [one, other] = &replaced.tags;
        let name = DialogName {
            call_id: &replaced.call_id,
            from_tag: Cow::Borrowed(one),
            to_tag: Cow::Borrowed(other),
        };
        let Some((key, index, _)) = self.find_dialog(&name) else {
            return;
        };
        if let Some(call) = self.calls.get_mut(key)
            && !(replaced.early_only && call.dialogs[index].is_confirmed)
            && Role::ALL.into_iter().any(|role| {
                let party = call.party(&call.dialogs[index], role);
                (replaced.by.as_ref())
                    .is_some_and(|by| party.is_some_and(|it| it.get().is_same(by)))
            })
        {
            call.end(index, [DialogEnd::Replaced; 2], None, None);
        }
        self.settle(key, now, out);
    }

    fn dialog_of(&mut self, request: DialogRequest) -> Option<&mut Dialog> {
        let call = self.calls.get_mut(request.key)?;
        let mut dialogs = call.dialogs.iter_mut();
        dialogs.find(|dialog| dialog.id == request.dialog)
    }

    /// Who answers 481 does not know the dialog, and who does not answer is gone
    /// (RFC 3261 §12.2.1.2, RFC 5057 §5.1).
    fn end_unknown(&mut self, request: DialogRequest, status: u16) {
        let end = match status {
            481 => DialogEnd::Error,
            408 => DialogEnd::Timeout,
            _ => return,
        };
        let Some(call) = self.calls.get_mut(request.key) else {
            return;
        };
        let is_it = |dialog: &Dialog| dialog.id == request.dialog && !dialog.is_over();
        let found = call.dialogs.iter().position(is_it);
        if let Some(index) = found.filter(|_| request.kind.ends_with_its_dialog()) {
            call.end(index, [end; 2], Some(status), None);
            self.stats.lost += 1;
        }
    }

    /// A call of which only a response within its dialog was seen.
    fn call_of(
        &mut self,
        at: Now,
        response: &Message<'_>,
        name: &DialogName<'_>,
        parties: [Party; 2],
        sender: Role,
    ) -> Option<Call> {
        let [caller, callee] = parties;
        let mut tags = [&name.from_tag, &name.to_tag];
        let mut addresses = [response.from().ok(), response.to().ok()];
        if sender == Role::Callee {
            tags.reverse();
            addresses.reverse();
        }
        let callee_tag = Arc::from(&**tags[1]);
        let names = kept_names(name.call_id, tags[0], addresses)?;
        // Nobody proves itself within a dialog: the call was counted when it began. A peer
        // counts by its name.
        let account = caller.peer.clone();
        if !self.admits(&caller, account.as_ref()) {
            return None;
        }
        let mut dialog = Dialog::begin(self.next_id(), None, at.now);
        dialog.callee_tag = Some(callee_tag);
        dialog.callee = Some(callee.clone().into());
        (dialog.is_acked, dialog.is_confirmed) = (true, true);
        dialog.advance(DialogState::Confirmed, at.now);
        dialog.set_session(session_timer::agreed(response), at.now);
        if let Some(answer) = MediaDirection::of(response) {
            dialog.exchange.adopt(sender, answer);
        }
        let mut call = Call {
            hash: self.hash(name.call_id),
            source: source_of_call(&caller),
            account,
            names,
            cseq: 0,
            caller: caller.into(),
            offer: None,
            branches: vec![Branch {
                number: 0,
                callee: callee.into(),
                is_over: true,
                media_failure: None,
            }],
            dialogs: vec![dialog],
            setup: Setup::Done(0),
            is_cancelled: false,
            passes: 0,
            open_passes: 0,
            replaces: None,
            began: at,
            heard: None,
            rang: None,
            answered: None,
            last_end: None,
            media_failure: None,
            has_record: true,
            is_adopted: true,
            lingers_until: None,
        };
        take_contact(&mut call, 0, sender.other(), response);
        Some(call)
    }
}

impl RequestKind {
    fn of(method: Method<'_>) -> Self {
        match method {
            Method::Invite | Method::Update => Self::Refresh,
            Method::Prack => Self::Prack,
            Method::Ack
            | Method::Cancel
            | Method::Subscribe
            | Method::Notify
            | Method::Refer
            | Method::Publish => Self::Foreign,
            _ => Self::Plain,
        }
    }

    fn ends_with_its_dialog(self) -> bool {
        matches!(self, Self::Refresh | Self::Plain)
    }
}

/// What a request means for offers.
fn take_in(dialog: &mut Dialog, request: DialogRequest, method: Method<'_>, message: &Message<'_>) {
    let (sender, cseq) = (request.sender, request.cseq);
    let description = MediaDirection::of(message);
    match request.kind {
        RequestKind::Refresh | RequestKind::Prack => {
            dialog.exchange.request(sender, cseq, description);
        }
        _ if method == Method::Ack => {
            dialog.exchange(|exchange| exchange.ack(sender, cseq, description));
        }
        RequestKind::Plain | RequestKind::Foreign => {}
    }
}

/// The sender is where its last request came from (RFC 5626 §5.3). Nobody in particular is
/// known by its flow alone, and keeps it.
fn follow(call: &mut Call, index: usize, sender: Role, flow: Flow) {
    let party = match sender {
        Role::Caller => Some(&mut call.caller),
        Role::Callee => call.dialogs[index].callee.as_mut(),
    };
    if let Some(party) = party.filter(|party| party.has_name()) {
        party.set_flow(flow);
    }
}

/// A final response came.
fn conclude(dialog: &mut Dialog, request: DialogRequest, now: Instant, response: &Message<'_>) {
    let is_success = response.status().is_some_and(|status| status < 300);
    let answer = MediaDirection::of(response);
    let is_news = dialog
        .exchange(|exchange| exchange.response(request.sender, request.cseq, is_success, answer));
    if is_news && request.kind == RequestKind::Refresh && dialog.is_confirmed {
        dialog.set_session(session_timer::agreed(response), now);
    }
}

fn bye_of(sender: Role) -> [DialogEnd; 2] {
    match sender {
        Role::Caller => [DialogEnd::LocalBye, DialogEnd::RemoteBye],
        Role::Callee => [DialogEnd::RemoteBye, DialogEnd::LocalBye],
    }
}

fn is_refresh_done(response: &Message<'_>) -> bool {
    let is_success = response
        .status()
        .is_some_and(|status| (200..300).contains(&status));
    let method = response.cseq().map(|cseq| cseq.method);
    is_success && matches!(method, Ok(Method::Invite | Method::Update))
}
