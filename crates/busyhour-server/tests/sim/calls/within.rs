//! Requests within a dialog, and their responses.

use super::{
    dialog::{Dialog, Name, Session},
    message::{answer_to, is_hold, reply},
    telephone::Telephone,
};
use crate::client::{Context, NEVER, SECOND, Transaction};
use busyhour_sip::{HeaderName, Message, Method, session::Refresher};

/// A request within a dialog that waits for its final response.
pub struct Asked {
    name: Name,
    method: &'static str,
    cseq: u32,
    branch: String,
    request: String,
    /// Until a provisional response of an INVITE.
    transaction: Option<Transaction>,
    gives_up_at: u64,
}

impl Asked {
    pub fn next_wake(&self) -> u64 {
        let transaction = self.transaction.as_ref().map(Transaction::next_wake);
        transaction.unwrap_or(NEVER).min(self.gives_up_at)
    }
}

impl Dialog {
    pub fn next_wake(&self) -> u64 {
        let again = self.unacknowledged.as_ref();
        let again = again.map_or(NEVER, |(_, again)| again.next_wake());
        let session = self.session.filter(|it| !(it.refreshes && self.is_asking));
        again.min(session.map_or(NEVER, |session| session.due_at()))
    }
}

impl Telephone {
    fn dialog(&mut self, name: &Name) -> Option<&mut Dialog> {
        self.dialogs.iter_mut().find(|dialog| dialog.name == *name)
    }

    pub fn hang_up(&mut self, name: &Name, context: &mut Context<'_>) {
        self.ask(name, "BYE", context);
        self.dialogs.retain(|dialog| dialog.name != *name);
        // What else was asked does not matter any more.
        self.asked
            .retain(|it| it.name != *name || it.method == "BYE");
    }

    pub fn hold(&mut self, name: &Name, context: &mut Context<'_>) {
        if let Some(dialog) = self.dialog(name) {
            dialog.wants_hold = !dialog.holds;
        }
        self.ask(name, "INVITE", context);
    }

    /// Sends a request within a dialog, an INVITE only if it may.
    pub fn ask(&mut self, name: &Name, method: &'static str, context: &mut Context<'_>) {
        let (branch, contact, address) = (self.branch(), self.contact(), self.address);
        let Some(dialog) = self.dialog(name) else {
            return;
        };
        let is_refresh = matches!(method, "INVITE" | "UPDATE");
        if is_refresh && (dialog.is_asking || dialog.unacknowledged.is_some()) {
            return;
        }
        dialog.is_asking |= is_refresh;
        dialog.cseq += 1;
        let cseq = dialog.cseq;
        let request = dialog.request(method, (cseq, &branch), address, &contact);
        self.asked.push(Asked {
            name: name.clone(),
            method,
            cseq,
            branch: branch.clone(),
            request: request.clone(),
            transaction: Some(Transaction::send(branch, request, context)),
            gives_up_at: context.now + 100 * SECOND,
        });
    }

    /// The server does not know it at its address, and it proves who it is; for a dialog that it has left, too.
    fn ask_with_proof(&mut self, asked: Asked, message: &Message<'_>, context: &mut Context<'_>) {
        self.call_credentials.challenged(message);
        let Asked {
            name,
            method,
            cseq,
            branch: last,
            request,
            ..
        } = asked;
        let (branch, device) = (self.branch(), format!("device{}", self.user));
        let uri = request.split(' ').nth(1).expect("a Request-URI");
        let proof = self.call_credentials.line(&device, method, uri);
        let lines = request.replace(&last, &branch);
        let lines = lines.replace(&format!("CSeq: {cseq} "), &format!("CSeq: {} ", cseq + 1));
        let request = lines.replacen("Contact: ", &format!("{proof}Contact: "), 1);
        if let Some(dialog) = self.dialog(&name) {
            dialog.cseq = cseq + 1;
        }
        self.asked.push(Asked {
            name,
            method,
            cseq: cseq + 1,
            branch: branch.clone(),
            request: request.clone(),
            transaction: Some(Transaction::send(branch, request, context)),
            gives_up_at: context.now + 100 * SECOND,
        });
    }

    pub fn wake_asked(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let mut given_up = Vec::new();
        self.asked.retain_mut(|asked| {
            let is_hopeless = |it: &Transaction| it.is_hopeless(now);
            if asked.transaction.as_ref().is_some_and(is_hopeless) || asked.gives_up_at <= now {
                given_up.push((asked.name.clone(), asked.method));
                return false;
            }
            if let Some(transaction) = &mut asked.transaction {
                transaction.resend(context);
            }
            true
        });
        for (name, method) in given_up {
            // RFC 3261 §12.2.1.2: no answer at all is a 408.
            if method != "BYE" {
                self.hang_up(&name, context);
            }
        }
    }

    pub fn wake_dialogs(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let mut due = Vec::new();
        for dialog in &mut self.dialogs {
            if let Some((_, again)) = &mut dialog.unacknowledged {
                if again.is_hopeless(now) {
                    due.push((dialog.name.clone(), "BYE"));
                    continue;
                }
                again.resend(context);
            }
            let Some(session) = dialog.session.filter(|it| it.due_at() <= now) else {
                continue;
            };
            let how = match session.refreshes {
                true if dialog.is_asking => continue,
                true => context.random.pick(&["INVITE", "UPDATE"]),
                false => "BYE",
            };
            // Its 2xx waits for its ACK: the session is new.
            if dialog.unacknowledged.is_some() {
                if let Some(session) = &mut dialog.session {
                    session.refreshed_at = now;
                }
                continue;
            }
            due.push((dialog.name.clone(), how));
        }
        for (name, how) in due {
            match how {
                "BYE" => self.hang_up(&name, context),
                how => self.ask(&name, how, context),
            }
        }
    }

    pub fn is_of_asked(&self, message: &Message<'_>) -> bool {
        let branch = message.via().unwrap().branch().unwrap();
        let name = message.to().unwrap().tag().map(str::to_owned);
        let mut acks = self.acks.keys();
        let cseq = message.cseq().unwrap().number;
        let is_acked = acks.any(|(call_id, tag, number)| {
            message.call_id() == Ok(call_id) && name.as_ref() == Some(tag) && *number == cseq
        });
        self.asked.iter().any(|asked| asked.branch == branch)
            || is_acked && !self.is_outgoing(branch)
    }

    pub fn answered_within(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        let branch = message.via().unwrap().branch().unwrap();
        let status = message.status().unwrap_or(0);
        let Some(place) = self.asked.iter().position(|it| it.branch == branch) else {
            return self.acknowledge_again(message, context);
        };
        if status < 200 {
            if self.asked[place].method == "INVITE" {
                self.asked[place].transaction = None;
            }
            return;
        }
        let asked = self.asked.remove(place);
        if asked.method == "INVITE" {
            self.acknowledge(&asked, message, context);
        }
        // Once: what was asked with a proof and is challenged anew is given up.
        if status == 407 && !asked.request.contains("Proxy-Authorization") {
            return self.ask_with_proof(asked, message, context);
        }
        let knows_timers = self.knows_timers();
        let Some(dialog) = self.dialog(&asked.name) else {
            return;
        };
        let is_refresh = matches!(asked.method, "INVITE" | "UPDATE");
        dialog.is_asking &= !is_refresh;
        match status {
            481 | 408 => self.hang_up(&asked.name, context),
            200..300 if is_refresh => {
                if asked.method == "INVITE" {
                    dialog.holds = dialog.wants_hold;
                    dialog.is_held = is_hold(message);
                }
                dialog.follow(message);
                dialog.session = Session::of(message, knows_timers, true, context.now);
            }
            _ => {
                dialog.wants_hold = dialog.holds;
                // It asks again in a while.
                if let Some(session) = dialog.session.as_mut().filter(|_| is_refresh) {
                    let late = session.due_at().max(context.now + 5 * SECOND);
                    session.refreshed_at += late - session.due_at();
                }
            }
        }
    }

    /// The ACK of a re-INVITE's final response.
    fn acknowledge(&mut self, asked: &Asked, message: &Message<'_>, context: &mut Context<'_>) {
        let (address, contact) = (self.address, self.contact());
        let is_success = message.status().is_some_and(|status| status < 300);
        let branch = match is_success {
            true => self.branch(),
            false => asked.branch.clone(),
        };
        let Some(dialog) = self.dialog(&asked.name) else {
            return;
        };
        let mut ack = dialog.request("ACK", (asked.cseq, &branch), address, &contact);
        if !is_success {
            // It ends at the server, whatever its route.
            let to = message.header(HeaderName::To).unwrap();
            let own = ack.lines().find(|line| line.starts_with("To: ")).unwrap();
            ack = ack.replace(own, &format!("To: {to}"));
        }
        let ack = ack.into_bytes();
        context.sent.push(ack.clone());
        match is_success {
            true => {
                let Name {
                    call_id,
                    remote_tag,
                    ..
                } = asked.name.clone();
                self.acks.insert((call_id, remote_tag, asked.cseq), ack);
            }
            false => drop(self.refusal_acks.insert(branch, ack)),
        }
    }

    /// A copy of a final response to an INVITE.
    fn acknowledge_again(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        let cseq = message.cseq().unwrap();
        let (Method::Invite, Some(200..)) = (cseq.method, message.status()) else {
            return;
        };
        let branch = message.via().unwrap().branch().unwrap();
        let call_id = message.call_id().unwrap().to_owned();
        let tag = message.to().unwrap().tag().unwrap_or("").to_owned();
        let by_name = self.acks.get(&(call_id, tag, cseq.number));
        let ack = self.refusal_acks.get(branch).or(by_name);
        context.sent.extend(ack.cloned());
    }

    pub fn asked_within(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        let method = message.method().unwrap();
        let branch = message.via().unwrap().branch().unwrap().to_owned();
        let key = (branch, method.as_str().to_owned());
        if let Some(answer) = self.answers.get(&key) {
            return context.sent.push(answer.clone());
        }
        let answer = self.answer_within(message, method, context);
        self.answers.insert(key, answer.clone());
        // That of an INVITE was sent with its repetition.
        if method != Method::Invite || !answer.starts_with(b"SIP/2.0 200") {
            context.sent.push(answer);
        }
    }

    fn answer_within(
        &mut self,
        message: &Message<'_>,
        method: Method<'_>,
        context: &mut Context<'_>,
    ) -> Vec<u8> {
        let refuse = |status| reply(message, status, "", "", "");
        let contact = format!("Contact: <{}>\r\n", self.contact());
        let (name, knows_timers) = (Name::of_request(message), self.knows_timers());
        let Some(dialog) = name.and_then(|name| self.dialog(&name)) else {
            return refuse("481 Call/Transaction Does Not Exist");
        };
        let cseq = message.cseq().unwrap().number;
        if dialog.remote_cseq.is_some_and(|last| cseq <= last) {
            return refuse("500 Server Internal Error");
        }
        dialog.remote_cseq = Some(cseq);
        let name = dialog.name.clone();
        match method {
            Method::Bye => {
                self.dialogs.retain(|dialog| dialog.name != name);
                self.asked.retain(|asked| asked.name != name);
                refuse("200 OK")
            }
            Method::Invite | Method::Update if dialog.is_asking => refuse("491 Request Pending"),
            Method::Invite | Method::Update if dialog.unacknowledged.is_some() => {
                refuse("500 Server Internal Error")
            }
            Method::Invite | Method::Update => {
                dialog.follow(message);
                dialog.session = Session::of(message, knows_timers, false, context.now);
                let lines = match dialog.session {
                    Some(session) => format!("Require: timer\r\n{}", session.lines(Refresher::Uas)),
                    None => String::new(),
                };
                if !message.body().is_empty() {
                    dialog.is_held = is_hold(message);
                }
                let body = answer_to(message, dialog.holds);
                let answer = reply(message, "200 OK", "", &format!("{contact}{lines}"), body);
                if method == Method::Invite {
                    let text = String::from_utf8(answer.clone()).unwrap();
                    let branch = message.via().unwrap().branch().unwrap().to_owned();
                    let again = Transaction::send(branch, text, context);
                    dialog.unacknowledged = Some((cseq, again));
                }
                answer
            }
            _ => refuse("200 OK"),
        }
    }
}
