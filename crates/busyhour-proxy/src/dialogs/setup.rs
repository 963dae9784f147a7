//! An INVITE outside of a dialog: from the request to the final response.

use std::sync::Arc;

use busyhour::{bus::Name, clock::Instant, timer::QueueHandle};
use busyhour_registrar::{
    Now,
    watch::{CallNames, DialogEnd, DialogIdentity, DialogState},
};
use busyhour_sip::{Address, Contacts, Message, sdp::MediaDirection, session::Replaces, unescape};

use super::call::{Branch, Call, Setup};
use super::dialog::Dialog;
use super::party::KeptParty;
use super::party::{Party, Role};
use super::session_timer;
use super::table::{Dialogs, kept, source_of_call};
use super::tag::{is_cut, kept_tag};
use super::{
    CALL_ID_LEN_MAX, CallEvent, DISPLAY_LEN_MAX, DialogActions, ReplacedDialog, TAG_LEN_MAX,
    URI_LEN_MAX,
};

/// A call that the table follows, for the transaction of its INVITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHandle {
    pub(super) key: QueueHandle,
    /// A spiral, or the call of a peer that forks, comes more than once; the first pass is the
    /// caller's.
    pass: u16,
}

/// The names in an INVITE by which it is found.
struct InviteName<'m> {
    call_id: &'m str,
    caller_tag: &'m str,
    cseq: u32,
}

impl Dialogs {
    /// The proxy takes an INVITE outside of a dialog from `caller`, who is authenticated by
    /// now. The call counts for `account`, which is the one that has proved itself, whatever
    /// From says. `None` if there is no room for the call: then it goes on untracked and is
    /// counted, as the call is worth more than the lamp.
    pub fn invite(
        &mut self,
        at: Now,
        request: &Message<'_>,
        caller: Party,
        account: Option<&Name>,
        out: &mut DialogActions,
    ) -> Option<CallHandle> {
        let Some(name) = InviteName::of(request) else {
            self.stats.untracked_malformed += 1;
            return None;
        };
        if let Some(key) = self.find_invite(name.call_id, name.caller_tag) {
            let call = self.calls.get_mut(key)?;
            let is_caller = call.caller.get().is_same_sender(&caller);
            let is_peer = caller.peer.is_some();
            // By way of a peer, or of a server that leaves the proof of who calls as it is; or the
            // caller is a peer that forks. What is over may be tried again. A device does not fork:
            // one that begins an answered call anew has crashed.
            let is_new = name.cseq > call.cseq || call.is_over();
            let is_same = is_peer || (is_caller && call.is_pending());
            if !is_new && is_same {
                return Some(self.next_pass(key));
            }
            if !is_caller {
                // Somebody else uses the names of a call.
                self.stats.untracked_malformed += 1;
                return None;
            }
            self.give_up(key, at.now, out);
        }
        // A peer counts by its own name.
        let account = caller.peer.clone().or_else(|| account.cloned());
        if !self.admits(&caller, account.as_ref()) {
            return None;
        }
        let call = self.begin(at, request, name, caller, account)?;
        let key = self.insert(call);
        self.stats.begun += 1;
        let begun = self.calls.get(key).and_then(|call| call.live());
        out.calls.extend(begun.map(CallEvent::Began));
        self.settle(key, at.now, out);
        Some(CallHandle { key, pass: 0 })
    }

    /// The INVITE was sent to `callee` on a branch, whose number is one of its transaction.
    pub fn forwarded(&mut self, call: CallHandle, branch: u16, callee: Party) {
        let branches_max = self.policy.dialogs_per_call_max;
        let number = call.branch(branch);
        let Some(entry) = self.calls.get_mut(call.key) else {
            return;
        };
        if entry.branches.len() >= branches_max || entry.branch_mut(number).is_some() {
            return;
        }
        let device = callee.device.clone();
        // Most calls have one branch and one dialog, and nothing grows by more.
        entry.branches.reserve_exact(1);
        entry.branches.push(Branch {
            number,
            callee: callee.into(),
            is_over: false,
            media_failure: None,
        });
        if let Some(device) = device {
            self.index(&device, call.key);
        }
    }

    /// A response to the INVITE came on a branch: each 1xx and 2xx that is forwarded, each
    /// other final one.
    pub fn response(
        &mut self,
        now: Instant,
        call: CallHandle,
        branch: u16,
        response: &Message<'_>,
        out: &mut DialogActions,
    ) {
        let number = call.branch(branch);
        match response.status() {
            Some(101..=199) => self.progress(now, call.key, number, response),
            Some(200..=299) => self.success(now, call.key, number, response, out),
            Some(status @ 300..) => self.failure(call.key, number, status),
            _ => return,
        }
        self.settle(call.key, now, out);
    }

    /// A branch of the INVITE ended without a response: nothing came in time (408), or it
    /// could not be sent (503).
    pub fn failed(
        &mut self,
        now: Instant,
        call: CallHandle,
        branch: u16,
        status: u16,
        out: &mut DialogActions,
    ) {
        self.failure(call.key, call.branch(branch), status);
        self.settle(call.key, now, out);
    }

    /// The caller cancelled the INVITE. Its dialogs live until the final responses: a 200
    /// may cross the CANCEL (RFC 3261 §9.1).
    pub fn cancelled(&mut self, call: CallHandle) {
        let entry = self.calls.get_mut(call.key).filter(|_| call.pass == 0);
        if let Some(entry) = entry {
            entry.is_cancelled = true;
        }
    }

    /// The sender of a pass was sent a final response other than 2xx: all that rings for it ends,
    /// and with the last pass the call.
    pub fn refused(
        &mut self,
        now: Instant,
        call: CallHandle,
        status: u16,
        out: &mut DialogActions,
    ) {
        let entry = self.calls.get_mut(call.key);
        let Some(entry) = entry.filter(|entry| entry.is_pending()) else {
            return;
        };
        entry.open_passes = entry.open_passes.saturating_sub(1);
        if entry.open_passes > 0 {
            entry.end_pass(call.pass, end_of(status), status);
            return self.settle(call.key, now, out);
        }
        let (end, by) = match (entry.is_cancelled, end_of(status)) {
            (true, _) => (DialogEnd::Cancelled, Some(Role::Caller)),
            (false, DialogEnd::Rejected) => (DialogEnd::Rejected, Some(Role::Callee)),
            (false, end) => (end, None),
        };
        entry.setup = Setup::Done(status);
        entry.heard.get_or_insert(now);
        entry.last_end = Some((end, by));
        entry.end_unconfirmed([end, DialogEnd::Cancelled], Some(status));
        self.settle(call.key, now, out);
    }

    fn begin(
        &mut self,
        at: Now,
        request: &Message<'_>,
        name: InviteName<'_>,
        caller: Party,
        account: Option<Name>,
    ) -> Option<Call> {
        let parties = [request.from().ok(), request.to().ok()];
        let names = kept_names(name.call_id, name.caller_tag, parties)?;
        let offer = MediaDirection::of(request);
        let mut dialog = Dialog::begin(self.next_id(), None, at.now);
        dialog.exchange.request(Role::Caller, name.cseq, offer);
        let mut call = Call {
            hash: self.hash(name.call_id),
            names,
            replaces: replaces_of(request),
            source: source_of_call(&caller),
            account,
            setup: Setup::Pending(at.now + self.policy.setup_max),
            dialogs: vec![dialog],
            cseq: name.cseq,
            caller: caller.into(),
            offer,
            branches: Vec::new(),
            is_cancelled: false,
            passes: 0,
            open_passes: 1,
            began: at,
            heard: None,
            rang: None,
            answered: None,
            last_end: None,
            media_failure: None,
            has_record: false,
            is_adopted: false,
            lingers_until: None,
        };
        take_contact(&mut call, 0, Role::Caller, request);
        Some(call)
    }

    /// The INVITE came once more: back by another way, or for another user from a peer that forks.
    /// Its caller is who sent it first.
    fn next_pass(&mut self, key: QueueHandle) -> CallHandle {
        self.stats.spirals += 1;
        let Some(call) = self.calls.get_mut(key) else {
            return CallHandle { key, pass: 0 };
        };
        call.passes = call.passes.saturating_add(1);
        call.open_passes = call.open_passes.saturating_add(1);
        CallHandle {
            key,
            pass: call.passes,
        }
    }

    /// The caller tries again with the same Call-ID and a higher CSeq, so what was there is over.
    fn give_up(&mut self, key: QueueHandle, now: Instant, out: &mut DialogActions) {
        if let Some(call) = self.calls.get_mut(key) {
            if call.is_pending() {
                call.setup = Setup::Done(0);
            }
            for dialog in &mut call.dialogs {
                dialog.end([DialogEnd::Error; 2], None);
            }
        }
        self.settle(key, now, out);
        self.forget(key);
    }

    fn progress(&mut self, now: Instant, key: QueueHandle, number: u32, response: &Message<'_>) {
        let setup_max = self.policy.setup_max;
        let Some(call) = self.calls.get_mut(key).filter(|call| call.is_pending()) else {
            return;
        };
        let is_ringing = |branch: &mut Branch| !branch.is_over;
        if !call.branch_mut(number).is_some_and(is_ringing) {
            return;
        }
        call.setup = Setup::Pending(now + setup_max);
        call.heard.get_or_insert(now);
        call.rang.get_or_insert(now);
        let Some(index) = self.place(key, number, tag_of(response)) else {
            return;
        };
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        let dialog = &mut call.dialogs[index];
        let state = match dialog.callee_tag {
            Some(_) => DialogState::Early,
            None => DialogState::Proceeding,
        };
        dialog.early_answer = MediaDirection::of(response).or(dialog.early_answer);
        dialog.heard(Role::Callee, now);
        dialog.advance(state, now);
        take_contact(call, index, Role::Callee, response);
    }

    fn success(
        &mut self,
        now: Instant,
        key: QueueHandle,
        number: u32,
        response: &Message<'_>,
        out: &mut DialogActions,
    ) {
        // Without a tag, it is a server of RFC 2543.
        let tag = tag_of(response).unwrap_or_else(|| "".into());
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        if call.branch_mut(number).is_none() || call.has_had(&tag) {
            return;
        }
        let Some(index) = self.place_winner(key, number, tag, out) else {
            return;
        };
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        confirm(call, index, now, response);
        call.end_unconfirmed([DialogEnd::Cancelled; 2], None);
        if call.is_pending() {
            call.setup = Setup::Done(response.status().unwrap_or(200));
        }
        call.heard.get_or_insert(now);
        if call
            .answered
            .replace(call.answered.unwrap_or(now))
            .is_none()
            && !call.has_record
        {
            out.calls.extend(call.live().map(CallEvent::Answered));
        }
        let answered_by = call.dialogs[index].callee.as_ref();
        let by = answered_by.map(KeptParty::get);
        let replaced = call.replaces.take().map(|replaced| *replaced);
        out.replaced
            .extend(replaced.map(|replaced| ReplacedDialog { by, ..replaced }));
    }

    fn failure(&mut self, key: QueueHandle, number: u32, status: u16) {
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        let Some(branch) = call.branch_mut(number) else {
            return;
        };
        branch.is_over = true;
        for dialog in &mut call.dialogs {
            if dialog.branch == Some(number) && !dialog.is_confirmed {
                let callee = dialog.side_mut(Role::Callee);
                callee.end(end_of(status), Some(status));
            }
        }
    }

    /// The index of the dialog that a response with this tag on this branch belongs to: the
    /// one with the tag; else the one of the branch, or of no branch, that has no tag yet;
    /// else a new one, if there is room.
    fn place(&mut self, key: QueueHandle, number: u32, tag: Option<Arc<str>>) -> Option<usize> {
        let call = self.calls.get_mut(key)?;
        if let Some(index) = tag.as_deref().and_then(|tag| call.find(tag)) {
            return Some(index);
        }
        let without_tag = |branch: Option<u32>| {
            move |dialog: &Dialog| {
                dialog.callee_tag.is_none() && dialog.branch == branch && !dialog.is_over()
            }
        };
        let mut dialogs = call.dialogs.iter();
        let own = dialogs.position(without_tag(Some(number)));
        let unbound = || call.dialogs.iter().position(without_tag(None));
        let index = match own.or_else(unbound) {
            Some(index) => index,
            None => self.fork(key)?,
        };
        let call = self.calls.get_mut(key)?;
        let callee = call.branch_mut(number)?.callee.clone();
        let dialog = &mut call.dialogs[index];
        (dialog.branch, dialog.callee_tag) = (Some(number), tag);
        dialog.callee.get_or_insert(callee);
        if dialog.callee_tag.as_deref().is_some_and(is_cut) {
            // Who cannot be named cannot be asked.
            dialog.side_mut(Role::Caller).contact = None;
        }
        dialog.touch();
        Some(index)
    }

    /// The same for a 2xx. All that was not answered is about to end, which makes room. A
    /// dialog that has ended for its callee, as its branch was given up, begins anew.
    fn place_winner(
        &mut self,
        key: QueueHandle,
        number: u32,
        tag: Arc<str>,
        out: &mut DialogActions,
    ) -> Option<usize> {
        let call = self.calls.get_mut(key)?;
        let found = call.find(&tag);
        if !found.is_some_and(|index| call.dialogs[index].side(Role::Callee).is_ended())
            && let Some(index) = self.place(key, number, Some(tag.clone()))
        {
            return Some(index);
        }
        let call = self.calls.get_mut(key)?;
        call.end_unconfirmed([DialogEnd::Cancelled; 2], None);
        call.tell(out);
        self.place(key, number, Some(tag))
    }

    /// Another dialog of the same INVITE (RFC 3261 §12.1).
    fn fork(&mut self, key: QueueHandle) -> Option<usize> {
        let id = self.next_id();
        let call = self.calls.get_mut(key)?;
        if call.dialogs.len() >= self.policy.dialogs_per_call_max {
            self.stats.untracked_forks += 1;
            return None;
        }
        let first = call.dialogs.first();
        let contact = first.and_then(|first| first.side(Role::Caller).contact.clone());
        let mut dialog = Dialog::begin(id, contact, call.began.now);
        dialog.exchange.request(Role::Caller, call.cseq, call.offer);
        call.dialogs.reserve_exact(1);
        call.dialogs.push(dialog);
        Some(call.dialogs.len() - 1)
    }
}

impl CallHandle {
    /// A branch of this pass, told from those of the others.
    pub(super) fn branch(self, branch: u16) -> u32 {
        u32::from(self.pass) << 16 | u32::from(branch)
    }
}

impl<'m> InviteName<'m> {
    /// `None` if it has none, or they are too long to keep.
    fn of(request: &Message<'m>) -> Option<Self> {
        let call_id = request.call_id().ok()?;
        // Clients of RFC 2543 have none.
        let caller_tag = request.from().ok()?.tag().unwrap_or("");
        let is_short = call_id.len() <= CALL_ID_LEN_MAX && caller_tag.len() <= TAG_LEN_MAX;
        Some(Self {
            call_id,
            caller_tag,
            cseq: request.cseq().ok().filter(|_| is_short)?.number,
        })
    }
}

/// A dialog of the call is answered.
fn confirm(call: &mut Call, index: usize, now: Instant, response: &Message<'_>) {
    let cseq = call.cseq;
    let dialog = &mut call.dialogs[index];
    dialog.is_confirmed = true;
    dialog.heard_at = now;
    dialog.advance(DialogState::Confirmed, now);
    let answer = MediaDirection::of(response).or(dialog.early_answer);
    dialog.exchange(|exchange| exchange.response(Role::Caller, cseq, true, answer));
    dialog.set_session(session_timer::agreed(response), now);
    take_contact(call, index, Role::Callee, response);
}

/// Why an INVITE with this final response has no dialog.
fn end_of(status: u16) -> DialogEnd {
    match status {
        487 => DialogEnd::Cancelled,
        408 => DialogEnd::Timeout,
        _ => DialogEnd::Rejected,
    }
}

/// A device of ours is asked where its Contact says.
pub(super) fn take_contact(call: &mut Call, index: usize, role: Role, message: &Message<'_>) {
    let dialog = &call.dialogs[index];
    let is_named = !dialog.callee_tag.as_deref().is_some_and(is_cut);
    let is_ours = is_named && call.device(dialog, role).is_some();
    // Who cannot be named cannot be asked.
    if is_ours
        && Role::ALL
            .into_iter()
            .all(|role| call.names.identity(role.direction()).is_some())
        && let Some(contact) = contact_of(message)
    {
        call.dialogs[index].side_mut(role).contact = Some(contact);
    }
}

/// The URI of the first Contact, if it is not too long.
fn contact_of(message: &Message<'_>) -> Option<Box<str>> {
    let Ok(Contacts::List(mut contacts)) = message.contacts() else {
        return None;
    };
    let contact = contacts.next()?.ok()?;
    let uri = contact.address.uri_text;
    (uri.len() <= URI_LEN_MAX).then(|| uri.into())
}

fn tag_of(response: &Message<'_>) -> Option<Arc<str>> {
    Some(kept_tag(response.to().ok()?.tag()?).into())
}

/// The names of a call that are kept; `parties` are the caller's address and the called one.
/// `None` if the Call-ID or the tag is too long.
pub(super) fn kept_names(
    call_id: &str,
    caller_tag: &str,
    parties: [Option<Address<'_>>; 2],
) -> Option<Arc<CallNames>> {
    let is_short = call_id.len() <= CALL_ID_LEN_MAX && caller_tag.len() <= TAG_LEN_MAX;
    let displays = parties.each_ref().map(|address| {
        let display = address.as_ref().map(|address| unescape(address.display));
        display.filter(|display| display.len() <= DISPLAY_LEN_MAX)
    });
    let identity = |side: usize| {
        let uri = parties[side].as_ref()?.uri_text;
        let display = displays[side].as_deref().unwrap_or("");
        (uri.len() <= URI_LEN_MAX).then_some(DialogIdentity { display, uri })
    };
    let identities = [identity(0), identity(1)];
    let names = is_short.then(|| CallNames::new(call_id, caller_tag, identities))?;
    names.map(Arc::new)
}

fn replaces_of(request: &Message<'_>) -> Option<Box<ReplacedDialog>> {
    let replaces = Replaces::of(request)?;
    Some(Box::new(ReplacedDialog {
        call_id: kept(replaces.call_id, CALL_ID_LEN_MAX)?,
        tags: [
            kept_tag(replaces.to_tag).into(),
            kept_tag(replaces.from_tag).into(),
        ],
        early_only: replaces.early_only,
        by: None,
    }))
}
