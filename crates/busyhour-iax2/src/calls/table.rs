//! The table of calls: handles datagrams, the registrar's results, and timeouts.

use std::collections::HashMap;
use std::hash::BuildHasher;

use busyhour::clock::Instant;
use busyhour::timer::TimerQueue;
use foldhash::quality::FixedState;

use super::call::{Call, Phase};
use super::records::{RECORD_LIFE, Records};
use super::reply::{self, code};
use super::request::{CallId, CallKey};
use super::sources::Sources;
use super::{Actions, Credentials, Iax2Stats, Keys, Login, Policy, RequestOutcome};
use crate::frames::{Command, DateTime, Element, ElementWriter, Frame, FullFrame, Kind};
use busyhour_registrar::Now;
use busyhour_sip::Flow;

/// Calls of any number of devices; pure. A server may have several tables, if each
/// source address always goes to the same one.
#[derive(Debug)]
pub struct Calls {
    pub(super) keys: Keys,
    pub(super) policy: Policy,
    pub(super) table: HashMap<CallKey, Call, FixedState>,
    pub(super) timers: TimerQueue<CallKey>,
    pub(super) sources: Sources,
    pub(super) records: Records,
    pub(super) stats: Iax2Stats,
    /// Calls of the other tables of this server.
    pub(super) others: usize,
    number: u16,
    last_serial: u64,
    hasher: FixedState,
}

/// Says whether a device has proved who it is.
pub(super) type Check<'a> = &'a dyn Fn(&Credentials<'_>) -> Login;

/// A full frame that came in.
#[derive(Clone, Copy)]
pub(super) struct InboundFrame<'a> {
    pub at: Now,
    pub key: CallKey,
    pub frame: &'a FullFrame<'a>,
}

impl Calls {
    /// An empty table. Each table of one server needs its own `number`.
    pub fn new(keys: Keys, number: u16, policy: Policy) -> Self {
        let seed = keys.seed(number);
        Self {
            policy: policy.clone(),
            table: HashMap::with_hasher(FixedState::with_seed(seed)),
            timers: TimerQueue::new(),
            sources: Sources::new(seed),
            records: Records::new(policy.records_max, seed),
            stats: Iax2Stats::default(),
            others: 0,
            number,
            last_serial: 0,
            hasher: FixedState::with_seed(seed),
            keys,
        }
    }

    /// Calls in this table.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The number of calls in the other tables, which count against the common bound.
    pub fn set_others(&mut self, others: usize) {
        self.others = others;
    }

    /// Handles one datagram. `check` checks the credentials of a device; it should take
    /// the same time if there is no such account.
    pub fn receive(
        &mut self,
        at: Now,
        flow: Flow,
        datagram: &[u8],
        check: &dyn Fn(&Credentials<'_>) -> Login,
        out: &mut Actions,
    ) {
        self.stats.received += 1;
        let sent = out.frame_count();
        match Frame::parse(datagram) {
            Ok(Frame::Full(frame)) if frame.source_call != 0 => {
                let peer_call = frame.source_call;
                let key = CallKey { flow, peer_call };
                self.full_frame(
                    InboundFrame {
                        at,
                        key,
                        frame: &frame,
                    },
                    check,
                    out,
                );
            }
            Ok(Frame::Mini { .. } | Frame::Meta) => self.stats.media += 1,
            Ok(Frame::Full(_)) | Err(_) => self.stats.malformed += 1,
        }
        self.stats.sent += out.frame_count() - sent;
    }

    /// Answers a device's request with its outcome; does nothing if the call has ended.
    pub fn conclude(
        &mut self,
        at: Now,
        call: &CallId,
        verdict: &RequestOutcome,
        out: &mut Actions,
    ) {
        let current = self.table.get_mut(&call.key);
        let Some(call) = current.filter(|c| c.id == *call && c.phase == Phase::InWork) else {
            return;
        };
        let sent = out.frame_count();
        let (command, elements) = answer(call, at, verdict);
        call.phase = Phase::Concluded;
        call.send(at.now, command, &elements, out);
        self.timers.reschedule(call.timer, call.deadline());
        match command {
            Command::RegisterAck => self.stats.accepted += 1,
            _ => self.stats.rejected += 1,
        }
        self.stats.sent += out.frame_count() - sent;
    }

    /// Retransmits frames that were not acknowledged in time, and ends the calls of
    /// silent devices.
    pub fn expire(&mut self, now: Instant, out: &mut Actions) {
        let sent = out.frame_count();
        while let Some((_, handle)) = self.timers.hold_due(now) {
            let Some(key) = self.timers.get(handle).copied() else {
                continue;
            };
            let Some(call) = self.table.get_mut(&key) else {
                self.timers.cancel(handle);
                continue;
            };
            match call.expire(now, out) {
                Ok(count) => {
                    self.stats.retransmitted += count;
                    self.timers.reschedule(handle, call.deadline());
                }
                Err(_silent) => {
                    self.stats.timed_out += 1;
                    self.remove(&key);
                }
            }
        }
        self.records.expire(now);
        self.stats.sent += out.frame_count() - sent;
    }

    /// When [`expire`](Self::expire) has something to do. It clears several records at
    /// once, so there is no deadline for each record.
    pub fn next_deadline(&self) -> Option<Instant> {
        let records = self.records.next_expiry();
        let records = records.map(|expiry| expiry + RECORD_LIFE);
        [self.timers.next_deadline(), records]
            .into_iter()
            .flatten()
            .min()
    }

    /// Everything counted so far.
    pub fn stats(&self) -> Iax2Stats {
        Iax2Stats {
            call_count: self.table.len() as u64,
            record_count: self.records.len() as u64,
            ..self.stats.clone()
        }
    }

    fn full_frame(&mut self, arrival: InboundFrame<'_>, check: Check<'_>, out: &mut Actions) {
        let ours = self.table.get(&arrival.key).map(|call| call.our_call);
        match arrival.frame.destination_call {
            0 => self.open(arrival, out),
            number if ours == Some(number) => self.talk(arrival, check, out),
            _ => self.stray(arrival, out),
        }
    }

    /// A frame of a call that is over, or never was (RFC 5456 §7).
    fn stray(&mut self, arrival: InboundFrame<'_>, out: &mut Actions) {
        let InboundFrame { at, key, frame } = arrival;
        if is_never_answered(frame.kind) {
            self.stats.stray += 1;
            return;
        }
        let record = self.records.find(at.now, &key);
        match record.filter(|record| record.our_call == frame.destination_call) {
            Some(record) => {
                self.stats.late_duplicates += 1;
                reply::acknowledge_late(key.flow, frame, record.numbers(), out);
            }
            None => {
                self.stats.invalid_sent += 1;
                reply::invalid(key.flow, frame, out);
            }
        }
    }

    /// Takes a call out of the table.
    pub(super) fn remove(&mut self, key: &CallKey) -> Option<Call> {
        let call = self.table.remove(key)?;
        self.timers.cancel(call.timer);
        self.sources.remove(key.flow.remote.ip());
        Some(call)
    }

    /// The id of a new call.
    pub(super) fn next_id(&mut self, key: CallKey) -> CallId {
        self.last_serial += 1;
        CallId {
            key,
            serial: self.last_serial,
        }
    }

    /// The number of this table among those of the server.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Tells a first frame from others; its retransmissions are the same.
    pub(super) fn fingerprint(&self, frame: &FullFrame<'_>) -> u64 {
        let header = (frame.timestamp, frame.outbound, frame.kind);
        self.hasher.hash_one((header, frame.payload))
    }
}

/// Answers to answers would never end.
fn is_never_answered(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Iax(Command::Ack | Command::Invalid | Command::VoiceNak | Command::CallToken)
    )
}

fn answer(call: &Call, at: Now, verdict: &RequestOutcome) -> (Command, Vec<u8>) {
    match verdict {
        RequestOutcome::Registered {
            refresh_s,
            message_count,
        } => (
            Command::RegisterAck,
            acceptance(call, at, Some(*refresh_s), *message_count),
        ),
        RequestOutcome::Released => (Command::RegisterAck, acceptance(call, at, None, None)),
        RequestOutcome::Forbidden => (
            Command::RegisterReject,
            reply::cause("Registration Refused", code::FACILITY_REJECTED),
        ),
        RequestOutcome::Failed => (
            Command::RegisterReject,
            reply::cause("Try Again Later", code::TEMPORARY_FAILURE),
        ),
    }
}

/// The elements of a REGACK (RFC 5456 §6.1).
fn acceptance(call: &Call, at: Now, refresh_s: Option<u16>, message_count: Option<u16>) -> Vec<u8> {
    let mut elements = Vec::with_capacity(ACCEPTANCE_BYTES);
    let writer = ElementWriter::new(&mut elements)
        .text(Element::Username, &call.username)
        .date_time(DateTime::from_unix(at.unix.as_secs()));
    let writer = match refresh_s {
        Some(refresh_s) => writer.number16(Element::Refresh, refresh_s),
        None => writer,
    };
    let writer = match message_count {
        Some(count) => writer.number16(Element::MessageCount, count),
        None => writer,
    };
    writer.apparent_address(call.key().flow.remote);
    elements
}

/// The longest name, a date, a refresh, a count and an IPv6 address, each with
/// its two octets.
const ACCEPTANCE_BYTES: usize = super::opening::NAME_BYTES_MAX + 4 + 2 + 2 + 28 + 5 * 2;
