//! A device: it registers, refreshes, unregisters and queries, and remembers what was
//! acknowledged.

use crate::{
    client::{Context, Credentials, NEVER, REALM, SECOND, Transaction},
    knowledge::Knowledge,
};
use busyhour_sip::{Contacts, HeaderName, Message};
use std::net::SocketAddr;

pub struct Device {
    pub user: String,
    pub address: SocketAddr,
    pub knowledge: Knowledge,
    credentials: Credentials,
    call_id: String,
    cseq: u32,
    pending: Option<Pending>,
    next_at: u64,
    /// It asks for nothing for so long at most.
    rest_max: u64,
    /// Its last request has been answered.
    is_done: bool,
}

struct Pending {
    wish: ContactRequest,
    transaction: Transaction,
}

#[derive(Debug, Clone, PartialEq)]
enum ContactRequest {
    Bind {
        contacts: Vec<String>,
        expires_s: u64,
    },
    Remove(String),
    RemoveAll,
    Ask,
}

impl Device {
    pub fn new(number: usize, address: SocketAddr, context: &mut Context<'_>) -> Self {
        Self {
            user: format!("device{number}"),
            address,
            knowledge: Knowledge::default(),
            credentials: Credentials::default(),
            call_id: format!("register-{number}@{address}"),
            cseq: 0,
            pending: None,
            next_at: context.now + context.random.within(0, 10 * SECOND),
            rest_max: 40 * SECOND,
            is_done: false,
        }
    }

    pub fn resting_briefly(mut self) -> Self {
        self.rest_max = 8 * SECOND;
        self
    }

    pub fn next_wake(&self) -> u64 {
        match &self.pending {
            Some(pending) => pending.transaction.next_wake(),
            None => self.next_at,
        }
    }

    /// From now on it sends only one more request.
    pub fn ask_a_last_time(&mut self, at: u64) {
        self.next_at = at;
        self.is_done = false;
    }

    pub fn stop(&mut self) {
        self.pending = None;
        self.next_at = NEVER;
    }

    pub fn is_done(&self) -> bool {
        self.is_done
    }

    pub fn wake(&mut self, context: &mut Context<'_>) {
        match &mut self.pending {
            Some(pending) if pending.transaction.is_hopeless(context.now) => {
                self.pending = None;
                // Until no copy of the request exists any more, its effect is
                // unknown.
                self.next_at = context.now + context.dead_after - 32 * SECOND;
            }
            Some(pending) => pending.transaction.resend(context),
            None if context.now >= self.next_at => {
                let wish = self.choose(context);
                self.send(wish, context);
            }
            None => {}
        }
    }

    pub fn receive(&mut self, message: &Message<'_>, context: &mut Context<'_>) {
        let answered = |pending: &mut Pending| pending.transaction.is_answered_by(message);
        let Some(pending) = self.pending.take_if(answered) else {
            return;
        };
        let Pending { wish, transaction } = pending;
        match message.status() {
            Some(200) => self.accepted(&wish, message, transaction.first_sent_at, context),
            Some(401) => {
                self.credentials.challenged(message);
                self.send(wish, context);
            }
            Some(503) => self.next_at = context.now + retry_after(message) * SECOND,
            other => panic!("{} was answered {other:?} to {wish:?}", self.user),
        }
    }

    fn choose(&self, context: &mut Context<'_>) -> ContactRequest {
        if context.is_quiet {
            return ContactRequest::Ask;
        }
        let [main, other] = self.contacts();
        let expires_s = context.random.within(5, 120);
        let bind = |contacts| ContactRequest::Bind {
            contacts,
            expires_s,
        };
        match context.random.within(0, 100) {
            0..50 => bind(vec![main]),
            50..60 => bind(vec![other]),
            60..65 => bind(vec![main, other]),
            65..80 => ContactRequest::Remove(main),
            80..85 => ContactRequest::Remove(other),
            85..90 => ContactRequest::RemoveAll,
            _ => ContactRequest::Ask,
        }
    }

    /// Presence shows no contact address; this priority identifies the contact.
    fn priority(&self, contact: &str) -> &'static str {
        let is_main = self.contacts()[0] == contact;
        if is_main { MAIN } else { OTHER }
    }

    /// The contact that a presence document identifies by its priority.
    pub fn contact_of(&self, priority: &str) -> String {
        let [main, other] = self.contacts();
        match priority.trim_end_matches('0') {
            MAIN => main,
            OTHER => other,
            unknown => panic!("{} has no contact of priority {unknown}", self.user),
        }
    }

    fn contacts(&self) -> [String; 2] {
        let Self { user, address, .. } = self;
        [
            format!("sip:{user}@{address}"),
            format!("sip:{user}-mobile@{address};transport=udp"),
        ]
    }

    fn send(&mut self, wish: ContactRequest, context: &mut Context<'_>) {
        self.expect(&wish, context);
        self.cseq += 1;
        let branch = format!("z9hG4bK{}.{}", self.user, self.cseq);
        let request = self.request(&wish, &branch);
        let transaction = Transaction::send(branch, request, context);
        self.pending = Some(Pending { wish, transaction });
    }

    fn expect(&mut self, wish: &ContactRequest, context: &Context<'_>) {
        let (now, dead_after) = (context.now, context.dead_after);
        let knowledge = &mut self.knowledge;
        match wish {
            ContactRequest::Bind {
                contacts,
                expires_s,
            } => contacts
                .iter()
                .for_each(|c| knowledge.may_bind(c, now, expires_s * SECOND, dead_after)),
            ContactRequest::Remove(contact) => knowledge.may_remove(contact),
            ContactRequest::RemoveAll => knowledge.may_remove_all(),
            ContactRequest::Ask => {}
        }
    }

    fn request(&mut self, wish: &ContactRequest, branch: &str) -> String {
        let contact = match wish {
            ContactRequest::Bind {
                contacts,
                expires_s,
            } => contacts
                .iter()
                .map(|contact| {
                    let q = self.priority(contact);
                    format!("Contact: <{contact}>;expires={expires_s};q={q}\r\n")
                })
                .collect(),
            ContactRequest::Remove(contact) => format!("Contact: <{contact}>\r\nExpires: 0\r\n"),
            ContactRequest::RemoveAll => "Contact: *\r\nExpires: 0\r\n".to_owned(),
            ContactRequest::Ask => String::new(),
        };
        let uri = format!("sip:{REALM}");
        let authorization = self.credentials.line(&self.user, "REGISTER", &uri);
        let Self {
            user,
            address,
            call_id,
            cseq,
            ..
        } = self;
        format!(
            "REGISTER {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch={branch};rport\r\n\
             Max-Forwards: 70\r\n\
             From: <sip:{user}@{REALM}>;tag={user}\r\n\
             To: <sip:{user}@{REALM}>\r\n\
             Call-ID: {call_id}\r\n\
             CSeq: {cseq} REGISTER\r\n\
             {contact}{authorization}\
             Content-Length: 0\r\n\r\n"
        )
    }

    fn accepted(
        &mut self,
        wish: &ContactRequest,
        message: &Message<'_>,
        sent_at: u64,
        context: &mut Context<'_>,
    ) {
        let list = listed(message);
        let is_listed = |contact: &String| list.iter().any(|(listed, _)| listed == contact);
        let is_done = match wish {
            ContactRequest::Bind { contacts, .. } => contacts.iter().all(is_listed),
            ContactRequest::Remove(contact) => !is_listed(contact),
            ContactRequest::RemoveAll => list.is_empty(),
            ContactRequest::Ask => true,
        };
        assert!(is_done, "{}: {wish:?} was answered by {list:?}", self.user);
        let told = self.knowledge.told(&list, sent_at..context.now);
        told.unwrap_or_else(|error| panic!("{}: {error}", self.user));
        self.is_done = context.is_quiet;
        self.next_at = match context.is_quiet {
            true => NEVER,
            false => context.now + context.random.within(0, self.rest_max),
        };
    }
}

/// Each contact of a response with its remaining time.
pub fn listed(message: &Message<'_>) -> Vec<(String, u64)> {
    let Ok(Contacts::List(contacts)) = message.contacts() else {
        return Vec::new();
    };
    contacts
        .map(|contact| contact.expect("a contact"))
        .map(|contact| {
            let expires_s = contact.expires().expect("expires");
            let uri = contact.address.uri_text.to_owned();
            (uri, u64::from(expires_s) * SECOND)
        })
        .collect()
}

pub fn retry_after(message: &Message<'_>) -> u64 {
    let value = message.header(HeaderName::RetryAfter).expect("Retry-After");
    value.parse().expect("seconds")
}

const MAIN: &str = "0.7";
const OTHER: &str = "0.3";
