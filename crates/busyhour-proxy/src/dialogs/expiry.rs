//! What happens when nothing is heard of a call: so no lamp sticks.

use std::sync::Arc;

use busyhour::{clock::Instant, timer::QueueHandle};
use busyhour_registrar::watch::{DialogEnd, DialogState};

use super::DialogActions;
use super::call::{Call, Setup};
use super::dialog::Dialog;
use super::party::Role;
use super::policy::DialogPolicy;
use super::probe::{Probe, ProbeId, ProbeOutcome};
use super::side::ProbeStage;
use super::table::Dialogs;

impl Dialogs {
    /// Ends dialogs of which nothing was heard in time, and asks devices about others.
    pub fn expire(&mut self, now: Instant, out: &mut DialogActions) {
        while let Some((_, key)) = self.calls.hold_due(now) {
            let Some(call) = self.calls.get_mut(key) else {
                continue;
            };
            if call.lingers_until.is_some_and(|until| until <= now) {
                self.forget(key);
                continue;
            }
            expire_setup(call, now);
            for index in 0..call.dialogs.len() {
                let is_timed_out = expire_dialog(call, index, now, &self.policy);
                self.stats.timed_out += u64::from(is_timed_out);
            }
            self.ask(key, now, out);
            self.settle(key, now, out);
        }
    }

    /// A device has answered a probe, or has not.
    pub fn probed(
        &mut self,
        now: Instant,
        id: ProbeId,
        outcome: ProbeOutcome,
        out: &mut DialogActions,
    ) {
        let Some(call) = self.calls.get_mut(id.key) else {
            return;
        };
        let is_it = |dialog: &Dialog| dialog.id == id.dialog && !dialog.is_over();
        let Some(index) = call.dialogs.iter().position(is_it) else {
            return;
        };
        let end = match outcome {
            ProbeOutcome::Answered(481) => (DialogEnd::Error, Some(481)),
            ProbeOutcome::Answered(408) | ProbeOutcome::Silent => (DialogEnd::Timeout, None),
            ProbeOutcome::Answered(_) => {
                call.dialogs[index].heard(id.role, now);
                return self.settle(id.key, now, out);
            }
        };
        call.end(index, [end.0; 2], end.1, None);
        self.stats.lost += 1;
        self.settle(id.key, now, out);
    }

    /// Writes the probes that are due.
    fn ask(&mut self, key: QueueHandle, now: Instant, out: &mut DialogActions) {
        let answer_by = now + self.policy.probe_max;
        let Some(call) = self.calls.get_mut(key) else {
            return;
        };
        for index in 0..call.dialogs.len() {
            let is_quiet = call.dialogs[index].probe_at(&self.policy) <= now;
            for role in Role::ALL {
                let side = call.dialogs[index].side(role);
                let is_due = match side.probe {
                    ProbeStage::DueAt(at) => at <= now,
                    ProbeStage::Idle => is_quiet,
                    ProbeStage::AnswerBy(_) => false,
                };
                if !is_due || !side.can_be_asked() {
                    continue;
                }
                if let Some(probe) = probe(call, index, role, key) {
                    out.probes.push(probe);
                    self.stats.probes += 1;
                    call.dialogs[index].side_mut(role).probe = ProbeStage::AnswerBy(answer_by);
                }
            }
        }
    }
}

/// The proxy's timer C ends an INVITE first, so this is a safeguard.
fn expire_setup(call: &mut Call, now: Instant) {
    if matches!(call.setup, Setup::Pending(until) if until <= now) {
        call.setup = Setup::Done(0);
        call.last_end = Some((DialogEnd::Timeout, None));
        call.end_unconfirmed([DialogEnd::Timeout; 2], None);
    }
}

/// Ends a dialog if it is time; returns whether it ends.
fn expire_dialog(call: &mut Call, index: usize, now: Instant, policy: &DialogPolicy) -> bool {
    let dialog = &mut call.dialogs[index];
    if dialog.state() != Some(DialogState::Confirmed) {
        return expire_ringing(dialog, now);
    }
    let dialog = &call.dialogs[index];
    let is_silent = |role| match dialog.side(role).probe {
        ProbeStage::AnswerBy(at) => at <= now,
        // It is gone, and cannot be asked.
        ProbeStage::DueAt(at) => at <= now && !dialog.side(role).can_be_asked(),
        ProbeStage::Idle => false,
    };
    let is_timed_out = dialog.end_at(policy) <= now || Role::ALL.into_iter().any(is_silent);
    if is_timed_out {
        call.end(index, [DialogEnd::Timeout; 2], None, None);
    }
    is_timed_out
}

/// A telephone whose flow ended while it rang, and that was not heard again, rings no more.
/// If it answers after all, its dialog begins anew.
fn expire_ringing(dialog: &mut Dialog, now: Instant) -> bool {
    let callee = dialog.side_mut(Role::Callee);
    let is_gone = matches!(callee.probe, ProbeStage::DueAt(at) if at <= now);
    is_gone && callee.end(DialogEnd::Timeout, None)
}

/// The request for a device that can be asked.
fn probe(call: &Call, index: usize, role: Role, key: QueueHandle) -> Option<Probe> {
    let dialog = &call.dialogs[index];
    let uri = dialog.side(role).contact.as_deref()?.into();
    let party = call.party(dialog, role)?;
    let tags: [Arc<str>; 2] = [call.names.caller_tag().into(), dialog.callee_tag.clone()?];
    let address = |role: Role| {
        let identity = call.names.identity(role.direction())?;
        Some((identity.uri.into(), tags[role as usize].clone()))
    };
    Some(Probe {
        id: ProbeId {
            key,
            dialog: dialog.id,
            role,
        },
        device: party.device.clone()?,
        flow: party.flow(),
        uri,
        call_id: call.names.call_id().into(),
        to: address(role)?,
        from: address(role.other())?,
    })
}
