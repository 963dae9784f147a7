//! One call: its numbers, and how far it has come.

use std::time::Duration;

use busyhour::clock::Instant;
use busyhour::timer::QueueHandle;

use super::Actions;
use super::outstanding::{Outstanding, Silent, is_before};
use super::records::Record;
use super::request::{CallId, CallKey};
use crate::frames::{Command, FullFrame, Kind};

/// A call that has begun and is not over.
#[derive(Debug)]
pub(super) struct Call {
    pub id: CallId,
    /// Tells its first frame from that of another call of the same number.
    pub first: u64,
    pub our_call: u16,
    pub username: Box<str>,
    /// What the first frame asked for, in seconds.
    pub refresh_s: Option<u32>,
    pub phase: Phase,
    pub timer: QueueHandle,
    begun_at: Instant,
    /// The number of our next frame.
    outbound: u8,
    /// The number the device's next frame should have.
    inbound: u8,
    outstanding: Outstanding,
}

/// How far a call has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// REGAUTH is sent: the device has to answer the challenge.
    Challenged {
        challenge: Box<str>,
        /// The command that must carry the answer: REGREQ or REGREL.
        command: Command,
    },
    /// The registrar is at work.
    InWork,
    /// REGACK or REGREJ is sent.
    Concluded,
}

/// Where a frame stands among those of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// It is the next one.
    Next,
    /// It was here before.
    Again,
    /// One before it is missing.
    Early,
}

/// What makes a call.
pub(super) struct Beginning {
    pub id: CallId,
    pub first: u64,
    pub our_call: u16,
    pub username: Box<str>,
    pub refresh_s: Option<u32>,
    pub phase: Phase,
    pub timer: QueueHandle,
    pub now: Instant,
    /// The number of the device's first frame.
    pub number: u8,
}

impl Call {
    pub fn begin(beginning: Beginning) -> Self {
        let Beginning {
            id,
            first,
            our_call,
            username,
            refresh_s,
            phase,
            timer,
            now,
            number,
        } = beginning;
        Self {
            id,
            first,
            our_call,
            username,
            refresh_s,
            phase,
            timer,
            begun_at: now,
            outbound: 0,
            inbound: number.wrapping_add(1),
            outstanding: Outstanding::default(),
        }
    }

    pub fn key(&self) -> CallKey {
        self.id.key
    }

    /// Takes the acknowledgement that every frame of the other side carries.
    pub fn acknowledge(&mut self, inbound: u8) {
        // Nobody can have what was never sent.
        if !is_before(self.outbound, inbound) {
            self.outstanding.acknowledge(inbound);
        }
    }

    /// Where a frame stands; the next one counts as received from here on.
    pub fn order(&mut self, number: u8) -> Order {
        if number == self.inbound {
            self.inbound = number.wrapping_add(1);
            Order::Next
        } else if is_before(number, self.inbound) {
            Order::Again
        } else {
            Order::Early
        }
    }

    /// Sends a frame, and retransmits it until it is acknowledged.
    pub fn send(&mut self, now: Instant, command: Command, payload: &[u8], out: &mut Actions) {
        self.send_at(now, self.timestamp(now), command, payload, out);
    }

    /// Answers a frame with its own time stamp, as PONG and LAGRP do.
    pub fn reply(
        &mut self,
        now: Instant,
        frame: &FullFrame<'_>,
        command: Command,
        payload: &[u8],
        out: &mut Actions,
    ) {
        match self.outstanding.has_room() {
            true => self.send_at(now, frame.timestamp, command, payload, out),
            false => self.send_ack(frame, out),
        }
    }

    /// Acknowledges `frame` and all before it.
    pub fn send_ack(&self, frame: &FullFrame<'_>, out: &mut Actions) {
        self.send_once(frame.timestamp, Command::Ack, out);
    }

    /// Asks for the missing frame and all frames after it.
    pub fn send_vnak(&self, now: Instant, out: &mut Actions) {
        self.send_once(self.timestamp(now), Command::VoiceNak, out);
    }

    /// Answers a duplicate frame: with the earlier answer, or with an acknowledgement
    /// if there is none yet.
    pub fn answer_again(&mut self, frame: &FullFrame<'_>, out: &mut Actions) {
        match self.outstanding.is_empty() {
            true => self.send_ack(frame, out),
            false => drop(self.resend(self.outbound.wrapping_sub(128), out)),
        }
    }

    /// Sends what is outstanding from the number `from` on again; how many frames.
    pub fn resend(&mut self, from: u8, out: &mut Actions) -> u64 {
        let flow = self.key().flow;
        self.outstanding.resend(from, self.inbound, flow, out)
    }

    /// Sends again what is due; how many frames.
    ///
    /// # Errors
    /// When the device has been silent for too long.
    pub fn expire(&mut self, now: Instant, out: &mut Actions) -> Result<u64, Silent> {
        if now >= self.begun_at + CALL_LIFE {
            return Err(Silent);
        }
        let flow = self.key().flow;
        self.outstanding.expire(now, self.inbound, flow, out)
    }

    /// When it has to be looked at again.
    pub fn deadline(&self) -> Instant {
        let end = self.begun_at + CALL_LIFE;
        self.outstanding.next_due().map_or(end, |due| due.min(end))
    }

    /// Whether nothing is left to say.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Concluded && self.outstanding.is_empty()
    }

    /// What is remembered of it.
    pub fn record(&self, now: Instant) -> Record {
        Record::new(self.first, self.our_call, self.outbound, self.inbound, now)
    }

    fn send_at(
        &mut self,
        now: Instant,
        timestamp: u32,
        command: Command,
        payload: &[u8],
        out: &mut Actions,
    ) {
        let frame = FullFrame {
            payload,
            ..self.frame(timestamp, command)
        };
        let datagram = out.send(self.key().flow, |bytes| frame.write(bytes));
        self.outstanding.push(now, self.outbound, datagram);
        self.outbound = self.outbound.wrapping_add(1);
    }

    fn send_once(&self, timestamp: u32, command: Command, out: &mut Actions) {
        let frame = self.frame(timestamp, command);
        out.send(self.key().flow, |bytes| frame.write(bytes));
    }

    fn frame(&self, timestamp: u32, command: Command) -> FullFrame<'static> {
        FullFrame {
            source_call: self.our_call,
            destination_call: self.key().peer_call,
            timestamp,
            outbound: self.outbound,
            inbound: self.inbound,
            kind: Kind::Iax(command),
            ..FullFrame::default()
        }
    }

    fn timestamp(&self, now: Instant) -> u32 {
        (now - self.begun_at).as_millis() as u32
    }
}

/// A registration takes a few round trips; a client that needs longer has to begin
/// again.
const CALL_LIFE: Duration = Duration::from_secs(20);
