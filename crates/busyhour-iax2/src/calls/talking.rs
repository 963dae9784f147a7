//! Frames of a call that lasts.

use super::call::{Call, Order, Phase};
use super::reply::{self, code};
use super::table::{Check, InboundFrame};
use super::{Actions, Calls, Credentials, Login, Request, RequestKind};
use crate::frames::{Command, Element, Elements, Kind};

/// What a frame does to its call beside being answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It goes on.
    Lasts,
    /// The device has ended it.
    Ends,
}

impl Calls {
    /// Takes a frame of a call that lasts (RFC 5456 §7).
    pub(super) fn talk(&mut self, arrival: InboundFrame<'_>, check: Check<'_>, out: &mut Actions) {
        // Out of the table meanwhile, so that both can be changed.
        let Some(mut call) = self.table.remove(&arrival.key) else {
            return;
        };
        call.acknowledge(arrival.frame.inbound);
        let fate = match arrival.frame.kind {
            Kind::Iax(Command::Invalid) => Fate::Ends,
            Kind::Iax(Command::Ack | Command::CallToken) => Fate::Lasts,
            Kind::Iax(Command::VoiceNak) => {
                self.stats.vnaks_received += 1;
                self.stats.retransmitted += call.resend(arrival.frame.inbound, out);
                Fate::Lasts
            }
            _ => self.numbered(&mut call, arrival, check, out),
        };
        self.settle(call, arrival, fate);
    }

    /// Takes a frame that has a number of its own.
    fn numbered(
        &mut self,
        call: &mut Call,
        arrival: InboundFrame<'_>,
        check: Check<'_>,
        out: &mut Actions,
    ) -> Fate {
        match call.order(arrival.frame.outbound) {
            Order::Next => return self.take(call, arrival, check, out),
            Order::Again => {
                self.stats.duplicates += 1;
                call.answer_again(arrival.frame, out);
            }
            Order::Early => {
                self.stats.vnaks_sent += 1;
                call.send_vnak(arrival.at.now, out);
            }
        }
        Fate::Lasts
    }

    fn take(
        &mut self,
        call: &mut Call,
        arrival: InboundFrame<'_>,
        check: Check<'_>,
        out: &mut Actions,
    ) -> Fate {
        let InboundFrame { at, frame, .. } = arrival;
        match frame.kind {
            Kind::Iax(command @ (Command::RegisterRequest | Command::RegisterRelease)) => {
                self.prove(call, arrival, command, check, out);
            }
            Kind::Iax(Command::Ping | Command::Poke) => {
                self.stats.pokes += 1;
                call.reply(at.now, frame, Command::Pong, &[], out);
            }
            Kind::Iax(Command::LagRequest) => {
                self.stats.lag_requests += 1;
                call.reply(at.now, frame, Command::LagReply, &[], out);
            }
            Kind::Iax(Command::Hangup | Command::Reject) => {
                call.send_ack(frame, out);
                return Fate::Ends;
            }
            Kind::Iax(command @ Command::Unknown(_)) => {
                self.stats.unsupported += 1;
                let unknown = reply::unknown(command);
                call.reply(at.now, frame, Command::Unsupported, &unknown, out);
            }
            Kind::Iax(_) => call.send_ack(frame, out),
            Kind::Other { .. } => {
                self.stats.media += 1;
                call.send_ack(frame, out);
            }
        }
        Fate::Lasts
    }

    /// Takes the answer to a challenge.
    fn prove(
        &mut self,
        call: &mut Call,
        arrival: InboundFrame<'_>,
        command: Command,
        check: Check<'_>,
        out: &mut Actions,
    ) {
        let Phase::Challenged {
            challenge,
            command: expected,
        } = &call.phase
        else {
            return call.send_ack(arrival.frame, out);
        };
        let elements = Elements::parse(arrival.frame.payload).unwrap_or_default();
        let username = elements.text(Element::Username);
        let credentials = Credentials {
            username: &call.username,
            challenge,
            result: elements.data(Element::Md5Result).unwrap_or_default(),
        };
        let is_same = *expected == command && username.is_none_or(|name| *name == *call.username);
        let login = match is_same {
            true => check(&credentials),
            false => Login::Refused,
        };
        let cause = match login {
            Login::Accepted => {
                let refresh_s = elements.number(Element::Refresh).or(call.refresh_s);
                return out.ask(self.request(call, command, refresh_s));
            }
            Login::Refused => reply::cause("Registration Refused", code::FACILITY_REJECTED),
            Login::Paused => reply::cause("Try Again Later", code::TEMPORARY_FAILURE),
        };
        self.stats.denied += 1;
        call.phase = Phase::Concluded;
        call.send(arrival.at.now, Command::RegisterReject, &cause, out);
    }

    /// Puts the call back, or ends it.
    fn settle(&mut self, call: Call, arrival: InboundFrame<'_>, fate: Fate) {
        let key = call.key();
        let is_over = call.is_over();
        if is_over {
            self.stats.completed += 1;
        } else if fate == Fate::Ends {
            self.stats.aborted += 1;
        } else {
            self.timers.reschedule(call.timer, call.deadline());
            self.table.insert(key, call);
            return;
        }
        self.timers.cancel(call.timer);
        self.sources.remove(key.flow.remote.ip());
        let record = call.record(arrival.at.now);
        self.stats.records_evicted += self.records.insert(&key, record);
    }
}

impl Call {
    /// The registrar is asked from here on.
    pub(super) fn ask(&mut self, command: Command, refresh_s: Option<u32>) -> Request {
        self.phase = Phase::InWork;
        Request {
            call: self.id,
            username: self.username.clone(),
            wish: match command {
                Command::RegisterRelease => RequestKind::Release,
                _ => RequestKind::Register {
                    refresh_s: refresh_s.unwrap_or(REFRESH_DEFAULT_S),
                },
            },
        }
    }
}

/// What the absence of REFRESH means (RFC 5456 §8.6).
const REFRESH_DEFAULT_S: u32 = 60;
