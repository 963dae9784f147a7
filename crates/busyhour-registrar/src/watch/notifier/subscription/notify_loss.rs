//! What follows when a NOTIFY has not left, or may be lost.
//!
//! Until a watcher has answered, nobody knows whether it is there: the source of its SUBSCRIBE may be forged, and each NOTIFY is
//! a datagram to a victim (RFC 6665 §6.3). So the first NOTIFY is sent four times in 3.5 s, and then its answer is awaited. If
//! nothing comes through for longer than that, all four are lost, and so is the answer to the SUBSCRIBE; so the watcher sends
//! that again. Then it has to be told, since it is subscribed and asks no more once it has the answer.
//!
//! A SUBSCRIBE that comes again may be forged like the first one, so it must not give an attacker more than that. It
//! gives three copies instead of those that were left, and none within T1 (0.5 s) after another one. So of a
//! subscription that nobody has answered
//!
//! - fewer NOTIFYs leave for each SUBSCRIBE that comes again than for another new one;
//! - no two leave within 0.5 s, and none later than 32 s after the first one, however often the SUBSCRIBE comes;
//! - whoever sends them counts each one against what an unproven source may be sent.
//!
//! A watcher on a connection of another server has shown that it is there, so what it is told anew harms no third one. Four
//! NOTIFYs in 32 s are told anew, after pauses of 2, 4, 8 and 16 s, and no other bound is needed:
//!
//! - A subscription has one NOTIFY under way. The one that is told anew takes its place, in memory and in what its source and
//!   account are charged for, which is the bound by source.
//! - When many are told anew at the same moment, because the same server has lost what it was to pass on, as many were told
//!   at one moment before, with the same cost. The way there refuses what it has no room for, and who is refused is told
//!   within a second, with the last state.

use super::Subscription;
use busyhour::clock::Instant;
use std::time::Duration;

impl Subscription {
    /// The last NOTIFY could not be sent at `now` for lack of room. If this was its first copy, it counts as never
    /// written; otherwise that may have arrived, and the next one has another number and tells everything anew.
    /// The full state of a later time is sent at a [`deadline`](Self::deadline); the waits grow up to 1 s.
    pub fn put_off(&mut self, now: Instant) {
        match self.outstanding.take() {
            None => return,
            Some(outstanding) if outstanding.is_resent => self.tell_anew(),
            Some(_) => self.take_back(),
        }
        self.silence = None;
        let since = *self.put_off_since.get_or_insert(now);
        self.retry_at = Some(now + (now - since).clamp(ROOM_SOON, ROOM_LATER));
    }

    /// What is on its way may be lost, and the way is open again at `now`: a NOTIFY that nobody has answered is told anew at
    /// once, and so is one that was [put off](Self::put_off). A watcher that has answered none, and may be a victim, is sent
    /// copies as if its SUBSCRIBE had come again, and for no longer than before.
    pub fn way_is_open(&mut self, now: Instant) {
        let may_be_a_victim = !self.is_heard() && !self.dialog.flow().transport.is_reliable();
        if may_be_a_victim && self.outstanding.is_some() {
            return self.asked_again(now);
        }
        self.silence = None;
        if self.outstanding.take().is_some() {
            self.tell_anew();
        }
        if self.put_off_since.take().is_some() {
            self.retry_at = None;
        }
    }

    /// Whether a NOTIFY has no answer yet or was put off, so that [`way_is_open`](Self::way_is_open) leads to something.
    pub fn is_unanswered(&self) -> bool {
        self.outstanding.is_some() || self.put_off_since.is_some() || self.silence.is_some()
    }

    /// The NOTIFY that has just left over a reliable transport may be lost, since another server has the connection. Without
    /// an answer the state is told anew, each time under another number: a copy would be a second request for who has got
    /// the first. Returns whether this one was such.
    pub fn may_be_lost(&mut self, now: Instant) -> bool {
        let was_silent = self.silence.is_some();
        if let Some(outstanding) = self.outstanding.as_mut() {
            self.silence = Some(outstanding.may_be_lost(self.silence, now));
        }
        was_silent
    }

    /// A SUBSCRIBE that was answered has come again at `now`, so its answer has not come to the watcher, and neither has the
    /// NOTIFY perhaps. To a watcher that has not answered any, it is sent as often as after the first SUBSCRIBE, and no
    /// two copies leave within 0.5 s. To one that has, copies leave until it answers in any case.
    pub fn asked_again(&mut self, now: Instant) {
        if let Some(outstanding) = self.outstanding.as_mut() {
            outstanding.wanted_again(now);
        }
    }

    /// The last NOTIFY counts as never written.
    fn take_back(&mut self) {
        self.dialog.take_back_cseq();
        self.version = self.version.wrapping_sub(1);
        if let Some(view) = self.view_mut() {
            view.take_back();
        }
        self.owe_again();
    }

    /// Nobody knows whether the last NOTIFY has arrived, so the next one tells everything.
    pub(super) fn tell_anew(&mut self) {
        if let Some(view) = self.view_mut() {
            view.tell_all();
        }
        self.owe_again();
    }

    fn owe_again(&mut self) {
        if let Some(view) = self.watchers.as_mut() {
            view.told.forget();
        }
        self.owes_notify = true;
        self.is_urgent = true;
    }
}

/// A connection that is read has room again by then.
const ROOM_SOON: Duration = Duration::from_millis(100);
/// Ten thousand that wait for a peer that is not read cost a tenth of a core.
const ROOM_LATER: Duration = Duration::from_secs(1);
