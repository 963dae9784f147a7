//! One call that uses a relay: what it has offered, what waits, and what a message of it is.

use crate::{
    Description, MediaActions, Outcome, Passing, Ready, Verdict,
    command::{Kind, Names},
};
use busyhour::clock::Instant;
use busyhour_sip::{Flow, HeaderName, Message, Method};
use std::collections::VecDeque;

/// One call.
#[derive(Debug)]
pub(crate) struct Call<T> {
    pub relay: usize,
    /// Of who began it.
    pub from_tag: Box<str>,
    pub offers: VecDeque<Offered>,
    /// What left last, for retransmissions.
    pub done: VecDeque<(Box<str>, Vec<u8>)>,
    pub waiting: Vec<Waiting<T>>,
    /// The sides that have shown to be browsers.
    pub web_tags: Vec<Box<str>>,
    /// Those that were called on a branch that uses no relay, and so their dialogs.
    pub direct_tags: Vec<Box<str>>,
    pub used_at: Instant,
    /// The relay has answered something.
    pub is_begun: bool,
}

/// An offer that has left: responses to its request, or its ACK, are answers.
#[derive(Debug)]
pub(crate) struct Offered {
    pub cseq: u32,
    pub tag: Box<str>,
    /// Of the INVITE that began the call: responses on other branches answer another offer.
    pub branch: Option<Box<str>>,
}

/// A message that is held.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub to: Flow,
    pub ticket: T,
    /// The name that its retransmissions have, too.
    pub key: Box<str>,
    pub state: WaitState,
}

#[derive(Debug)]
pub(crate) enum WaitState {
    /// For the answer to this question.
    Asked(u64),
    /// Behind others on the same way.
    Behind,
    Answered(Outcome),
}

/// What a message with a description is to its dialog.
pub(crate) struct Role<'a> {
    pub kind: Kind,
    pub names: Names<'a>,
    pub for_web: bool,
    pub from_web: bool,
    pub cseq: u32,
}

impl<T> Call<T> {
    /// What a message with a description is; `None` if it means nothing to a relay.
    pub fn role_of<'p>(&mut self, passing: Passing<'p, '_>) -> Option<Role<'p>> {
        let message = passing.message;
        let call_id = message.header(HeaderName::CallId)?;
        let (from, to) = (message.from().ok()?, message.to().ok()?);
        let (from_tag, to_tag) = (from.tag()?, to.tag());
        let cseq = message.cseq().ok()?.number;
        let is_request = message.method().is_some();
        if let (false, Some(to_tag), true) = (is_request, to_tag, self.has_offered(cseq, from_tag))
        {
            self.note_direct(cseq, to_tag, passing.cause);
        }
        let is_direct = |tag: &str| self.direct_tags.iter().any(|direct| &**direct == tag);
        if is_direct(from_tag) || to_tag.is_some_and(is_direct) {
            return None;
        }
        let has_offered = |tag: &str| self.has_offered(cseq, tag);
        let (kind, offerer, other, branch) = match (message.method(), to_tag) {
            (Some(Method::Ack | Method::Prack), Some(to_tag)) if has_offered(to_tag) => {
                (Kind::Answer, to_tag, Some(from_tag), None)
            }
            (Some(_), None) => (Kind::Offer, from_tag, None, own_branch(message)),
            (Some(_), to_tag) => (Kind::Offer, from_tag, to_tag, None),
            (None, Some(to_tag)) if has_offered(from_tag) => {
                (Kind::Answer, from_tag, Some(to_tag), passing.cause)
            }
            (None, Some(to_tag)) => (Kind::Offer, to_tag, Some(from_tag), None),
            (None, None) => return None,
        };
        let from_web = Description::of(message)?.is_web;
        let (sender, recipient) = match is_request {
            true => (Some(from_tag), to_tag),
            false => (to_tag, Some(from_tag)),
        };
        if let Some(sender) = sender.filter(|_| from_web)
            && !self.web_tags.iter().any(|tag| &**tag == sender)
            && self.web_tags.len() < TAGS_MAX
        {
            self.web_tags.push(sender.into());
        }
        let is_known_web = |tag: &str| self.web_tags.iter().any(|known| &**known == tag);
        Some(Role {
            kind,
            names: Names {
                call_id,
                from_tag: offerer,
                to_tag: other,
                branch,
            },
            for_web: passing.to.transport.is_web_socket() || recipient.is_some_and(is_known_web),
            from_web,
            cseq,
        })
    }

    pub fn note_offer(&mut self, cseq: u32, names: &Names<'_>) {
        self.offers.push_back(Offered {
            cseq,
            tag: names.from_tag.into(),
            branch: names.branch.map(Box::from),
        });
        if self.offers.len() > OFFERS_MAX {
            self.offers.pop_front();
        }
    }

    fn has_offered(&self, cseq: u32, tag: &str) -> bool {
        let mut offers = self.offers.iter();
        offers.any(|offer| offer.cseq == cseq && &*offer.tag == tag)
    }

    /// A response to the INVITE that began the call came on this branch: if no offer left there
    /// by way of the relay, who sends it has that of the caller, and is to get its answer.
    fn note_direct(&mut self, cseq: u32, tag: &str, branch: Option<&str>) {
        let mut offers = self.offers.iter().filter(|offer| offer.cseq == cseq);
        let is_relayed =
            offers.any(|offer| offer.branch.is_none() || offer.branch.as_deref() == branch);
        let is_known = self.direct_tags.iter().any(|direct| &**direct == tag);
        if !is_relayed && !is_known && self.direct_tags.len() < TAGS_MAX {
            self.direct_tags.push(tag.into());
        }
    }

    /// Whether this branch is one of several that use the relay; then it is no more.
    pub fn forget_branch(&mut self, branch: &str) -> bool {
        let is_it = |offer: &Offered| offer.branch.as_deref() == Some(branch);
        let branches = self.offers.iter().filter(|offer| offer.branch.is_some());
        let is_forked = branches.count() > 1;
        let place = self.offers.iter().position(is_it).filter(|_| is_forked);
        let is_done = self.done.iter().any(|(key, _)| &**key == branch);
        place.and_then(|place| self.offers.remove(place)).is_some() && is_done
    }

    /// A message without a description waits only behind one that goes the same way.
    pub fn behind_others(&mut self, to: Flow, ticket: T) -> Verdict<T> {
        let waits = self.waiting.iter().any(|waiting| waiting.to == to);
        if !waits || self.waiting.len() >= WAITING_MAX {
            return Verdict::Pass(ticket);
        }
        self.waiting.push(Waiting {
            to,
            ticket,
            key: Box::default(),
            state: WaitState::Behind,
        });
        Verdict::Held
    }

    /// What is answered leaves, and what is behind nothing else any more.
    pub fn release(&mut self, out: &mut MediaActions<T>) {
        let mut held: Vec<Flow> = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let outcome = match waiting.state {
                WaitState::Answered(outcome) if !held.contains(&waiting.to) => outcome,
                WaitState::Behind if !held.contains(&waiting.to) => Outcome::AsItCame,
                _ => {
                    held.push(waiting.to);
                    self.waiting.push(waiting);
                    continue;
                }
            };
            out.ready.push(Ready {
                ticket: waiting.ticket,
                outcome,
            });
        }
    }
}

pub(crate) fn own_branch<'a>(message: &Message<'a>) -> Option<&'a str> {
    message.via().ok()?.branch()
}

/// Messages of a call that are kept for their retransmissions.
pub(crate) const DONE_MAX: usize = 8;
/// Offers of a call whose answers are known: of as many branches as a fork may have.
const OFFERS_MAX: usize = 32;
const TAGS_MAX: usize = 32;
/// Messages of a call that wait behind others.
pub(crate) const WAITING_MAX: usize = 32;
