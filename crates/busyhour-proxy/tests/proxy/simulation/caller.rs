//! A caller: sends one INVITE, may cancel it, acknowledges what is answered, hangs up.

use super::{choices::Choices, repeater::Repeater};
use crate::support::lines;
use busyhour_sip::Message;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Caller {
    pub port: u16,
    pub call_id: String,
    invite: Option<Repeater>,
    text: String,
    has_provisional: bool,
    cancel_at: Option<u64>,
    cancel: Option<Repeater>,
    /// Statuses of final responses, each once; 0 for none at all.
    pub finals: Vec<u16>,
    /// Dialogs by the tag of the other side.
    pub dialogs: BTreeMap<String, Dialog>,
    hangs_up_after: u64,
    pub heard: Vec<(u16, String)>,
}

#[derive(Debug)]
pub struct Dialog {
    ack: String,
    bye_at: u64,
    bye: Option<Repeater>,
    bye_text: String,
    pub bye_status: u16,
}

impl Caller {
    pub fn new(port: u16, user: u64, choices: &mut Choices) -> Self {
        let call_id = format!("call-{port}");
        let text = format!(
            "INVITE sip:user{user}@example.org SIP/2.0\r\n\
             Via: SIP/2.0/UDP 10.0.0.1:{port};branch=z9hG4bKi{port}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{port}@example.org>;tag=c{port}\r\n\
             To: <sip:user{user}@example.org>\r\nCall-ID: {call_id}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:{port}@10.0.0.1:{port}>\r\nContent-Length: 0\r\n\r\n"
        );
        Self {
            port,
            call_id,
            invite: None,
            text,
            has_provisional: false,
            cancel_at: choices.happens(40).then(|| choices.below(25_000)),
            cancel: None,
            finals: Vec::new(),
            dialogs: BTreeMap::new(),
            hangs_up_after: 1 + choices.below(60_000),
            heard: Vec::new(),
        }
    }

    pub fn start(&mut self, now: u64) -> Vec<String> {
        self.invite = Some(Repeater::start(now, &self.text, u64::MAX));
        self.cancel_at = self.cancel_at.map(|at| now + at);
        vec![self.text.clone()]
    }

    pub fn receive(&mut self, now: u64, text: &str) -> Vec<String> {
        let message = Message::parse(text.as_bytes()).expect("a message");
        let Some(status) = message.status() else {
            return Vec::new();
        };
        let cseq = message.cseq().expect("sound").method.as_str().to_owned();
        let tag = message.to().expect("sound").tag().unwrap_or("").to_owned();
        assert_eq!(message.vias().count(), 1, "{text}");
        match cseq.as_str() {
            "CANCEL" => {
                self.cancel = None;
                Vec::new()
            }
            "BYE" => {
                if let Some(dialog) = self.dialogs.get_mut(&tag).filter(|_| status >= 200) {
                    dialog.bye = None;
                    dialog.bye_status = status;
                }
                Vec::new()
            }
            _ => self.invited(now, status, tag, text),
        }
    }

    fn invited(&mut self, now: u64, status: u16, tag: String, text: &str) -> Vec<String> {
        if !self.heard.contains(&(status, tag.clone())) {
            self.heard.push((status, tag.clone()));
        }
        self.invite = None;
        match status {
            ..200 => {
                self.has_provisional = true;
                Vec::new()
            }
            200..300 => self.answered(now, tag, text),
            _ => {
                if !self.finals.contains(&status) {
                    self.finals.push(status);
                }
                let to = lines(text, "To")[0];
                vec![self.hop_request("ACK", to)]
            }
        }
    }

    fn answered(&mut self, now: u64, tag: String, text: &str) -> Vec<String> {
        if !self.finals.contains(&200) {
            self.finals.push(200);
        }
        // The first dialog lives for a while; further ones end at once (RFC 3261
        // §13.2.2.4).
        let delay = match self.dialogs.is_empty() {
            true => self.hangs_up_after,
            false => 1,
        };
        let ack = self.in_dialog("ACK", 1, text);
        let bye_text = self.in_dialog("BYE", 2, text);
        let dialog = self.dialogs.entry(tag).or_insert(Dialog {
            ack,
            bye_at: now + delay,
            bye: None,
            bye_text,
            bye_status: 0,
        });
        vec![dialog.ack.clone()]
    }

    fn hop_request(&self, method: &str, to: &str) -> String {
        let plain = self.text.replace("INVITE", method);
        plain.replace(lines(&plain, "To")[0], to)
    }

    fn in_dialog(&self, method: &str, number: u32, ok: &str) -> String {
        let (port, call_id) = (self.port, &self.call_id);
        let contact = lines(ok, "Contact")[0].trim_matches(['<', '>']);
        let routes: Vec<_> = lines(ok, "Record-Route").into_iter().rev().collect();
        let (from, to) = (lines(ok, "From")[0], lines(ok, "To")[0]);
        let tag = to.split("tag=").nth(1).expect("a tag");
        format!(
            "{method} {contact} SIP/2.0\r\n\
             Via: SIP/2.0/UDP 10.0.0.1:{port};branch=z9hG4bK{method}{tag}\r\n\
             Route: {}\r\nMax-Forwards: 70\r\nFrom: {from}\r\nTo: {to}\r\n\
             Call-ID: {call_id}\r\nCSeq: {number} {method}\r\nContent-Length: 0\r\n\r\n",
            routes.join(", ")
        )
    }

    pub fn wake(&mut self, now: u64) -> Vec<String> {
        let mut sent = Vec::new();
        if self.invite.as_ref().is_some_and(|it| it.is_over(now)) {
            self.invite = None;
            self.finals.push(0);
        }
        sent.extend(self.invite.as_mut().and_then(|it| it.take(now)));
        if self.cancel_at.is_some_and(|at| at <= now) && self.has_provisional {
            self.cancel_at = None;
            if self.finals.is_empty() {
                let to = lines(&self.text, "To")[0];
                let cancel = self.hop_request("CANCEL", to);
                self.cancel = Some(Repeater::start(now, &cancel, 4_000));
                sent.push(cancel);
            }
        }
        sent.extend(self.cancel.as_mut().and_then(|it| it.take(now)));
        for dialog in self.dialogs.values_mut() {
            if dialog.bye_at <= now {
                dialog.bye_at = u64::MAX;
                dialog.bye = Some(Repeater::start(now, &dialog.bye_text, 4_000));
                sent.push(dialog.bye_text.clone());
            }
            sent.extend(dialog.bye.as_mut().and_then(|it| it.take(now)));
        }
        sent
    }

    /// When it wants to be woken.
    pub fn due(&self) -> Option<u64> {
        let repeater = |it: &Repeater| it.due.min(it.ends);
        let dialogs = self.dialogs.values();
        let byes = dialogs.flat_map(|it| [Some(it.bye_at), it.bye.as_ref().map(repeater)]);
        let cancel_at = self.cancel_at.filter(|_| self.has_provisional);
        let own = [
            self.invite.as_ref().map(repeater),
            self.cancel.as_ref().map(repeater),
            cancel_at,
        ];
        byes.chain(own)
            .flatten()
            .filter(|due| *due < u64::MAX)
            .min()
    }
}
