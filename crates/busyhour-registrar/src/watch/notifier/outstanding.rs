//! A NOTIFY on its way: the client transaction of RFC 3261 §17.1.2 .

use busyhour::{buffer::Buffer, clock::Instant};
use std::time::Duration;

/// A request that waits for its final response.
#[derive(Debug)]
pub(in crate::watch) struct Outstanding {
    pub(in crate::watch) cseq: u32,
    /// It says that the subscription is over.
    pub(in crate::watch) is_last: bool,
    pub(in crate::watch) datagram: Buffer,
    /// It was sent again, so it may have arrived.
    pub(in crate::watch) is_resent: bool,
    is_reliable: bool,
    interval: Duration,
    /// Its last copy left then.
    sent_at: Instant,
    resend_at: Instant,
    /// `None` is as many as there is time for.
    resends_left: Option<u32>,
    give_up_at: Instant,
    /// Another NOTIFY takes its place then.
    tell_anew_at: Option<Instant>,
}

/// A watcher that does not answer, though the transport of what was sent to it loses nothing: another server has the
/// connection, and what goes there may be lost.
#[derive(Debug, Clone, Copy)]
pub(in crate::watch) struct WatcherSilence {
    give_up_at: Instant,
    pause: Duration,
}

impl Outstanding {
    /// On a flow that `is_reliable` nothing is retransmitted (RFC 3261 §17.1.2.2). If
    /// it is not known that the watcher receives there, there are few retransmissions:
    /// the address may belong to somebody who asked for nothing.
    pub(in crate::watch) fn new(
        cseq: u32,
        is_last: bool,
        datagram: Buffer,
        is_reliable: bool,
        is_heard: bool,
        now: Instant,
    ) -> Self {
        let give_up_at = now + 64 * T1;
        Self {
            cseq,
            is_last,
            datagram,
            is_resent: false,
            is_reliable,
            interval: T1,
            sent_at: now,
            resend_at: match is_reliable {
                true => give_up_at,
                false => now + T1,
            },
            resends_left: (!is_heard).then_some(UNHEARD_RESENDS),
            give_up_at,
            tell_anew_at: None,
        }
    }

    /// It may be lost on its way, so the state is told anew after 2 s, then after 4 s, and so on, while the watcher is silent.
    /// All of them together are given up when the first one would have been.
    pub(in crate::watch) fn may_be_lost(
        &mut self,
        silence: Option<WatcherSilence>,
        now: Instant,
    ) -> WatcherSilence {
        let silence = match silence {
            None => WatcherSilence {
                give_up_at: self.give_up_at,
                pause: 4 * T1,
            },
            Some(silence) => WatcherSilence {
                pause: 2 * silence.pause,
                ..silence
            },
        };
        self.give_up_at = silence.give_up_at;
        self.tell_anew_at = Some(now + silence.pause);
        silence
    }

    /// It is not sent again, and another one is due.
    pub(in crate::watch) fn gives_way(&self, now: Instant) -> bool {
        self.tell_anew_at.is_some_and(|at| now >= at) && !self.is_hopeless(now)
    }

    /// When something has to be done next.
    pub(in crate::watch) fn deadline(&self) -> Instant {
        let next = self.tell_anew_at.unwrap_or(self.give_up_at);
        self.resend_at.min(self.give_up_at).min(next)
    }

    /// It is not sent again, and should have been answered by now.
    pub(in crate::watch) fn is_silent(&self, now: Instant) -> bool {
        match self.is_reliable {
            true => now + (64 * T1 - T2) >= self.give_up_at,
            false => self.resends_left == Some(0),
        }
    }

    pub(in crate::watch) fn is_hopeless(&self, now: Instant) -> bool {
        now >= self.give_up_at
    }

    /// The datagram, when it is time to send it again (timer E).
    pub(in crate::watch) fn resend(&mut self, now: Instant) -> Option<Buffer> {
        if now < self.resend_at {
            return None;
        }
        self.is_resent = true;
        self.interval = (2 * self.interval).min(T2);
        self.sent_at = now;
        self.resends_left = self.resends_left.map(|left| left.saturating_sub(1));
        self.resend_at = match self.resends_left {
            Some(0) => self.give_up_at,
            _ => now + self.interval,
        };
        Some(self.datagram.clone())
    }

    /// The SUBSCRIBE that it follows has come again: it is resent as often as after the first one, and next T1 after the
    /// last copy, which may be at once.
    pub(in crate::watch) fn wanted_again(&mut self, now: Instant) {
        if self.is_reliable || self.resends_left.is_none() {
            return;
        }
        self.resends_left = Some(UNHEARD_RESENDS);
        self.interval = T1;
        self.resend_at = now.max(self.sent_at + T1);
    }

    /// A provisional response slows the retransmissions down.
    pub(in crate::watch) fn slow_down(&mut self) {
        self.interval = T2;
    }
}

/// RFC 3261 §17.1.1.1.
pub(in crate::watch) const T1: Duration = Duration::from_millis(500);
/// Four NOTIFYs in 3.5 s: if one datagram in ten is lost, all four are lost once in ten
/// thousand times.
const UNHEARD_RESENDS: u32 = 3;
/// RFC 3261 §17.1.2.2.
const T2: Duration = Duration::from_secs(4);
