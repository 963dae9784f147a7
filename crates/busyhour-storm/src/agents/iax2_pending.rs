//! A registration by IAX2 in progress: one call, as the device sees it.

use busyhour::clock::Instant;
use busyhour::timer::QueueHandle;

use crate::agents::pending::{Expired, Timing};
use busyhour_iax2::frames::{Command, FullFrame, Kind};

/// A call that waits for its next answer.
#[derive(Debug)]
pub(crate) struct Iax2Pending {
    pub index: u32,
    /// When the registration was due; its latency counts from this time.
    pub due: Instant,
    pub stage: Stage,
    pub timer: QueueHandle,
    begun_at: Instant,
    /// The server's call number; 0 until it is known.
    peer_call: u16,
    /// The last frame, which is sent again until it is answered.
    datagram: Vec<u8>,
    interval: std::time::Duration,
    give_up: Instant,
}

/// What the device waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The device has sent its first frame; it waits for a call token or a
    /// challenge.
    Requested,
    /// The device has sent the call token; it waits for a challenge.
    TokenSent,
    /// The device has answered the challenge; it waits for the result.
    ChallengeAnswered,
}

impl Iax2Pending {
    pub fn new(index: u32, due: Instant, now: Instant, timer: QueueHandle) -> Self {
        Self {
            index,
            due,
            stage: Stage::Requested,
            timer,
            begun_at: now,
            peer_call: 0,
            datagram: Vec::new(),
            interval: std::time::Duration::ZERO,
            give_up: Instant::FAR_FUTURE,
        }
    }

    /// Writes the device's next frame: the first one again, or the second
    /// one.
    pub fn compose(&mut self, now: Instant, call: u16, stage: Stage, elements: &[u8]) -> &[u8] {
        self.stage = stage;
        let number = u8::from(stage == Stage::ChallengeAnswered);
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

    /// Notes the server's call number, which the challenge contains.
    pub fn learn(&mut self, peer_call: u16) {
        self.peer_call = peer_call;
    }

    /// Notes that a frame was sent for the first time; returns the time of
    /// its first retransmission.
    pub fn begin(&mut self, now: Instant, timing: &Timing) -> Instant {
        self.interval = timing.t1;
        self.give_up = now + timing.give_up;
        now + timing.t1
    }

    /// The server has acknowledged the frame, so it is not sent again.
    /// Returns the time at which the device gives up.
    pub fn acknowledged(&self) -> Instant {
        self.give_up
    }

    /// Doubles the wait. After the last wait nothing is sent any more.
    pub fn expire(&mut self, now: Instant, timing: &Timing) -> Expired {
        if now >= self.give_up {
            return Expired::GiveUp;
        }
        self.interval = (self.interval * 2).min(timing.t2);
        Expired::Retransmit((now + self.interval).min(self.give_up))
    }

    /// Returns the last frame, marked as a retransmission.
    pub fn again(&mut self) -> &[u8] {
        if let Some(octet) = self.datagram.get_mut(RETRANSMITTED_AT) {
            *octet |= RETRANSMITTED;
        }
        &self.datagram
    }
}

const RETRANSMITTED_AT: usize = 2;
const RETRANSMITTED: u8 = 0x80;
