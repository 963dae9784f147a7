//! A call that was answered, as one of its telephones knows it.

use super::message::{offer, with_body};
use crate::client::{SECOND, Transaction};
use busyhour_sip::{
    HeaderName, Message,
    session::{Refresher, SessionExpires},
};
use std::net::SocketAddr;

/// Call-ID, own tag, tag of the other side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub call_id: String,
    pub local_tag: String,
    pub remote_tag: String,
}

pub struct Dialog {
    pub name: Name,
    /// Values of From and To of what it sends.
    local: String,
    remote: String,
    target: String,
    routes: Vec<String>,
    pub cseq: u32,
    pub remote_cseq: Option<u32>,
    pub holds: bool,
    /// What its next re-INVITE says of that.
    pub wants_hold: bool,
    pub is_held: bool,
    pub session: Option<Session>,
    /// The 2xx that waits for its ACK, and whose INVITE's number it has.
    pub unacknowledged: Option<(u32, Transaction)>,
    /// No media comes.
    pub lonely_since: Option<u64>,
    /// A re-INVITE of its own is under way.
    pub is_asking: bool,
}

/// A session timer (RFC 4028).
#[derive(Clone, Copy)]
pub struct Session {
    interval: u64,
    pub refreshes: bool,
    pub refreshed_at: u64,
}

impl Name {
    pub fn mirrored(&self) -> Self {
        Self {
            call_id: self.call_id.clone(),
            local_tag: self.remote_tag.clone(),
            remote_tag: self.local_tag.clone(),
        }
    }

    /// Of a request that came.
    pub fn of_request(message: &Message<'_>) -> Option<Self> {
        Some(Self {
            call_id: message.call_id().ok()?.to_owned(),
            local_tag: message.to().ok()?.tag()?.to_owned(),
            remote_tag: message.from().ok()?.tag()?.to_owned(),
        })
    }
}

impl Dialog {
    /// Of the 2xx that the caller received.
    pub fn of_caller(answer: &Message<'_>) -> Option<Self> {
        let header = |name| answer.header(name).map(str::to_owned);
        let mut routes: Vec<_> = answer.elements(HeaderName::RecordRoute).collect();
        routes.reverse();
        Some(Self {
            name: Name {
                call_id: answer.call_id().ok()?.to_owned(),
                local_tag: answer.from().ok()?.tag()?.to_owned(),
                remote_tag: answer.to().ok()?.tag()?.to_owned(),
            },
            local: header(HeaderName::From)?,
            remote: header(HeaderName::To)?,
            target: target_of(answer)?,
            routes: routes.into_iter().map(str::to_owned).collect(),
            cseq: answer.cseq().ok()?.number,
            remote_cseq: None,
            holds: false,
            wants_hold: false,
            is_held: false,
            session: None,
            unacknowledged: None,
            lonely_since: None,
            is_asking: false,
        })
    }

    /// Of the INVITE that the callee answers.
    pub fn of_callee(invite: &Message<'_>, tag: &str) -> Option<Self> {
        let header = |name| invite.header(name).map(str::to_owned);
        let routes = invite.elements(HeaderName::RecordRoute);
        Some(Self {
            name: Name {
                call_id: invite.call_id().ok()?.to_owned(),
                local_tag: tag.to_owned(),
                remote_tag: invite.from().ok()?.tag()?.to_owned(),
            },
            local: format!("{};tag={tag}", header(HeaderName::To)?),
            remote: header(HeaderName::From)?,
            target: target_of(invite)?,
            routes: routes.map(str::to_owned).collect(),
            cseq: 0,
            remote_cseq: Some(invite.cseq().ok()?.number),
            holds: false,
            wants_hold: false,
            is_held: false,
            session: None,
            unacknowledged: None,
            lonely_since: None,
            is_asking: false,
        })
    }

    /// A request within the dialog, with its number.
    pub fn request(
        &self,
        method: &str,
        (cseq, branch): (u32, &str),
        address: SocketAddr,
        contact: &str,
    ) -> String {
        let Self {
            local,
            remote,
            target,
            name,
            ..
        } = self;
        let body = match method {
            "INVITE" => offer(self.wants_hold),
            _ => "",
        };
        let session = match (method, self.session) {
            ("INVITE" | "UPDATE", Some(session)) => session.lines(Refresher::Uac),
            _ => String::new(),
        };
        let head = format!(
            "{method} {target} SIP/2.0\r\nVia: SIP/2.0/UDP {address};branch={branch};rport\r\n\
             Max-Forwards: 70\r\nRoute: {}\r\nFrom: {local}\r\nTo: {remote}\r\n\
             Call-ID: {}\r\nCSeq: {cseq} {method}\r\nContact: <{contact}>\r\n{session}",
            self.routes.join(", "),
            name.call_id,
        );
        with_body(head, body)
    }

    /// The other side says where it is now.
    pub fn follow(&mut self, message: &Message<'_>) {
        if let Some(target) = target_of(message) {
            self.target = target;
        }
    }
}

impl Session {
    /// What a message agrees on, for the side that sent the request or the other one; nothing
    /// for one that does not know session timers.
    pub fn of(
        message: &Message<'_>,
        knows_timers: bool,
        sent_request: bool,
        now: u64,
    ) -> Option<Self> {
        let agreed = SessionExpires::of(message).filter(|_| knows_timers)?;
        let own = match sent_request {
            true => Refresher::Uac,
            false => Refresher::Uas,
        };
        Some(Self {
            interval: u64::from(agreed.interval_s) * SECOND,
            refreshes: agreed.refresher == Some(own),
            refreshed_at: now,
        })
    }

    /// The lines of a request or response of the side with this part in the transaction:
    /// who refreshes stays the same.
    pub fn lines(&self, own: Refresher) -> String {
        let refresher = match (self.refreshes, own) {
            (true, own) => own,
            (false, Refresher::Uac) => Refresher::Uas,
            (false, Refresher::Uas) => Refresher::Uac,
        };
        let seconds = self.interval / SECOND;
        format!(
            "Supported: timer\r\nSession-Expires: {seconds};refresher={}\r\n",
            refresher.as_str()
        )
    }

    /// When its refresh, or the BYE without one, is due (RFC 4028 §10).
    pub fn due_at(&self) -> u64 {
        let early = (self.interval / 3).min(32 * SECOND);
        self.refreshed_at
            + match self.refreshes {
                true => self.interval / 2,
                false => self.interval - early,
            }
    }
}

fn target_of(message: &Message<'_>) -> Option<String> {
    let contact = message.header(HeaderName::Contact)?;
    Some(contact.trim_matches(['<', '>']).to_owned())
}
