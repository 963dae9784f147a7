//! A registration by IAX2 under way: a call of the device's, from its side.

use busyhour::clock::Instant;
use busyhour::timer::QueueHandle;

use crate::agents::pending::{Expired, Timing};
use busyhour_iax2::frames::{Command, FullFrame, Kind};

/// A call that waits for its next answer.
#[derive(Debug)]
pub(crate) struct Iax2Pending {
    pub index: u32,
    /// When it was due, which is where its latency begins.
    pub due: Instant,
    pub stage: Stage,
    pub timer: QueueHandle,
    begun_at: Instant,
    /// The server's number of the call, 0 before it has one.
    peer_call: u16,
    /// The last frame, which is sent again until it is answered.
    datagram: Vec<u8>,
    interval: std::time::Duration,
    give_up: Instant,
}

/// What the device waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A call token, or a challenge.
    Asked,
    /// A challenge: it has shown its token.
    Vouched,
    /// The verdict: it has shown its password.
    Proved,
}

impl Iax2Pending {
    pub fn new(index: u32, due: Instant, now: Instant, timer: QueueHandle) -> Self {
        Self {
            index,
            due,
            stage: Stage::Asked,
            timer,
            begun_at: now,
            peer_call: 0,
            datagram: Vec::new(),
            interval: std::time::Duration::ZERO,
            give_up: Instant::FAR_FUTURE,
        }
    }

    /// The next frame of ours: the first again, or the second.
    pub fn compose(&mut self, now: Instant, call: u16, stage: Stage, elements: &[u8]) -> &[u8] {
        self.stage = stage;
        let number = u8::from(stage == Stage::Proved);
        let frame = FullFrame {
            source_call: call,
            destination_call: self.peer_call,
            timestamp: (now - self.begun_at).as_millis() as u32,
            outbound: number,
            inbound: number,
            kind: Kind::Iax(Command::RegisterRequest),
            payload: elements,
            ..FullFrame::default()
        };
        self.datagram.clear();
        frame.write(&mut self.datagram);
        &self.datagram
    }

    /// The challenge names the server's number.
    pub fn learn(&mut self, peer_call: u16) {
        self.peer_call = peer_call;
    }

    /// A frame was sent for the first time; gives the time of its first
    /// retransmission.
    pub fn begin(&mut self, now: Instant, timing: &Timing) -> Instant {
        self.interval = timing.t1;
        self.give_up = now + timing.give_up;
        now + timing.t1
    }

    /// The server has the frame: what comes next is up to it.
    pub fn acknowledged(&self) -> Instant {
        self.give_up
    }

    /// The wait doubles; at its end nothing is sent any more.
    pub fn expire(&mut self, now: Instant, timing: &Timing) -> Expired {
        if now >= self.give_up {
            return Expired::GiveUp;
        }
        self.interval = (self.interval * 2).min(timing.t2);
        Expired::Retransmit((now + self.interval).min(self.give_up))
    }

    /// The last frame, marked as sent before.
    pub fn again(&mut self) -> &[u8] {
        if let Some(octet) = self.datagram.get_mut(RETRANSMITTED_AT) {
            *octet |= RETRANSMITTED;
        }
        &self.datagram
    }
}

const RETRANSMITTED_AT: usize = 2;
const RETRANSMITTED: u8 = 0x80;
