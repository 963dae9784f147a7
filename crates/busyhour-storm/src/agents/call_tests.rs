//! Callers and callees against a proxy that the test plays, in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use busyhour::clock::Instant;

use crate::agents::callee_agent::CalleeAgent;
use crate::agents::caller_agent::CallerAgent;
use crate::agents::pending::Timing;
use crate::plan::args::Transport;
use crate::plan::call_plan::CallPlan;
use crate::plan::users::StormUsers;
use crate::results::call_tally::{CallFailure, CallTally};
use crate::wire::batch::Outbox;

/// What a proxy does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It leaves the contacts alone that did not answer.
    CancelsNobody,
    /// It forwards each 200 of an INVITE twice.
    RepeatsAnswers,
    /// It forwards each 200 of an INVITE twice, the second time with another tag.
    InventsAnswers,
    /// It asks for a password each time.
    AlwaysChallenges,
    /// It loses all requests of a method.
    Loses(&'static str),
    /// It loses the first request of a method.
    LosesFirst(&'static str),
    /// It sends each INVITE to the same contact by two branches.
    ForksTwice,
    /// It sends 487 to the caller and forgets the contact.
    ForgetsContact,
}

/// A stateless forwarder with just enough memory to fork and to cancel.
struct World {
    now: Instant,
    caller: CallerAgent,
    callees: Vec<CalleeAgent>,
    challenges: bool,
    fault: Fault,
    has_lost: bool,
    /// The INVITE as it was forwarded to each callee, until its final response.
    ringing: Vec<Option<String>>,
    /// Messages of the caller, and of the callees.
    from_caller: VecDeque<String>,
    from_callee: VecDeque<(usize, String)>,
}

impl World {
    fn new(forks: u32, given_up_percent: u32, fault: Fault) -> Self {
        Self::lasting(Duration::ZERO, forks, given_up_percent, fault)
    }

    /// Answered calls last so long.
    fn lasting(talk: Duration, forks: u32, given_up_percent: u32, fault: Fault) -> Self {
        let plan = CallPlan {
            run: 0xbeef,
            forks,
            ring: Duration::from_millis(50),
            talk,
            given_up_percent,
        };
        let timing = Timing::with_t1(Duration::from_millis(500));
        let here = |port| format!("127.0.0.1:{port}").parse().expect("an address");
        let callee =
            |fork| CalleeAgent::new(users(1 + fork), plan, fork, here(6000 + fork), timing);
        Self {
            now: Instant::ZERO,
            caller: CallerAgent::new(users(0), plan, 10, here(5000), timing),
            callees: (0..forks).map(callee).collect(),
            challenges: false,
            fault,
            has_lost: false,
            ringing: vec![None; forks as usize],
            from_caller: VecDeque::new(),
            from_callee: VecDeque::new(),
        }
    }

    /// Makes a call, and returns the counts of both sides after a minute.
    fn call(mut self) -> CallTally {
        let mut out = Outbox::default();
        self.caller.call(self.now, self.now, 3, &mut out);
        assert!(self.caller.is_engaged(3));
        self.take_from_caller(&mut out);
        for _ in 0..6000 {
            self.forward_all();
            self.now = self.now + Duration::from_millis(10);
            self.caller.expire(self.now, &mut out);
            self.take_from_caller(&mut out);
            for number in 0..self.callees.len() {
                self.callees[number].expire(self.now, &mut out);
                self.take_from_callee(number, &mut out);
            }
        }
        assert_eq!(self.caller.in_flight(), 0);
        assert!(!self.caller.is_engaged(3));
        let mut sum = self.caller.tally.clone();
        for callee in &mut self.callees {
            callee.finish();
            sum.merge(&callee.tally);
        }
        sum
    }

    fn forward_all(&mut self) {
        while !self.from_caller.is_empty() || !self.from_callee.is_empty() {
            if let Some(request) = self.from_caller.pop_front() {
                self.request(&request);
            }
            if let Some((number, response)) = self.from_callee.pop_front() {
                self.response(number, &response);
            }
        }
    }

    fn request(&mut self, request: &str) {
        let method = request.split(' ').next().unwrap_or_default();
        let loses = match self.fault {
            Fault::Loses(lost) => lost == method,
            Fault::LosesFirst(lost) => {
                lost == method && !std::mem::replace(&mut self.has_lost, true)
            }
            _ => false,
        };
        if loses {
            return;
        }
        match method {
            "INVITE" => self.invite(request),
            "CANCEL" => {
                self.send_caller(&answer(request, "200 OK", ""));
                if self.fault == Fault::ForgetsContact {
                    let invite = request.replace("CANCEL", "INVITE");
                    return self.send_caller(&answer(&invite, "487 Request Terminated", ""));
                }
                self.cancel_ringing(None);
            }
            // The ACK of a refusal is for the proxy.
            "ACK" if !request.contains("\r\nRoute: ") => {}
            _ => {
                let wanted = request.split(' ').nth(1).unwrap_or_default();
                let port = wanted.rsplit(':').next().and_then(|it| it.parse().ok());
                let number = port.unwrap_or(6000usize) - 6000;
                self.send_callee(number, &with_via(request, "z9hG4bKwithin"));
            }
        }
    }

    fn invite(&mut self, invite: &str) {
        let is_proven = invite.contains("\r\nProxy-Authorization: Digest ");
        if self.challenges && (!is_proven || self.fault == Fault::AlwaysChallenges) {
            let challenge =
                "Proxy-Authenticate: Digest realm=\"here\", nonce=\"n\", qop=\"auth\"\r\n";
            let status = "407 Proxy Authentication Required";
            return self.send_caller(&answer(invite, status, challenge));
        }
        self.send_caller(&answer(invite, "100 Trying", ""));
        for number in 0..self.callees.len() {
            let forwarded = with_via(invite, "z9hG4bKfirst");
            let forwarded = with_header(&forwarded, "Record-Route: <sip:127.0.0.1;lr>");
            self.ringing[number] = Some(forwarded.clone());
            self.send_callee(number, &forwarded);
            if self.fault == Fault::ForksTwice {
                let again = forwarded.replace("z9hG4bKfirst", "z9hG4bKsecond");
                self.send_callee(number, &again);
            }
        }
    }

    fn response(&mut self, number: usize, response: &str) {
        let forwarded = without_via(response);
        let status = response.split(' ').nth(1).unwrap_or_default();
        if response.contains(" CANCEL\r\n") || response.contains("z9hG4bKsecond") {
            return;
        }
        if response.contains(" INVITE\r\n") && status >= "200" {
            let Some(invite) = self.ringing[number].take() else {
                // It comes again.
                return self.send_caller(&forwarded);
            };
            if status == "200" {
                self.cancel_ringing(Some(number));
            } else {
                let ack = invite
                    .replacen("INVITE", "ACK", 1)
                    .replace(" INVITE\r\n", " ACK\r\n");
                self.send_callee(number, &without_body(&ack));
                if self.ringing.iter().any(Option::is_some) || self.has_answered() {
                    return;
                }
            }
            match self.fault {
                Fault::RepeatsAnswers => self.send_caller(&forwarded),
                Fault::InventsAnswers => {
                    self.send_caller(&forwarded);
                    let tag = forwarded.replace("f0\r\n", "x\r\n");
                    return self.send_caller(&tag);
                }
                _ => {}
            }
        }
        self.send_caller(&forwarded);
    }

    fn has_answered(&self) -> bool {
        !self.caller.tally.answer_ns.is_empty()
    }

    fn cancel_ringing(&mut self, except: Option<usize>) {
        if self.fault == Fault::CancelsNobody {
            return;
        }
        for number in 0..self.ringing.len() {
            if let Some(invite) = self.ringing[number]
                .clone()
                .filter(|_| except != Some(number))
            {
                let cancel = invite.replacen("INVITE", "CANCEL", 1);
                let cancel = cancel.replace(" INVITE\r\n", " CANCEL\r\n");
                self.send_callee(number, &without_body(&cancel));
            }
        }
    }

    fn send_caller(&mut self, message: &str) {
        let mut out = Outbox::default();
        self.caller.receive(self.now, message.as_bytes(), &mut out);
        self.take_from_caller(&mut out);
    }

    fn send_callee(&mut self, number: usize, message: &str) {
        let mut out = Outbox::default();
        self.callees[number].receive(self.now, message.as_bytes(), &mut out);
        self.take_from_callee(number, &mut out);
    }

    fn take_from_caller(&mut self, out: &mut Outbox) {
        self.from_caller.extend(taken(out));
    }

    fn take_from_callee(&mut self, number: usize, out: &mut Outbox) {
        let all = taken(out).into_iter().map(|message| (number, message));
        self.from_callee.extend(all);
    }
}

fn users(run: u32) -> StormUsers {
    StormUsers {
        user: "device{n}".parse().expect("a pattern"),
        password: Some("secret".parse().expect("a pattern")),
        domain: "example.org".into(),
        first: 1,
        stride: 1,
        algorithm: None,
        expires_s: 60,
        transport: Transport::Udp,
        run: 0xbeef + run,
    }
}

fn taken(out: &mut Outbox) -> Vec<String> {
    let text = |one: &[u8]| String::from_utf8(one.to_vec()).expect("text");
    let all = out.iter().map(text).collect();
    out.clear();
    all
}

/// A response of the proxy itself.
fn answer(request: &str, status: &str, header: &str) -> String {
    let kept = ["Via: ", "From: ", "To: ", "Call-ID: ", "CSeq: "];
    let lines = request
        .lines()
        .filter(|line| kept.iter().any(|it| line.starts_with(it)));
    let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
    format!("SIP/2.0 {status}\r\n{lines}{header}Content-Length: 0\r\n\r\n")
}

fn with_header(message: &str, header: &str) -> String {
    message.replacen("\r\n", &format!("\r\n{header}\r\n"), 1)
}

fn with_via(message: &str, branch: &str) -> String {
    with_header(
        message,
        &format!("Via: SIP/2.0/UDP 127.0.0.1;branch={branch}"),
    )
}

fn without_via(message: &str) -> String {
    let (head, rest) = message.split_once("\r\nVia: ").expect("a Via");
    let (_, tail) = rest.split_once("\r\n").expect("a line");
    format!("{head}\r\n{tail}")
}

fn without_body(message: &str) -> String {
    let (head, _) = message.split_once("\r\n\r\n").expect("a head");
    let lines = head.lines().filter(|line| !line.starts_with("Content-"));
    let lines: String = lines.map(|line| format!("{line}\r\n")).collect();
    format!("{lines}Content-Length: 0\r\n\r\n")
}

fn failures(tally: &CallTally) -> Vec<(CallFailure, u64)> {
    tally
        .failed
        .iter()
        .map(|(failure, count)| (*failure, *count))
        .collect()
}

#[test]
fn a_plain_call_is_right_on_both_sides() {
    let tally = World::new(1, 0, Fault::None).call();
    assert_eq!(failures(&tally), []);
    assert_eq!((tally.begun, tally.answered, tally.given_up), (1, 1, 0));
    assert_eq!((tally.retransmitted, tally.unexpected), (0, 0));
    assert_eq!((tally.ringing_ns.max(), tally.answer_ns.len()), (0, 1));
    assert!(tally.answer_ns.max() >= 50_000_000);
}

#[test]
fn a_forked_call_is_answered_once_and_the_other_contact_is_cancelled() {
    let tally = World::new(3, 0, Fault::None).call();
    assert_eq!(failures(&tally), []);
    assert_eq!((tally.answered, tally.cancelled_contacts), (1, 2));
    assert_eq!(tally.unexpected, 0);
}

#[test]
fn a_call_that_is_given_up_ends_by_487() {
    let tally = World::new(2, 100, Fault::None).call();
    assert_eq!(failures(&tally), []);
    assert_eq!((tally.answered, tally.given_up), (0, 1));
    assert_eq!((tally.cancelled_contacts, tally.retransmitted), (2, 0));
}

#[test]
fn a_challenge_is_answered_once() {
    let mut world = World::new(1, 0, Fault::None);
    world.challenges = true;
    let tally = world.call();
    assert_eq!(failures(&tally), []);
    assert_eq!((tally.answered, tally.challenged), (1, 1));

    let mut world = World::new(1, 0, Fault::AlwaysChallenges);
    world.challenges = true;
    let tally = world.call();
    assert_eq!(failures(&tally), [(CallFailure::Invite(407), 1)]);
}

#[test]
fn a_contact_that_rings_for_ever_is_found() {
    let tally = World::new(2, 0, Fault::CancelsNobody).call();
    assert_eq!(failures(&tally), [(CallFailure::NeverEnded, 1)]);
    let tally = World::new(1, 100, Fault::ForgetsContact).call();
    assert_eq!(failures(&tally), [(CallFailure::NeverEnded, 1)]);
}

#[test]
fn the_same_answer_again_is_acknowledged_again() {
    let tally = World::new(1, 0, Fault::RepeatsAnswers).call();
    assert_eq!(failures(&tally), []);
    // Once by the caller, and once by the callee, which got two ACKs.
    assert_eq!((tally.answered, tally.repeated), (1, 2));
}

#[test]
fn an_answer_of_somebody_else_is_a_failure() {
    let tally = World::new(1, 0, Fault::InventsAnswers).call();
    assert_eq!(failures(&tally), [(CallFailure::AnsweredTwice, 1)]);
}

#[test]
fn a_contact_that_is_called_by_two_branches_is_found() {
    let tally = World::new(1, 0, Fault::ForksTwice).call();
    assert_eq!(failures(&tally), [(CallFailure::CalledTwice, 1)]);
}

#[test]
fn lost_requests_are_sent_again() {
    for method in ["INVITE", "ACK", "BYE"] {
        let tally = World::new(1, 0, Fault::LosesFirst(method)).call();
        let expected = match method {
            // BYE follows at once and ends the call, so the 200 is not sent again.
            "ACK" => vec![(CallFailure::Unacknowledged, 1)],
            _ => vec![],
        };
        assert_eq!(failures(&tally), expected, "{method}");
        assert_eq!(tally.answered, 1, "{method}");
        assert_eq!(tally.retransmitted, u64::from(method != "ACK"), "{method}");
    }
    let tally = World::new(1, 100, Fault::LosesFirst("CANCEL")).call();
    assert_eq!((failures(&tally), tally.given_up), (vec![], 1));
}

#[test]
fn a_call_lasts_until_its_caller_ends_it() {
    let talk = Duration::from_secs(20);
    let tally = World::lasting(talk, 1, 0, Fault::None).call();
    assert_eq!((failures(&tally), tally.answered), (vec![], 1));
    // The contact asks for its ACK again while the call lasts.
    let tally = World::lasting(talk, 1, 0, Fault::LosesFirst("ACK")).call();
    assert_eq!((failures(&tally), tally.answered), (vec![], 1));
    assert_eq!((tally.retransmitted, tally.drops()), (1, 0));
}

#[test]
fn a_call_that_had_begun_and_is_lost_counts_as_dropped() {
    for (method, drops) in [("INVITE", 0), ("ACK", 1), ("BYE", 2)] {
        let tally = World::new(1, 0, Fault::Loses(method)).call();
        assert_eq!(tally.drops(), drops, "{method}");
    }
}

#[test]
fn requests_without_an_answer_are_given_up() {
    let tally = World::new(1, 0, Fault::Loses("INVITE")).call();
    assert_eq!(failures(&tally), [(CallFailure::InviteTimeout, 1)]);
    // Timer A: after 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s.
    assert_eq!(tally.retransmitted, 6);
    let tally = World::new(1, 0, Fault::Loses("BYE")).call();
    let expected = [(CallFailure::ByeTimeout, 1), (CallFailure::NeverEnded, 1)];
    assert_eq!(failures(&tally), expected);
}
