//! What devices and watchers share: retransmitted requests, and answers to
//! challenges.

use crate::support::random::Random;
use busyhour_sip::{DigestChallenge, HeaderName, Message, auth::Answer};
use std::time::{Duration, Instant};

pub const REALM: &str = "example.com";
pub const PASSWORD: &str = "busyhour";

/// What a device or watcher needs when it acts.
pub struct Context<'a> {
    pub now: Instant,
    pub random: &'a mut Random,
    pub out: &'a mut Vec<Vec<u8>>,
    /// The plan that all follow.
    pub plan: Plan,
    /// Counts acknowledged registrations and their removals.
    pub acknowledged: &'a mut u64,
}

/// The times and the phase that all devices and watchers follow.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// T1 of RFC 3261.
    pub t1: Duration,
    /// The average time from one registration of a device to its next one.
    pub pause: Duration,
    /// The lifetime that watchers ask for, and after which average time they
    /// refresh.
    pub subscription: Duration,
    pub refresh: Duration,
    /// Each device makes only one more request. No watcher refreshes, so it
    /// knows only what it is notified of unasked.
    pub is_last: bool,
}

impl Context<'_> {
    /// A random time around `mean` from now.
    pub fn about(&mut self, mean: Duration) -> Instant {
        let permille = 500 + self.random.below(1000) as u32;
        self.now + mean * permille / 1000
    }

    /// The time that a refusal asks for, or about a second.
    pub fn after(&mut self, refusal: &Message<'_>) -> Instant {
        let value = refusal.header(HeaderName::RetryAfter);
        let seconds = value.and_then(|value| value.parse().ok()).unwrap_or(1);
        self.about(Duration::from_secs(seconds))
    }
}

/// A request that is retransmitted until it is answered or given up.
pub struct Request {
    branch: String,
    bytes: Vec<u8>,
    interval: Duration,
    resend_at: Instant,
    gives_up_at: Instant,
}

impl Request {
    pub fn send(branch: String, text: String, context: &mut Context<'_>) -> Self {
        let (bytes, t1) = (text.into_bytes(), context.plan.t1);
        context.out.push(bytes.clone());
        Self {
            branch,
            bytes,
            interval: t1,
            resend_at: context.now + t1,
            gives_up_at: context.now + 64 * t1,
        }
    }

    pub fn next_wake(&self) -> Instant {
        self.resend_at.min(self.gives_up_at)
    }

    pub fn is_hopeless(&self, now: Instant) -> bool {
        now >= self.gives_up_at
    }

    pub fn resend(&mut self, context: &mut Context<'_>) {
        if context.now >= self.resend_at {
            context.out.push(self.bytes.clone());
            self.interval = (2 * self.interval).min(8 * context.plan.t1);
            self.resend_at = context.now + self.interval;
        }
    }

    pub fn is_answered_by(&self, response: &Message<'_>) -> bool {
        let branch = response.via().ok().and_then(|via| via.branch());
        branch == Some(&self.branch)
    }
}

/// The last challenge; the next request already contains the answer to it.
#[derive(Default)]
pub struct Credentials {
    challenge: Option<Box<str>>,
    count: u32,
    /// The number of challenges in a row.
    pub in_a_row: u32,
}

impl Credentials {
    pub fn challenged(&mut self, response: &Message<'_>) {
        self.challenge = response.header(HeaderName::WwwAuthenticate).map(Box::from);
        self.count = 0;
        self.in_a_row += 1;
    }

    /// The Authorization line, or nothing before the first challenge.
    pub fn line(&mut self, user: &str, method: &str, uri: &str) -> String {
        let Some(challenge) = &self.challenge else {
            return String::new();
        };
        let challenge = DigestChallenge::parse(challenge).flatten();
        let challenge = challenge.expect("a challenge with a known algorithm");
        self.count += 1;
        let answer = Answer::new(&challenge, user, PASSWORD, method, uri);
        let answer = answer.expect("MD5").counted(self.count, "cnonce");
        format!("Authorization: {answer}\r\n")
    }
}

/// No client with the right password is challenged this often, whatever is lost.
pub const CHALLENGES_MAX: u32 = 20;
