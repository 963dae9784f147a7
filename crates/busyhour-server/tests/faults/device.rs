//! A device that registers, refreshes and unregisters, and remembers what was
//! acknowledged.

use crate::call::{CHALLENGES_MAX, Context, Credentials, PASSWORD, REALM, Request};
use busyhour_sip::{Contacts, HeaderName, Message};
use std::time::Instant;

/// What a device asks for its binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContactRequest {
    Bind,
    Remove,
}

pub struct Device {
    number: u32,
    cseq: u32,
    credentials: Credentials,
    pending: Option<Pending>,
    next_at: Instant,
    /// The last acknowledged request, and its CSeq.
    acknowledged: Option<(ContactRequest, u32)>,
    /// Whether an unacknowledged request since then may have made a binding.
    may_have_bound: bool,
    may_have_removed: bool,
    is_done: bool,
}

struct Pending {
    wish: ContactRequest,
    is_last: bool,
    request: Request,
}

impl Device {
    pub fn new(number: u32, begins_at: Instant) -> Self {
        Self {
            number,
            cseq: 0,
            credentials: Credentials::default(),
            pending: None,
            next_at: begins_at,
            acknowledged: None,
            may_have_bound: false,
            may_have_removed: false,
            is_done: false,
        }
    }

    pub fn aor(&self) -> String {
        format!("sip:device{}@{REALM}", self.number)
    }

    /// Whether its last request was acknowledged.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    pub fn is_acknowledged(&self) -> bool {
        self.acknowledged.is_some()
    }

    /// Whether it is registered, if it knows.
    pub fn is_bound(&self) -> Option<bool> {
        let (wish, _) = self.acknowledged?;
        Some(wish == ContactRequest::Bind)
    }

    /// Checks the CSeq of its binding, or that there is none; returns what is
    /// wrong.
    pub fn judge(&self, found: Option<u32>) -> Result<(), String> {
        let (bound_at, may_be_absent, may_be_there) = match self.acknowledged {
            None => (0, true, self.may_have_bound),
            Some((ContactRequest::Bind, cseq)) => (cseq, self.may_have_removed, true),
            Some((ContactRequest::Remove, _)) => (0, true, self.may_have_bound),
        };
        let is_right = match found {
            Some(cseq) => may_be_there && cseq >= bound_at,
            None => may_be_absent,
        };
        let acknowledged = self.acknowledged;
        let error = || {
            format!(
                "{}: acknowledged {acknowledged:?}, found {found:?}",
                self.aor()
            )
        };
        is_right.then_some(()).ok_or_else(error)
    }

    /// Makes one more request, at this time or when the request in progress has
    /// ended.
    pub fn end_well(&mut self, at: Instant) {
        self.is_done = false;
        self.next_at = at;
    }

    pub fn next_wake(&self) -> Option<Instant> {
        match &self.pending {
            Some(pending) => Some(pending.request.next_wake()),
            None => (!self.is_done).then_some(self.next_at),
        }
    }

    pub fn wake(&mut self, context: &mut Context<'_>) {
        match &mut self.pending {
            Some(pending) if pending.request.is_hopeless(context.now) => {
                self.pending = None;
                self.next_at = context.now;
            }
            Some(pending) => pending.request.resend(context),
            None if context.now >= self.next_at && !self.is_done => {
                let wish = self.choose(context);
                self.begin(wish, context);
            }
            None => {}
        }
    }

    /// # Errors
    ///
    /// What no server may send.
    pub fn receive(
        &mut self,
        response: &Message<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        let is_answered = |pending: &mut Pending| pending.request.is_answered_by(response);
        let Some(pending) = self.pending.take_if(is_answered) else {
            return Ok(());
        };
        match response.status() {
            Some(200) => return self.accepted(&pending, response, context),
            Some(401) if self.credentials.in_a_row < CHALLENGES_MAX => {
                self.credentials.challenged(response);
                self.begin(pending.wish, context);
            }
            Some(503) if response.header(HeaderName::RetryAfter).is_some() => {
                self.next_at = context.after(response);
            }
            other => {
                return Err(format!(
                    "{}: {:?} was answered {other:?}",
                    self.aor(),
                    pending.wish
                ));
            }
        }
        Ok(())
    }

    fn choose(&self, context: &mut Context<'_>) -> ContactRequest {
        let wishes_end = match context.plan.is_last {
            true => self.number.is_multiple_of(3),
            false => self.is_acknowledged() && context.random.below(4) == 0,
        };
        if wishes_end {
            ContactRequest::Remove
        } else {
            ContactRequest::Bind
        }
    }

    fn begin(&mut self, wish: ContactRequest, context: &mut Context<'_>) {
        match wish {
            ContactRequest::Bind => self.may_have_bound = true,
            ContactRequest::Remove => self.may_have_removed = true,
        }
        self.cseq += 1;
        let branch = format!("z9hG4bKd{}.{}", self.number, self.cseq);
        let text = self.request(wish, &branch);
        self.pending = Some(Pending {
            wish,
            is_last: context.plan.is_last,
            request: Request::send(branch, text, context),
        });
    }

    fn request(&mut self, wish: ContactRequest, branch: &str) -> String {
        let Self { number, cseq, .. } = *self;
        let expires_s = match wish {
            ContactRequest::Bind => EXPIRES_S,
            ContactRequest::Remove => 0,
        };
        let (uri, user) = (format!("sip:{REALM}"), format!("device{number}"));
        let authorization = self.credentials.line(&user, "REGISTER", &uri);
        format!(
            "REGISTER {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {HERE};branch={branch};rport\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{user}@{REALM}>;tag={user}\r\n\
             To: <sip:{user}@{REALM}>\r\n\
             Call-ID: {user}.{PASSWORD}\r\n\
             CSeq: {cseq} REGISTER\r\n\
             Contact: <{}>;expires={expires_s}\r\n\
             {authorization}Content-Length: 0\r\n\r\n",
            self.contact()
        )
    }

    fn contact(&self) -> String {
        format!("sip:device{}@{HERE}", self.number)
    }

    fn accepted(
        &mut self,
        pending: &Pending,
        response: &Message<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        let is_listed = self.is_listed(response);
        if is_listed != (pending.wish == ContactRequest::Bind) {
            return Err(format!("{}: {:?} was not done", self.aor(), pending.wish));
        }
        self.acknowledged = Some((pending.wish, self.cseq));
        *context.acknowledged += 1;
        (self.may_have_bound, self.may_have_removed) = (false, false);
        self.credentials.in_a_row = 0;
        self.is_done = pending.is_last;
        self.next_at = match context.plan.is_last {
            true => context.now,
            false => context.about(context.plan.pause),
        };
        Ok(())
    }

    fn is_listed(&self, response: &Message<'_>) -> bool {
        // A response without any Contact header contains no contacts.
        if response.header(HeaderName::Contact).is_none() {
            return false;
        }
        let Ok(Contacts::List(contacts)) = response.contacts() else {
            return false;
        };
        let ours = self.contact();
        let mut uris = contacts.flatten().map(|contact| contact.address.uri_text);
        uris.any(|uri| uri == ours)
    }
}

/// Longer than a run, and than the steps of the clock.
const EXPIRES_S: u32 = 3 * 3600;
/// The address in its Contact, behind an address translation.
pub const HERE: &str = "192.0.2.1:5060";
