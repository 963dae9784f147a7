//! The caller's side of an INVITE.

use super::{
    dialog::{Dialog, Session},
    message::{offer, same_transaction, user, with_body},
    telephone::Telephone,
};
use crate::client::{Context, NEVER, SECOND, Transaction};
use busyhour_sip::{HeaderName, Message, Method};

/// A call that was not answered yet, or not long ago.
pub struct Outgoing {
    call_id: String,
    tag: String,
    callee: usize,
    cseq: u32,
    branch: String,
    invite: String,
    /// Until the first response.
    transaction: Option<Transaction>,
    /// When the user's patience ends.
    cancels_at: u64,
    cancel: Option<Transaction>,
    is_cancelled: bool,
    has_progress: bool,
    /// It has ended, and is remembered until then, for further 2xx.
    over_until: Option<u64>,
    /// When it ends whatever comes: nobody answered its CANCEL.
    ends_at: u64,
}

impl Outgoing {
    pub fn next_wake(&self) -> u64 {
        if let Some(until) = self.over_until {
            return until;
        }
        let transactions = [&self.transaction, &self.cancel].into_iter().flatten();
        let own = transactions.map(Transaction::next_wake).min();
        let cancels_at = match self.has_progress && !self.is_cancelled {
            true => self.cancels_at,
            false => NEVER,
        };
        own.unwrap_or(NEVER).min(cancels_at).min(self.ends_at)
    }

    fn end(&mut self, now: u64) {
        self.over_until = Some(now + 70 * SECOND);
        self.transaction = None;
        self.cancel = None;
    }
}

impl Telephone {
    pub fn is_calling(&self) -> bool {
        self.outgoing.iter().any(|call| call.over_until.is_none())
    }

    pub fn is_outgoing(&self, branch: &str) -> bool {
        self.outgoing.iter().any(|call| call.branch == branch)
    }

    pub fn call(&mut self, context: &mut Context<'_>) {
        let callee = context.random.within(0, 4) as usize;
        if callee == self.user && context.random.permille(900) {
            return;
        }
        let unique = self.unique();
        let call = Outgoing {
            call_id: format!("call-{unique}"),
            tag: format!("f{unique}"),
            callee,
            cseq: 0,
            branch: String::new(),
            invite: String::new(),
            transaction: None,
            cancels_at: context.now + context.random.within(SECOND, 60 * SECOND),
            cancel: None,
            is_cancelled: false,
            has_progress: false,
            over_until: None,
            ends_at: NEVER,
        };
        self.send_invite(call, context);
    }

    fn send_invite(&mut self, mut call: Outgoing, context: &mut Context<'_>) {
        let (branch, contact) = (self.branch(), self.contact());
        let (uri, from) = (user(call.callee), user(self.user));
        let name = format!("device{}", self.user);
        call.cseq += 1;
        let proof = self.call_credentials.line(&name, "INVITE", &uri);
        let timers = match self.knows_timers() {
            true => "Supported: timer\r\nSession-Expires: 300;refresher=uac\r\n",
            false => "",
        };
        let head = format!(
            "INVITE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch={branch};rport\r\n\
             Max-Forwards: 70\r\nFrom: <{from}>;tag={}\r\nTo: <{uri}>\r\nCall-ID: {}\r\n\
             CSeq: {} INVITE\r\nContact: <{contact}>\r\n{timers}{proof}",
            self.address, call.tag, call.call_id, call.cseq
        );
        call.branch = branch.clone();
        call.invite = with_body(head, offer(false));
        call.transaction = Some(Transaction::send(branch, call.invite.clone(), context));
        self.outgoing.push(call);
    }

    pub fn wake_outgoing(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        self.outgoing
            .retain(|call| call.over_until.is_none_or(|until| until > now));
        for call in self.outgoing.iter_mut() {
            if call.over_until.is_some() {
                continue;
            }
            let is_hopeless = |it: &Transaction| it.is_hopeless(now);
            if call.transaction.as_ref().is_some_and(is_hopeless) || call.ends_at <= now {
                call.end(now);
                continue;
            }
            if call.cancel.as_ref().is_some_and(is_hopeless) {
                call.cancel = None;
            }
            let transactions = [&mut call.transaction, &mut call.cancel];
            for transaction in transactions.into_iter().flatten() {
                transaction.resend(context);
            }
            // A CANCEL must not overtake its INVITE.
            if call.cancels_at <= now && call.has_progress && !call.is_cancelled {
                call.is_cancelled = true;
                call.ends_at = now + 64 * SECOND;
                let cancel = same_transaction("CANCEL", &call.invite, None);
                call.cancel = Some(Transaction::send(call.branch.clone(), cancel, context));
            }
        }
    }

    pub fn cancel_answered(&mut self, message: &Message<'_>) {
        let ours = |transaction: &mut Transaction| transaction.is_answered_by(message);
        for call in &mut self.outgoing {
            call.cancel.take_if(ours);
        }
    }

    pub fn invite_answered(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        let status = message.status().unwrap_or(0);
        let branch = message.via().unwrap().branch().unwrap().to_owned();
        let place = self.outgoing.iter().position(|it| it.branch == branch);
        if status >= 300 {
            return self.refused(place, branch, message, context);
        }
        let Some(place) = place else {
            return;
        };
        let call = &mut self.outgoing[place];
        call.transaction = None;
        let call_id = call.call_id.clone();
        let story = self.stories.entry(call_id).or_default();
        if story.carried_at == 0 {
            story.carried_at = context.now;
        }
        match status {
            ..200 => call.has_progress = true,
            _ => {
                if story.status == 0 {
                    story.status = status;
                }
                self.succeeded(place, message, context);
            }
        }
    }

    fn refused(
        &mut self,
        place: Option<usize>,
        branch: String,
        message: &Message<'_>,
        context: &mut Context<'_>,
    ) {
        if let Some(ack) = self.refusal_acks.get(&branch) {
            return context.sent.push(ack.clone());
        }
        let Some(place) = place.filter(|place| self.outgoing[*place].over_until.is_none()) else {
            return;
        };
        let mut call = self.outgoing.remove(place);
        let to = message.header(HeaderName::To);
        let ack = same_transaction("ACK", &call.invite, to).into_bytes();
        context.sent.push(ack.clone());
        self.refusal_acks.insert(branch, ack);
        if message.status() == Some(407) {
            self.call_credentials.challenged(message);
            // The user has given up meanwhile.
            if context.is_quiet && call.cancels_at <= context.now {
                return;
            }
            return self.send_invite(call, context);
        }
        let story = self.stories.entry(call.call_id.clone()).or_default();
        if story.carried_at == 0 {
            story.carried_at = context.now;
        }
        story.status = message.status().unwrap_or(0);
        call.end(context.now);
        self.outgoing.push(call);
    }

    /// Each 2xx gets an ACK; one that nobody wants gets a BYE as well.
    fn succeeded(&mut self, place: usize, message: &Message<'_>, context: &mut Context<'_>) {
        let Some(mut dialog) = Dialog::of_caller(message) else {
            panic!("a 2xx without what makes a dialog");
        };
        let cseq = message.cseq().unwrap().number;
        let name = dialog.name.clone();
        let key = (name.call_id.clone(), name.remote_tag.clone(), cseq);
        if let Some(ack) = self.acks.get(&key) {
            return context.sent.push(ack.clone());
        }
        let branch = self.branch();
        let ack = dialog.request("ACK", (cseq, &branch), self.address, &self.contact());
        let ack = ack.into_bytes();
        context.sent.push(ack.clone());
        self.acks.insert(key, ack);
        dialog.session = Session::of(message, self.knows_timers(), true, context.now);
        let call = &mut self.outgoing[place];
        let is_wanted = call.over_until.is_none() && !call.is_cancelled;
        if call.over_until.is_none() {
            call.end(context.now);
        }
        debug_assert_eq!(message.cseq().unwrap().method, Method::Invite);
        self.dialogs.push(dialog);
        if !is_wanted {
            self.hang_up(&name, context);
        }
    }
}
