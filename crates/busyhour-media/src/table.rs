//! Calls that use a relay, and the messages that wait for one.

use crate::{
    MediaActions, MediaWish, Obstacle, Outcome, Passing, Ready, Relays, Verdict,
    body::with_body,
    command::{self, Kind, Names, Reply, Rewrite},
    description::body_of,
    relayed_call::{Call, DONE_MAX, WAITING_MAX, WaitState, Waiting, own_branch},
    relays::MediaCounters,
};
use busyhour::clock::Instant;
use busyhour_sip::{HeaderName, Message, Method};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    net::SocketAddr,
    sync::atomic::Ordering,
    time::Duration,
};

/// Calls that use a relay, as far as one shard of the proxy has them. `T` is what the caller
/// wants back with a message.
#[derive(Debug)]
pub struct MediaTable<T> {
    shard: u16,
    last_question: u64,
    calls: HashMap<Box<str>, Call<T>>,
    calls_max: u64,
    questions: HashMap<u64, Question>,
    due: BTreeSet<(Instant, u64)>,
    /// Without a relay a call is refused, and does not leave with its description.
    refuses: bool,
}

/// What a relay was asked and has not answered.
#[derive(Debug)]
struct Question {
    call_id: Box<str>,
    kind: Kind,
    /// Of the INVITE that began the call, if it is about the offer or the answer of one.
    branch: Option<Box<str>>,
    relay: usize,
    /// Those that did not take it before.
    tried: Vec<usize>,
    datagram: Vec<u8>,
    /// The message that waits for the reply, if one does.
    message: Option<Vec<u8>>,
    is_request: bool,
    sent: usize,
    due_at: Instant,
}

impl Question {
    /// One for whose reply no message waits.
    fn aside(call_id: &str, kind: Kind, relay: usize, datagram: Vec<u8>, now: Instant) -> Self {
        Self {
            call_id: call_id.into(),
            kind,
            branch: None,
            relay,
            tried: Vec::new(),
            datagram,
            message: None,
            is_request: false,
            sent: 0,
            due_at: now,
        }
    }
}

impl<T> MediaTable<T> {
    /// An empty one with this number. `calls_max` is for all tables of these relays together;
    /// `refuses`: whether a call that needs a relay is refused when none answers.
    pub fn new(shard: u16, calls_max: usize, refuses: bool) -> Self {
        Self {
            shard,
            last_question: 0,
            calls: HashMap::new(),
            calls_max: calls_max as u64,
            questions: HashMap::new(),
            due: BTreeSet::new(),
            refuses,
        }
    }

    /// The table that a reply of a relay is for; `None` if it is no reply to one.
    ///
    /// ```
    /// use busyhour_media::MediaTable;
    ///
    /// assert_eq!(MediaTable::<()>::shard_of(b"3f_12_a7 d6:result2:oke"), Some(0x3f));
    /// assert_eq!(MediaTable::<()>::shard_of(b"p1_a7 d6:result4:ponge"), None);
    /// ```
    pub fn shard_of(reply: &[u8]) -> Option<u16> {
        let (shard, _) = command::cookie_of(reply)?.split_once('_')?;
        u16::from_str_radix(shard, 16).ok()
    }

    /// Takes a message that is about to leave.
    pub fn passing(
        &mut self,
        now: Instant,
        passing: Passing<'_, '_>,
        ticket: T,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) -> Verdict<T> {
        let message = passing.message;
        let body = body_of(message);
        let description = body
            .as_deref()
            .and_then(|body| std::str::from_utf8(body).ok());
        let is_invite = message.method() == Some(Method::Invite);
        if self.calls.is_empty() && description.is_none() && !is_invite {
            return Verdict::Pass(ticket);
        }
        let Some(call_id) = message.header(HeaderName::CallId) else {
            return Verdict::Pass(ticket);
        };
        if !self.calls.contains_key(call_id) && !self.begin(now, call_id, passing, relays, out) {
            return Verdict::Pass(ticket);
        }
        let Some(call) = self.calls.get_mut(call_id) else {
            return Verdict::Pass(ticket);
        };
        call.used_at = now;
        let role = description.and_then(|_| call.role_of(passing));
        let (Some(description), Some(role)) = (description, role) else {
            return call.behind_others(passing.to, ticket);
        };
        let key = key_of(message);
        if let Some((_, done)) = call.done.iter().find(|(name, _)| *name == key) {
            let outcome = Outcome::Rewritten(done.clone());
            out.ready.push(Ready { ticket, outcome });
            return Verdict::Held;
        }
        if call.waiting.iter().any(|waiting| waiting.key == key) {
            // A retransmission: the first one is on its way.
            return Verdict::Held;
        }
        if call.waiting.len() >= WAITING_MAX {
            MediaCounters::add(&relays.counters.passed);
            return Verdict::Pass(ticket);
        }
        let number = self.last_question + 1;
        self.last_question = number;
        let rewrite = Rewrite {
            kind: role.kind,
            names: role.names,
            description,
            for_web: role.for_web,
            from_web: role.from_web,
            family: role.family,
        };
        let datagram = rewrite.write(&relays.cookie(self.shard, number));
        if role.kind == Kind::Offer {
            call.note_offer(&role);
        }
        let branch = call.first_branch(role.names.branch);
        if role.kind == Kind::Answer || branch.is_none() {
            call.note_answer(branch, &datagram);
        }
        call.waiting.push(Waiting {
            to: passing.to,
            ticket,
            key,
            state: WaitState::Asked(number),
        });
        let question = Question {
            call_id: call_id.into(),
            kind: role.kind,
            branch: branch.map(Box::from),
            relay: call.relay,
            tried: Vec::new(),
            datagram,
            message: Some(passing.datagram.to_vec()),
            is_request: message.method().is_some(),
            sent: 0,
            due_at: now,
        };
        self.ask(now, number, question, relays, out);
        Verdict::Held
    }

    /// Takes the reply of a relay.
    pub fn replied(
        &mut self,
        now: Instant,
        from: SocketAddr,
        reply: &[u8],
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        let Some((cookie, reply)) = command::read(reply) else {
            return;
        };
        let name = cookie.split_once('_').map(|(_, name)| name);
        let Some(number) = name.and_then(|name| relays.number_of(name)) else {
            return;
        };
        let is_it = |question: &&Question| relays.address(question.relay) == from;
        let Some(relay) = self.questions.get(&number).filter(is_it).map(|it| it.relay) else {
            return;
        };
        relays.heard(relay, now);
        let Some(question) = self.take(number) else {
            return;
        };
        let rewritten = match (reply, &question.message) {
            (Ok(Reply::Description(_) | Reply::Done), None) => {
                return self.answer_again(now, &question, relays, out);
            }
            (Ok(Reply::Description(description)), Some(message)) => rewrite(message, &description),
            (Ok(Reply::Full), _) => return self.fail(now, number, question, relays, out),
            _ => None,
        };
        match rewritten {
            Some(bytes) => {
                MediaCounters::add(&relays.counters.rewritten);
                self.resolve(&question, number, Outcome::Rewritten(bytes), out);
                self.answer_again(now, &question, relays, out);
            }
            None => {
                MediaCounters::add(&relays.counters.errors);
                self.give_up(number, &question, relays, out);
            }
        }
    }

    /// Sends again what was not answered, and gives up in the end.
    pub fn expire(&mut self, now: Instant, relays: &Relays, out: &mut MediaActions<T>) {
        while let Some((at, number)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, number));
            let Some(question) = self.questions.remove(&number) else {
                continue;
            };
            if self.is_outdated(&question) {
                // The relay may have handled it all the same.
                self.answer_again(now, &question, relays, out);
                continue;
            }
            if question.sent < SENDS.len() {
                MediaCounters::add(&relays.counters.resent);
                self.ask(now, number, question, relays, out);
                continue;
            }
            MediaCounters::add(&relays.counters.unanswered);
            relays.silent(question.relay, now);
            self.fail(now, number, question, relays, out);
        }
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A branch of an INVITE has ended without an answer.
    pub fn branch_failed(
        &mut self,
        now: Instant,
        response: &Message<'_>,
        branch: &str,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        let call_id = response.header(HeaderName::CallId).unwrap_or("");
        let from = response.from();
        let tag = from.as_ref().ok().and_then(|from| from.tag());
        if let (Some(call), Some(from_tag)) = (self.calls.get_mut(call_id), tag) {
            let names = Names {
                call_id,
                from_tag,
                to_tag: None,
                branch: Some(branch),
            };
            let relay = call.relay;
            // Only that of a forked offer; the last one ends with its call.
            if call.forget_branch(branch) {
                self.delete(now, relay, names, relays, out);
            }
        }
    }

    /// The call has ended.
    pub fn ended(
        &mut self,
        now: Instant,
        call_id: &str,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        let Some((relay, from_tag)) = self.forget(call_id, relays, out) else {
            return;
        };
        let names = Names {
            call_id,
            from_tag: &from_tag,
            to_tag: None,
            branch: None,
        };
        self.delete(now, relay, names, relays, out);
    }

    /// Another server of the cluster follows the call from now on, which lasts: the relay is told
    /// nothing.
    pub fn handed_over(&mut self, call_id: &str, relays: &Relays, out: &mut MediaActions<T>) {
        self.forget(call_id, relays, out);
    }

    /// The relay that the call had, and the tag of who began it.
    fn forget(
        &mut self,
        call_id: &str,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) -> Option<(usize, Box<str>)> {
        let call = self.calls.remove(call_id)?;
        relays.counters.call_count.fetch_sub(1, Ordering::Relaxed);
        // One that is sent again would begin it anew at the relay.
        self.forget_questions(call_id, |kind| kind != Kind::Delete);
        for waiting in call.waiting {
            let outcome = match waiting.state {
                WaitState::Answered(outcome) => outcome,
                _ => Outcome::AsItCame,
            };
            out.ready.push(Ready {
                ticket: waiting.ticket,
                outcome,
            });
        }
        Some((call.relay, call.from_tag))
    }

    /// A BYE passes whose dialog nobody knows here, as after a restart: the relays are told, any
    /// of which may have its call. They look at its tag as well, so no other call of this name
    /// ends.
    pub fn ended_by(
        &mut self,
        now: Instant,
        bye: &Message<'_>,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        let (Ok(call_id), Ok(from)) = (bye.call_id(), bye.from()) else {
            return;
        };
        if self.calls.contains_key(call_id) {
            return self.ended(now, call_id, relays, out);
        }
        let Some(from_tag) = from.tag() else { return };
        let names = Names {
            call_id,
            from_tag,
            to_tag: None,
            branch: None,
        };
        for relay in relays.all_up() {
            self.delete(now, relay, names, relays, out);
        }
    }

    /// Begins to relay a call if it is to be; `false` if it is not.
    fn begin(
        &mut self,
        now: Instant,
        call_id: &str,
        passing: Passing<'_, '_>,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) -> bool {
        let message = passing.message;
        let is_wanted = match passing.wish {
            MediaWish::Never => false,
            _ if message.method() != Some(Method::Invite) => false,
            MediaWish::Always => true,
            MediaWish::Auto => match body_of(message) {
                Some(_) => !Obstacle::of_offer(message, passing.to).is_empty(),
                // The offer comes with the answer: of whom is known.
                None => comes_from_web(message) != passing.to.transport.is_web_socket(),
            },
        };
        let from = message.from();
        let tag = from.as_ref().ok().and_then(|from| from.tag());
        let Some(from_tag) = tag.filter(|_| is_wanted) else {
            return false;
        };
        let (calls_max, call_count) = (self.calls_max, &relays.counters.call_count);
        let is_full = || call_count.load(Ordering::Relaxed) >= calls_max;
        if is_full() {
            self.end_old(now, relays, out);
        }
        if relays.is_empty() {
            return false;
        }
        if !passing.is_followed || is_full() {
            MediaCounters::add(&relays.counters.left_out);
            return false;
        }
        // If none is up, the question tells how the first one fails.
        let relay = relays.choose(call_id, &[]).unwrap_or(0);
        // One of the call before that is sent again would end this one.
        self.forget_questions(call_id, |kind| kind == Kind::Delete);
        relays.got_call(relay);
        MediaCounters::add(&relays.counters.calls);
        MediaCounters::add(&relays.counters.call_count);
        let call = Call {
            relay,
            from_tag: from_tag.into(),
            offers: VecDeque::new(),
            last_answer: None,
            done: VecDeque::new(),
            waiting: Vec::new(),
            web_tags: Vec::new(),
            direct_tags: Vec::new(),
            used_at: now,
            is_begun: false,
        };
        self.calls.insert(call_id.into(), call);
        true
    }

    /// Ends calls that nobody has used for so long that their end was not told.
    fn end_old(&mut self, now: Instant, relays: &Relays, out: &mut MediaActions<T>) {
        let calls = self.calls.iter();
        let old = calls.filter(|(_, call)| now >= call.used_at + CALL_AGE_MAX);
        let old: Vec<_> = old.map(|(call_id, _)| call_id.clone()).collect();
        for call_id in old {
            self.ended(now, &call_id, relays, out);
        }
    }

    /// They are not sent again, and their answers mean nothing.
    fn forget_questions(&mut self, call_id: &str, is_wanted: impl Fn(Kind) -> bool) {
        let due = &mut self.due;
        self.questions.retain(|number, question| {
            let is_it = is_wanted(question.kind) && &*question.call_id == call_id;
            if is_it {
                due.remove(&(question.due_at, *number));
            }
            !is_it
        });
    }

    fn ask(
        &mut self,
        now: Instant,
        number: u64,
        mut question: Question,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        let wait = SENDS.get(question.sent).copied().unwrap_or_default();
        question.sent += 1;
        question.due_at = now + wait;
        let address = relays.address(question.relay);
        out.commands.push((address, question.datagram.clone()));
        self.due.insert((question.due_at, number));
        self.questions.insert(number, question);
    }

    fn take(&mut self, number: u64) -> Option<Question> {
        let question = self.questions.remove(&number)?;
        self.due.remove(&(question.due_at, number));
        Some(question)
    }

    fn delete(
        &mut self,
        now: Instant,
        relay: usize,
        names: Names<'_>,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        let number = self.last_question + 1;
        self.last_question = number;
        let datagram = command::delete(&relays.cookie(self.shard, number), names);
        let question = Question::aside(names.call_id, Kind::Delete, relay, datagram, now);
        self.ask(now, number, question, relays, out);
    }

    /// Whether it asks again for an answer, and another branch has answered since, or its own has ended.
    fn is_outdated(&self, question: &Question) -> bool {
        let call = self.calls.get(&question.call_id);
        let answer = call.and_then(|call| call.last_answer.as_ref());
        let is_last = answer.map(|answer| &answer.branch) == question.branch.as_ref();
        question.kind == Kind::Answer && question.message.is_none() && !is_last
    }

    /// The relay may have handled this question, about one branch, after the last answer, which another branch has given: it is asked for
    /// that answer again.
    fn answer_again(
        &mut self,
        now: Instant,
        question: &Question,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        let call = self.calls.get(&question.call_id);
        let answer = match (call, &question.branch) {
            (Some(call), Some(branch)) => call.answer_of_other_branch(branch),
            _ => None,
        };
        let Some(answer) = answer.filter(|answer| answer.relay == question.relay) else {
            return;
        };
        let number = self.last_question + 1;
        self.last_question = number;
        let cookie = relays.cookie(self.shard, number);
        let datagram = command::with_cookie(&cookie, &answer.datagram);
        let question = Question {
            branch: Some(answer.branch.clone()),
            ..Question::aside(&question.call_id, Kind::Answer, answer.relay, datagram, now)
        };
        self.ask(now, number, question, relays, out);
    }

    /// A relay does not take a question: the first one of a call goes to another relay.
    fn fail(
        &mut self,
        now: Instant,
        number: u64,
        mut question: Question,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        question.tried.push(question.relay);
        let call = self.calls.get_mut(&*question.call_id);
        let call = call.filter(|call| !call.is_begun && question.kind == Kind::Offer);
        let other = relays.choose(&question.call_id, &question.tried);
        match (call, other) {
            (Some(call), Some(other)) => {
                MediaCounters::add(&relays.counters.failed_over);
                relays.got_call(other);
                (call.relay, question.relay, question.sent) = (other, other, 0);
                self.ask(now, number, question, relays, out);
            }
            _ => self.give_up(number, &question, relays, out),
        }
    }

    /// Lets the message go without a relay, or not at all.
    fn give_up(
        &mut self,
        number: u64,
        question: &Question,
        relays: &Relays,
        out: &mut MediaActions<T>,
    ) {
        if question.message.is_none() {
            return;
        }
        let (counter, outcome) = match self.refuses && question.is_request {
            true => (&relays.counters.refused, Outcome::Refused),
            false => (&relays.counters.passed, Outcome::AsItCame),
        };
        MediaCounters::add(counter);
        out.failed.push(question.call_id.clone());
        self.resolve(question, number, outcome, out);
    }

    /// Lets go what was asked for, and what waits behind it alone.
    fn resolve(
        &mut self,
        question: &Question,
        number: u64,
        outcome: Outcome,
        out: &mut MediaActions<T>,
    ) {
        let Some(call) = self.calls.get_mut(&*question.call_id) else {
            return;
        };
        call.is_begun |= matches!(outcome, Outcome::Rewritten(_));
        for waiting in &mut call.waiting {
            if matches!(waiting.state, WaitState::Asked(asked) if asked == number) {
                if let Outcome::Rewritten(bytes) = &outcome {
                    call.done.push_back((waiting.key.clone(), bytes.clone()));
                    if call.done.len() > DONE_MAX {
                        call.done.pop_front();
                    }
                }
                waiting.state = WaitState::Answered(outcome.clone());
            }
        }
        call.release(out);
    }
}

/// What a message and its retransmissions have in common: the branch of a request, and what a
/// response answers.
fn key_of(message: &Message<'_>) -> Box<str> {
    if message.method().is_some() {
        return own_branch(message).unwrap_or("").into();
    }
    let header = |name| message.header(name).unwrap_or("");
    let status = message.status().unwrap_or(0);
    let (cseq, to) = (header(HeaderName::CSeq), header(HeaderName::To));
    format!("{status} {cseq} {to}").into()
}

/// Whether the hop before ours is a browser.
fn comes_from_web(request: &Message<'_>) -> bool {
    let via = request.vias().nth(1).and_then(Result::ok);
    via.is_some_and(|via| {
        ["WS", "WSS"]
            .iter()
            .any(|it| via.transport.eq_ignore_ascii_case(it))
    })
}

fn rewrite(datagram: &[u8], description: &[u8]) -> Option<Vec<u8>> {
    let message = Message::parse(datagram).ok()?;
    with_body(datagram, &message, description)
}

/// A question is sent so often, and waited for so long each time.
const SENDS: [Duration; 3] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
];
/// No call lasts so long without a description; its end was not told.
const CALL_AGE_MAX: Duration = Duration::from_secs(86_400);
