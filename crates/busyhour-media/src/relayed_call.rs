//! One call that uses a relay: what it has offered, what waits, and what a message of it is.

use crate::{
    Description, MediaActions, Outcome, Passing, Ready, Verdict,
    command::{Kind, Names},
};
use busyhour::clock::Instant;
use busyhour_sip::{CSeq, Flow, HeaderName, Message, Method};
use std::collections::VecDeque;

/// One call.
#[derive(Debug)]
pub(crate) struct Call<T> {
    pub relay: usize,
    /// Of who began it.
    pub from_tag: Box<str>,
    pub offers: VecDeque<Offered>,
    /// `None` as soon as a dialog of the call goes on with other descriptions.
    pub last_answer: Option<AskedAnswer>,
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

/// An offer that has left.
#[derive(Debug)]
pub(crate) struct Offered {
    /// Of the request that carried it, or whose response did.
    pub cseq: u32,
    /// Of who makes it.
    pub tag: Box<str>,
    /// Of the INVITE that began the call: responses on other branches answer another offer.
    pub branch: Option<Box<str>>,
    pub carrier: Carrier,
}

/// The answer that a branch of the INVITE that began the call has given last, as the relay was asked for it.
#[derive(Debug)]
pub(crate) struct AskedAnswer {
    pub branch: Box<str>,
    pub relay: usize,
    pub datagram: Vec<u8>,
}

/// What carried an offer; so what carries its answer (RFC 3261 §13.2.1, RFC 3262 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Its responses answer it.
    Request,
    /// Its ACK answers it, or the PRACK of this RSeq, if it had one.
    Response(Option<u32>),
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
    pub family: Option<&'static str>,
    pub cseq: u32,
    pub carrier: Carrier,
}

impl<T> Call<T> {
    /// What a message with a description is; `None` if it means nothing to a relay.
    pub fn role_of<'p>(&mut self, passing: Passing<'p, '_>) -> Option<Role<'p>> {
        let message = passing.message;
        let call_id = message.header(HeaderName::CallId)?;
        let (from, to) = (message.from().ok()?, message.to().ok()?);
        let (from_tag, to_tag) = (from.tag()?, to.tag());
        let CSeq { number, method } = message.cseq().ok()?;
        let is_request = message.method().is_some();
        let has_asked = self.has_offered(number, from_tag, |carrier| carrier == Carrier::Request);
        if let (false, Some(to_tag), true) = (is_request, to_tag, has_asked) {
            self.note_direct(number, to_tag, passing.cause);
        }
        let is_direct = |tag: &str| self.direct_tags.iter().any(|direct| &**direct == tag);
        if is_direct(from_tag) || to_tag.is_some_and(is_direct) {
            return None;
        }
        let (kind, offerer, other, branch) = match (message.status(), method, to_tag) {
            (None, Method::Ack, Some(to_tag)) => {
                let of_response = |carrier| carrier != Carrier::Request;
                let is_answer = self.has_offered(number, to_tag, of_response);
                is_answer.then_some((Kind::Answer, to_tag, Some(from_tag), None))?
            }
            (None, Method::Prack, Some(to_tag)) if self.acknowledges_offer(message, to_tag) => {
                (Kind::Answer, to_tag, Some(from_tag), None)
            }
            (None, Method::Invite, None) => (Kind::Offer, from_tag, None, own_branch(message)),
            (None, Method::Invite | Method::Update | Method::Prack, Some(to_tag)) => {
                (Kind::Offer, from_tag, Some(to_tag), None)
            }
            (Some(..300), _, Some(to_tag)) if has_asked => {
                (Kind::Answer, from_tag, Some(to_tag), passing.cause)
            }
            (Some(..300), Method::Invite, Some(to_tag)) => {
                (Kind::Offer, to_tag, Some(from_tag), None)
            }
            // A refusal says what would be understood (RFC 3261 §21.4.26), and OPTIONS what is
            // (§11.2): that is of no session.
            _ => return None,
        };
        let description = Description::of(message)?;
        let from_web = description.is_web;
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
            family: other_family(kind, description, passing.to),
            cseq: number,
            carrier: match is_request {
                true => Carrier::Request,
                false => Carrier::Response(number_of(message.header_named("RSeq"))),
            },
        })
    }

    pub fn note_offer(&mut self, role: &Role<'_>) {
        self.offers.push_back(Offered {
            cseq: role.cseq,
            tag: role.names.from_tag.into(),
            branch: role.names.branch.map(Box::from),
            carrier: role.carrier,
        });
        if self.offers.len() > OFFERS_MAX {
            self.offers.pop_front();
        }
    }

    /// The relay is asked for an answer, of this branch of the INVITE that began the call; or for something else in a dialog.
    pub fn note_answer(&mut self, branch: Option<&str>, datagram: &[u8]) {
        self.last_answer = branch.map(|branch| AskedAnswer {
            branch: branch.into(),
            relay: self.relay,
            datagram: datagram.to_vec(),
        });
    }

    /// The branch, if it is one of the INVITE that began the call. Each later request has a branch, too.
    pub fn first_branch<'b>(&self, branch: Option<&'b str>) -> Option<&'b str> {
        let offered = |branch: &&str| {
            let mut offers = self.offers.iter();
            offers.any(|offer| offer.branch.as_deref() == Some(branch))
        };
        branch.filter(offered)
    }

    /// What the relay is to be asked for again when it has replied to a question about this branch. rtpengine 10.5 sends the
    /// caller's media to the branch whose offer or answer it has handled last, and that is to be the one that has answered last.
    pub fn answer_of_other_branch(&self, branch: &str) -> Option<&AskedAnswer> {
        let answer = self.last_answer.as_ref();
        answer.filter(|answer| &*answer.branch != branch)
    }

    fn has_offered(&self, cseq: u32, tag: &str, is_it: impl Fn(Carrier) -> bool) -> bool {
        let mut offers = self.offers.iter();
        offers.any(|offer| offer.cseq == cseq && &*offer.tag == tag && is_it(offer.carrier))
    }

    /// Whether a PRACK is for a provisional response that carried an offer. Its own CSeq is
    /// another one; RAck has those of the response (RFC 3262 §7.2).
    fn acknowledges_offer(&self, prack: &Message<'_>, offerer: &str) -> bool {
        let mut parts = prack.header_named("RAck").unwrap_or("").split_whitespace();
        let (rseq, cseq) = (number_of(parts.next()), number_of(parts.next()));
        let carried = |carrier| rseq.is_some() && carrier == Carrier::Response(rseq);
        cseq.is_some_and(|cseq| self.has_offered(cseq, offerer, carried))
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
        self.last_answer.take_if(|answer| &*answer.branch == branch);
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

fn number_of(text: Option<&str>) -> Option<u32> {
    text?.parse().ok()
}

pub(crate) fn own_branch<'a>(message: &Message<'a>) -> Option<&'a str> {
    message.via().ok()?.branch()
}

/// Messages of a call that are kept for their retransmissions.
pub(crate) const DONE_MAX: usize = 8;
/// Offers of a call whose answers are known: of as many branches as a fork may have.
const OFFERS_MAX: usize = 32;

/// The addresses that the recipient of an offer has, if they are of another family than the
/// sender's. Who answers has said himself which ones he has.
fn other_family(kind: Kind, description: Description, to: Flow) -> Option<&'static str> {
    let of_sender = description.address?.to_canonical();
    let of_recipient = to.remote.ip().to_canonical();
    let is_other = kind == Kind::Offer && of_sender.is_ipv4() != of_recipient.is_ipv4();
    is_other.then_some(if of_recipient.is_ipv4() { "IP4" } else { "IP6" })
}

const TAGS_MAX: usize = 32;
/// Messages of a call that wait behind others.
pub(crate) const WAITING_MAX: usize = 32;
