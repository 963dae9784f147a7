//! One dialog of an INVITE: its two sides, and until when it is believed.

use std::{sync::Arc, time::Duration};

use busyhour::clock::Instant;
use busyhour_registrar::watch::{DialogEnd, DialogState};
use busyhour_sip::sdp::MediaDirection;

use super::hold::Exchange;
use super::party::KeptParty;
use super::party::Role;
use super::policy::DialogPolicy;
use super::side::{ProbeStage, Side, Stage};

/// A dialog, or what will become one: before the first provisional response it has no
/// callee.
#[derive(Debug)]
pub(super) struct Dialog {
    pub id: u64,
    pub version: u64,
    pub callee_tag: Option<Arc<str>>,
    /// The branch on which its first response came.
    pub branch: Option<u32>,
    pub callee: Option<KeptParty>,
    pub exchange: Exchange,
    /// The description in a provisional response, which a 2xx may leave out.
    pub early_answer: Option<MediaDirection>,
    /// The ACK of its 2xx went through.
    pub is_acked: bool,
    /// Its 2xx went through, at some time.
    pub is_confirmed: bool,
    /// It ended for good: no late response begins it again. One that was cancelled may
    /// still be answered.
    pub is_spent: bool,
    /// When its present state began.
    pub since: Instant,
    /// The last message of it.
    pub heard_at: Instant,
    /// The session timer: when it was refreshed, and for how long.
    session: Option<(Instant, Duration)>,
    sides: [Side; 2],
}

impl Dialog {
    /// A dialog whose caller waits for the first response.
    pub fn begin(id: u64, contact: Option<Box<str>>, now: Instant) -> Self {
        Self {
            id,
            version: 0,
            callee_tag: None,
            branch: None,
            callee: None,
            exchange: Exchange::default(),
            early_answer: None,
            is_acked: false,
            is_confirmed: false,
            is_spent: false,
            since: now,
            heard_at: now,
            session: None,
            sides: [
                Side::new(Stage::Live(DialogState::Trying), contact),
                Side::new(Stage::Unseen, None),
            ],
        }
    }

    pub fn side(&self, role: Role) -> &Side {
        &self.sides[role as usize]
    }

    pub fn side_mut(&mut self, role: Role) -> &mut Side {
        &mut self.sides[role as usize]
    }

    /// How far it is, on the side that is further.
    pub fn state(&self) -> Option<DialogState> {
        self.sides.iter().filter_map(Side::state).max()
    }

    /// No side has it any more. A callee of whom nothing was heard has none.
    pub fn is_over(&self) -> bool {
        let [caller, callee] = &self.sides;
        caller.is_ended() && callee.state().is_none()
    }

    /// Both sides are at least as far as `state`.
    pub fn advance(&mut self, state: DialogState, now: Instant) {
        if self.state() < Some(state) {
            self.since = now;
        }
        self.sides.iter_mut().for_each(|side| side.advance(state));
    }

    /// Both sides end; returns whether one of them lived.
    pub fn end(&mut self, ends: [DialogEnd; 2], code: Option<u16>) -> bool {
        let [caller, callee] = &mut self.sides;
        let lived = caller.end(ends[0], code);
        callee.end(ends[1], code) || lived
    }

    /// A message of one side, or an answer of it, went through.
    pub fn heard(&mut self, role: Role, now: Instant) {
        self.heard_at = now;
        self.side_mut(role).probe = ProbeStage::Idle;
    }

    /// A 2xx has agreed on a session timer, or on none.
    pub fn set_session(&mut self, interval: Option<Duration>, now: Instant) {
        self.session = interval.map(|interval| (now, interval));
    }

    /// Something else that watchers see of both sides has changed.
    pub fn touch(&mut self) {
        self.sides.iter_mut().for_each(Side::touch);
    }

    /// Applies what changes who holds whom, and has watchers told if that differs.
    pub fn exchange<R>(&mut self, change: impl FnOnce(&mut Exchange) -> R) -> R {
        let before = Role::ALL.map(|role| self.exchange.holds(role));
        let result = change(&mut self.exchange);
        if Role::ALL.map(|role| self.exchange.holds(role)) != before {
            self.touch();
        }
        result
    }

    /// When something has to be done if nothing is heard of it before.
    pub fn deadline(&self, policy: &DialogPolicy) -> Instant {
        if self.state() != Some(DialogState::Confirmed) {
            return match self.side(Role::Callee).probe {
                ProbeStage::DueAt(at) if !self.is_over() => at,
                _ => Instant::FAR_FUTURE,
            };
        }
        let probes = self.sides.iter().map(|side| match side.probe {
            ProbeStage::DueAt(at) | ProbeStage::AnswerBy(at) => at,
            ProbeStage::Idle => Instant::FAR_FUTURE,
        });
        let end = self.end_at(policy);
        probes
            .chain([end, self.probe_at(policy)])
            .min()
            .unwrap_or(end)
    }

    /// When it ends if nothing is heard of it before.
    pub fn end_at(&self, policy: &DialogPolicy) -> Instant {
        let ack = match self.is_acked {
            true => Instant::FAR_FUTURE,
            false => self.since + policy.ack_max,
        };
        match self.session {
            Some((refreshed_at, interval)) => {
                ack.min(refreshed_at + interval + policy.session_slack)
            }
            None => ack.min(self.heard_at + policy.silence_max),
        }
    }

    /// When its devices are asked about it.
    pub fn probe_at(&self, policy: &DialogPolicy) -> Instant {
        let is_asked = |side: &Side| side.probe != ProbeStage::Idle;
        let can_be_asked = self.sides.iter().any(Side::can_be_asked);
        match self.session.is_some() || !can_be_asked || self.sides.iter().any(is_asked) {
            true => Instant::FAR_FUTURE,
            false => self.heard_at + policy.quiet_max,
        }
    }
}
