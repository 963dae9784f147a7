//! The callee's side of an INVITE.

use super::{
    dialog::{Dialog, Session},
    message::{answer_to, offer, reply},
    telephone::Telephone,
};
use crate::client::{Context, NEVER, SECOND, Transaction};
use busyhour_sip::{Message, Method, session::Refresher};

/// An INVITE that rings, or was refused and waits for the ACK.
pub struct Incoming {
    branch: String,
    call_id: String,
    from_tag: String,
    cseq: u32,
    tag: String,
    invite: Vec<u8>,
    /// When the user decides, and for what: a status.
    decides_at: u64,
    decision: u16,
    is_decided: bool,
    /// The refusal that waits for its ACK.
    refusal: Option<Transaction>,
}

impl Incoming {
    pub fn next_wake(&self) -> u64 {
        match (&self.refusal, self.is_decided) {
            (Some(refusal), _) => refusal.next_wake(),
            (None, true) => NEVER,
            (None, false) => self.decides_at,
        }
    }
}

impl Telephone {
    pub fn is_ringing(&self) -> bool {
        self.incoming.iter().any(|call| !call.is_decided)
    }

    pub fn invited(&mut self, message: &Message<'_>, bytes: &[u8], context: &mut Context<'_>) {
        let branch = message.via().unwrap().branch().unwrap().to_owned();
        if let Some(answer) = self.answers.get(&(branch.clone(), "INVITE".to_owned())) {
            return context.sent.push(answer.clone());
        }
        let call_id = message.call_id().unwrap().to_owned();
        let from_tag = message.from().unwrap().tag().unwrap().to_owned();
        let cseq = message.cseq().unwrap().number;
        let tag = format!("t{}", self.unique());
        let is_merged = |it: &Incoming| {
            (&it.call_id, &it.from_tag, it.cseq) == (&call_id, &from_tag, cseq) && !it.is_decided
        };
        let is_busy = self.is_undecided() || self.dialogs.len() > 1;
        let decision = match () {
            // RFC 3261 §8.2.2.2.
            () if self.incoming.iter().any(is_merged) => 482,
            () if is_busy && context.random.permille(700) => 486,
            () => context.random.pick(&[200, 200, 200, 200, 486, 603, 480]),
        };
        let rings = !matches!(decision, 482 | 486) && context.random.permille(900);
        let wait = match rings {
            true => context.random.within(SECOND / 10, 30 * SECOND),
            false => 0,
        };
        self.incoming.push(Incoming {
            branch,
            call_id,
            from_tag,
            cseq,
            tag,
            invite: bytes.to_vec(),
            decides_at: context.now + wait,
            decision,
            is_decided: false,
            refusal: None,
        });
        let place = self.incoming.len() - 1;
        if rings {
            self.say(place, "180 Ringing", "", "", context);
        } else {
            self.decide(place, context);
        }
    }

    pub fn wake_incoming(&mut self, context: &mut Context<'_>) {
        for place in 0..self.incoming.len() {
            if !self.incoming[place].is_decided && self.incoming[place].decides_at <= context.now {
                self.decide(place, context);
            }
            let call = &mut self.incoming[place];
            match &mut call.refusal {
                Some(refusal) if refusal.is_hopeless(context.now) => call.refusal = None,
                Some(refusal) => refusal.resend(context),
                None => {}
            }
        }
        self.incoming
            .retain(|call| !call.is_decided || call.refusal.is_some());
    }

    fn decide(&mut self, place: usize, context: &mut Context<'_>) {
        match self.incoming[place].decision {
            200 => self.accept(place, context),
            status => self.refuse(place, status, context),
        }
    }

    fn refuse(&mut self, place: usize, status: u16, context: &mut Context<'_>) {
        self.incoming[place].is_decided = true;
        let status = format!("{status} Because");
        let refusal = self.say(place, &status, "", "", context);
        let call = &mut self.incoming[place];
        // It was sent just now.
        context.sent.pop();
        let text = String::from_utf8(refusal).unwrap();
        call.refusal = Some(Transaction::send(call.branch.clone(), text, context));
    }

    fn accept(&mut self, place: usize, context: &mut Context<'_>) {
        self.incoming[place].is_decided = true;
        let invite = self.incoming[place].invite.clone();
        let message = Message::parse(&invite).unwrap();
        let Some(mut dialog) = Dialog::of_callee(&message, &self.incoming[place].tag) else {
            panic!("an INVITE without what makes a dialog");
        };
        dialog.session = Session::of(&message, self.knows_timers(), false, context.now);
        let lines = match dialog.session {
            Some(session) => format!("Require: timer\r\n{}", session.lines(Refresher::Uas)),
            None => String::new(),
        };
        let body = match message.body().is_empty() {
            true => offer(false),
            false => answer_to(&message, false),
        };
        let contact = format!("Contact: <{}>\r\n", self.contact());
        let answer = self.say(place, "200 OK", &format!("{contact}{lines}"), body, context);
        context.sent.pop();
        let branch = self.incoming[place].branch.clone();
        let text = String::from_utf8(answer).unwrap();
        let again = Transaction::send(branch, text, context);
        dialog.unacknowledged = Some((message.cseq().unwrap().number, again));
        self.dialogs.push(dialog);
    }

    /// Sends a response, and remembers it for copies of the request.
    fn say(
        &mut self,
        place: usize,
        status: &str,
        lines: &str,
        body: &str,
        context: &mut Context<'_>,
    ) -> Vec<u8> {
        let contact = format!("Contact: <{}>\r\n", self.contact());
        let lines = match status.starts_with('1') {
            true => contact,
            false => lines.to_owned(),
        };
        let call = &self.incoming[place];
        let message = Message::parse(&call.invite).unwrap();
        let answer = reply(&message, status, &call.tag, &lines, body);
        let key = (call.branch.clone(), "INVITE".to_owned());
        self.answers.insert(key, answer.clone());
        context.sent.push(answer.clone());
        answer
    }

    pub fn cancelled(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        let branch = message.via().unwrap().branch().unwrap();
        let place = self.incoming.iter().position(|it| it.branch == branch);
        let key = (branch.to_owned(), "INVITE".to_owned());
        let status = match self.answers.contains_key(&key) {
            true => "200 OK",
            false => "481 Call/Transaction Does Not Exist",
        };
        context.sent.push(reply(message, status, "cancel", "", ""));
        if let Some(place) = place.filter(|place| !self.incoming[*place].is_decided) {
            self.refuse(place, 487, context);
        }
    }

    pub fn acknowledged(&mut self, message: &Message<'_>) {
        let branch = message.via().unwrap().branch().unwrap();
        for call in &mut self.incoming {
            if call.branch == branch {
                call.refusal = None;
            }
        }
        let cseq = message.cseq().unwrap().number;
        let name = super::dialog::Name::of_request(message);
        for dialog in &mut self.dialogs {
            if Some(&dialog.name) == name.as_ref() {
                dialog.unacknowledged.take_if(|(number, _)| *number == cseq);
            }
        }
        debug_assert_eq!(message.method(), Some(Method::Ack));
    }
}
