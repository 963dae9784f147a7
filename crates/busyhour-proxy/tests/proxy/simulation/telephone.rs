//! A telephone: rings, answers, refuses, or says nothing.

use super::{choices::Choices, repeater::Repeater};
use crate::support::{lines, response};
use busyhour_sip::{Message, Method};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Telephone {
    pub port: u16,
    /// By the branch of their INVITE.
    pub calls: BTreeMap<String, Ringing>,
    /// What it has said: status and tag.
    pub said: Vec<(u16, String)>,
}

/// One INVITE.
#[derive(Debug)]
pub struct Ringing {
    invite: String,
    pub tag: String,
    pub state: State,
    last: Option<String>,
    /// What it does next, and when.
    plan: Vec<(u64, u16)>,
    /// The final response until its ACK comes.
    again: Option<Repeater>,
    pub reasons: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody knows of it.
    Silent,
    Rings,
    /// 2xx sent.
    Answered,
    /// The ACK came.
    Talks,
    Refused,
    Over,
}

impl Telephone {
    pub fn new(port: u16) -> Self {
        Self {
            port,
            calls: BTreeMap::new(),
            said: Vec::new(),
        }
    }

    pub fn receive(&mut self, now: u64, text: &str, choices: &mut Choices) -> Vec<String> {
        let message = Message::parse(text.as_bytes()).expect("a message");
        let via = message.via().expect("sound");
        let branch = via.branch().expect("a branch").to_owned();
        match message.method() {
            Some(Method::Invite) => self.invited(now, branch, text, choices),
            Some(Method::Ack) => self.acknowledged(&message, &branch),
            Some(Method::Cancel) => self.cancelled(now, &branch, text),
            Some(Method::Bye) => self.hung_up(&message, text),
            _ => Vec::new(),
        }
    }

    fn invited(
        &mut self,
        now: u64,
        branch: String,
        text: &str,
        choices: &mut Choices,
    ) -> Vec<String> {
        if let Some(call) = self.calls.get(&branch) {
            return call.last.iter().cloned().collect();
        }
        let tag = format!("t{}-{}", self.port, self.calls.len());
        let call = Ringing {
            invite: text.to_owned(),
            tag,
            state: State::Silent,
            last: None,
            plan: plan(now, choices),
            again: None,
            reasons: Vec::new(),
        };
        self.calls.insert(branch, call);
        self.wake(now)
    }

    fn acknowledged(&mut self, ack: &Message<'_>, branch: &str) -> Vec<String> {
        let tag = ack.to().expect("sound").tag().unwrap_or("").to_owned();
        let by_branch = self
            .calls
            .get_mut(branch)
            .filter(|it| it.state == State::Refused);
        if let Some(call) = by_branch {
            call.again = None;
            call.state = State::Over;
        } else if let Some(call) = self.calls.values_mut().find(|it| it.tag == tag) {
            call.again = None;
            if call.state == State::Answered {
                call.state = State::Talks;
            }
        }
        Vec::new()
    }

    fn cancelled(&mut self, now: u64, branch: &str, text: &str) -> Vec<String> {
        let Some(call) = self.calls.get_mut(branch) else {
            return vec![response(text, 481, "x")];
        };
        call.reasons = lines(text, "Reason")
            .into_iter()
            .map(str::to_owned)
            .collect();
        let ok = response(text, 200, &call.tag);
        if !matches!(call.state, State::Silent | State::Rings) {
            return vec![ok];
        }
        call.plan.clear();
        let refused = call.say(now, self.port, 487);
        self.said.push((487, call.tag.clone()));
        vec![ok, refused]
    }

    fn hung_up(&mut self, bye: &Message<'_>, text: &str) -> Vec<String> {
        let tag = bye.to().expect("sound").tag().unwrap_or("").to_owned();
        let call = self.calls.values_mut().find(|it| it.tag == tag);
        let status = match call {
            Some(call) => {
                call.state = State::Over;
                call.again = None;
                200
            }
            None => 481,
        };
        vec![response(text, status, &tag)]
    }

    pub fn wake(&mut self, now: u64) -> Vec<String> {
        let mut sent = Vec::new();
        for call in self.calls.values_mut() {
            while call.plan.first().is_some_and(|(at, _)| *at <= now) {
                let (_, status) = call.plan.remove(0);
                sent.push(call.say(now, self.port, status));
                self.said.push((status, call.tag.clone()));
            }
            sent.extend(call.again.as_mut().and_then(|it| it.take(now)));
        }
        sent
    }

    pub fn due(&self) -> Option<u64> {
        let repeater = |it: &Repeater| Some(it.due).filter(|due| *due < it.ends);
        let due = |it: &Ringing| {
            let planned = it.plan.first().map(|(at, _)| *at);
            [planned, it.again.as_ref().and_then(repeater)]
        };
        self.calls.values().flat_map(due).flatten().min()
    }
}

impl Ringing {
    fn say(&mut self, now: u64, port: u16, status: u16) -> String {
        let contact = format!("Contact: <sip:bob@10.0.0.1:{port}>\r\nContent-Length");
        let text = response(&self.invite, status, &self.tag).replace("Content-Length", &contact);
        self.last = Some(text.clone());
        self.state = match status {
            100 => self.state,
            101..200 => State::Rings,
            200..300 => State::Answered,
            _ => State::Refused,
        };
        if status >= 200 {
            self.again = Some(Repeater::start(now, &text, 4_000));
        }
        text
    }
}

/// What a telephone will say, and when.
fn plan(now: u64, choices: &mut Choices) -> Vec<(u64, u16)> {
    let rings_at = now + choices.below(400);
    let decides_at = rings_at + 1 + choices.below(30_000);
    match choices.below(12) {
        0 => Vec::new(),
        1 => vec![(now, 100)],
        2 => vec![(rings_at, 180)],
        3 => vec![(now, 100), (rings_at, 180), (decides_at, 486)],
        4 => vec![(rings_at, 486)],
        5 => vec![(rings_at, 503)],
        6 => vec![(rings_at, 180), (decides_at, 603)],
        7 => vec![(rings_at, 200)],
        8 => vec![(rings_at, 302)],
        _ => vec![(rings_at, 180), (decides_at, 200)],
    }
}
