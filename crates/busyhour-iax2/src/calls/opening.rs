//! First frames of calls: frames without our call number.

use busyhour::clock::Instant;

use super::call::{Beginning, Call, Phase};
use super::reply::{self, code};
use super::table::InboundFrame;
use super::{Actions, CallTokens, Calls, Request};
use crate::frames::{Command, Element, ElementWriter, Elements, Kind};

/// Why a call does not begin; the answer has already been written.
struct Refused;

impl Calls {
    /// Handles a frame without our call number.
    pub(super) fn open(&mut self, arrival: InboundFrame<'_>, out: &mut Actions) {
        let InboundFrame { key, frame, .. } = arrival;
        match frame.kind {
            Kind::Iax(command @ (Command::RegisterRequest | Command::RegisterRelease)) => {
                self.open_registration(arrival, command, out);
            }
            Kind::Iax(Command::Poke) => {
                self.stats.pokes += 1;
                reply::stateless(key.flow, frame, Command::Pong, &[], out);
            }
            Kind::Iax(Command::New) => {
                self.stats.unsupported += 1;
                let cause = reply::cause("No Calls", code::FACILITY_REJECTED);
                reply::stateless(key.flow, frame, Command::Reject, &cause, out);
            }
            Kind::Iax(command @ Command::Unknown(_)) => {
                self.stats.unsupported += 1;
                let unknown = reply::unknown(command);
                reply::stateless(key.flow, frame, Command::Unsupported, &unknown, out);
            }
            Kind::Iax(_) => self.stats.stray += 1,
            Kind::Other { .. } => self.stats.media += 1,
        }
    }

    fn open_registration(
        &mut self,
        arrival: InboundFrame<'_>,
        command: Command,
        out: &mut Actions,
    ) {
        let first = self.fingerprint(arrival.frame);
        let current = self.table.get_mut(&arrival.key);
        if let Some(call) = current.filter(|call| call.first == first) {
            self.stats.duplicates += 1;
            return call.answer_again(arrival.frame, out);
        }
        let Some(elements) = Elements::parse(arrival.frame.payload) else {
            self.stats.malformed += 1;
            return;
        };
        // Checks the name first: without a name, the frame is so short that the token
        // would amplify it too much.
        let admitted = self.check_name(arrival, &elements, out).and_then(|name| {
            self.check_token(arrival, &elements, out)?;
            self.check_record(arrival, first, &elements, out)?;
            self.check_room(arrival)?;
            Ok(name)
        });
        if let Ok(username) = admitted {
            let refresh_s = elements.number(Element::Refresh);
            self.begin(arrival, first, command, username, refresh_s, out);
        }
    }

    /// Whether the device has shown that it receives at its address.
    fn check_token(
        &mut self,
        arrival: InboundFrame<'_>,
        elements: &Elements<'_>,
        out: &mut Actions,
    ) -> Result<(), Refused> {
        let (now, remote) = (arrival.at.now, arrival.key.flow.remote);
        match (elements.data(Element::CallToken), self.policy.call_tokens) {
            (Some([]), _) => self.issue_token(arrival, out),
            (Some(token), _) if self.keys.is_good(now, remote, token) => return Ok(()),
            (Some(_), _) => {
                self.stats.tokens_refused += 1;
                self.issue_token(arrival, out);
            }
            (None, CallTokens::Optional) => return Ok(()),
            (None, CallTokens::Required) => {
                self.stats.tokens_missing += 1;
                let cause = reply::cause("No Call Token", code::FACILITY_REJECTED);
                let (flow, frame) = (arrival.key.flow, arrival.frame);
                reply::stateless(flow, frame, Command::RegisterReject, &cause, out);
            }
        }
        Err(Refused)
    }

    /// A token that differs from all others, so that it tells the device's
    /// next call from its last.
    fn issue_token(&mut self, arrival: InboundFrame<'_>, out: &mut Actions) {
        self.stats.tokens_issued += 1;
        let salt = self.stats.tokens_issued as u16;
        let token = self
            .keys
            .token(arrival.at.now, arrival.key.flow.remote, salt);
        let mut elements = Vec::with_capacity(2 + token.len());
        ElementWriter::new(&mut elements).data(Element::CallToken, &token);
        let (flow, frame) = (arrival.key.flow, arrival.frame);
        reply::stateless(flow, frame, Command::CallToken, &elements, out);
    }

    /// Whether the frame is not a late duplicate. Without a token the first frames of
    /// two calls may be equal, so duplicates cannot be recognised.
    fn check_record(
        &mut self,
        arrival: InboundFrame<'_>,
        first: u64,
        elements: &Elements<'_>,
        out: &mut Actions,
    ) -> Result<(), Refused> {
        let record = self.records.find(arrival.at.now, &arrival.key);
        let same = record.filter(|record| record.first == first);
        match same.filter(|_| elements.data(Element::CallToken).is_some()) {
            None => Ok(()),
            Some(record) => {
                self.stats.late_duplicates += 1;
                let numbers = record.numbers();
                reply::acknowledge_late(arrival.key.flow, arrival.frame, numbers, out);
                Err(Refused)
            }
        }
    }

    fn check_name<'a>(
        &mut self,
        arrival: InboundFrame<'_>,
        elements: &Elements<'a>,
        out: &mut Actions,
    ) -> Result<&'a str, Refused> {
        let name = elements.text(Element::Username);
        let is_name = |name: &&str| (1..=NAME_BYTES_MAX).contains(&name.len());
        name.filter(is_name).ok_or_else(|| {
            self.stats.nameless += 1;
            let cause = reply::cause("No Username", code::FACILITY_REJECTED);
            let (flow, frame) = (arrival.key.flow, arrival.frame);
            reply::stateless(flow, frame, Command::RegisterReject, &cause, out);
            Refused
        })
    }

    /// Whether there is room for another call. If not, there is no answer: the device
    /// retransmits after a while, and then there may be room.
    fn check_room(&mut self, arrival: InboundFrame<'_>) -> Result<(), Refused> {
        if self.table.contains_key(&arrival.key) {
            return Ok(());
        }
        if self.table.len() + self.others >= self.policy.calls_max {
            self.stats.refused_table_full += 1;
            return Err(Refused);
        }
        let source = arrival.key.flow.remote.ip();
        if self.sources.count(source) >= self.policy.calls_per_source_max {
            self.stats.refused_source_limit += 1;
            return Err(Refused);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        arrival: InboundFrame<'_>,
        first: u64,
        command: Command,
        username: &str,
        refresh_s: Option<u32>,
        out: &mut Actions,
    ) {
        let InboundFrame { at, key, frame } = arrival;
        if self.remove(&key).is_some() {
            self.stats.replaced += 1;
        }
        let id = self.next_id(key);
        let surprise = self.keys.surprise(self.number(), id.serial);
        let phase = Phase::Challenged {
            challenge: surprise.challenge,
            command,
        };
        let mut call = Call::begin(Beginning {
            id,
            first,
            our_call: surprise.our_call,
            username: username.into(),
            refresh_s,
            phase,
            timer: self.timers.add(Instant::FAR_FUTURE, key),
            now: at.now,
            number: frame.outbound,
        });
        match self.policy.is_open {
            true => out.ask(self.request(&mut call, command, refresh_s)),
            false => {
                challenge(&mut call, at.now, out);
                out.note_challenged(key.flow, username.into());
            }
        }
        self.timers.reschedule(call.timer, call.deadline());
        self.stats.opened += 1;
        self.sources.add(key.flow.remote.ip());
        self.table.insert(key, call);
    }

    /// The registrar is asked from here on.
    pub(super) fn request(
        &mut self,
        call: &mut Call,
        command: Command,
        refresh_s: Option<u32>,
    ) -> Request {
        self.stats.requests += 1;
        call.ask(command, refresh_s)
    }
}

/// REGAUTH (RFC 5456 §6.1).
fn challenge(call: &mut Call, now: Instant, out: &mut Actions) {
    let Phase::Challenged { challenge, .. } = &call.phase else {
        return;
    };
    let mut elements = Vec::with_capacity(call.username.len() + challenge.len() + 8);
    ElementWriter::new(&mut elements)
        .number16(Element::AuthMethods, MD5)
        .text(Element::Challenge, challenge)
        .text(Element::Username, &call.username);
    call.send(now, Command::RegisterAuth, &elements, out);
}

/// More than any account's name has.
pub(super) const NAME_BYTES_MAX: usize = 80;
/// The bit of AUTHMETHODS (RFC 5456 §8.6); plain text and RSA are not accepted.
const MD5: u16 = 2;
