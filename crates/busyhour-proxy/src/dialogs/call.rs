//! One INVITE and the dialogs it leads to: one, or several if it was forked.

use std::{net::IpAddr, sync::Arc};

use busyhour::{bus::Name, clock::Instant};
use busyhour_registrar::{
    Now,
    watch::{CallNames, DialogChange, DialogEnd, DialogInfo, DialogState, DialogStep},
};
use busyhour_sip::sdp::MediaDirection;

use super::dialog::Dialog;
use super::party::KeptParty;
use super::party::Role;
use super::policy::DialogPolicy;
use super::record::{CallRecord, LiveCall, MediaFailure, MediaSides, flow_text};
use super::side::News;
use super::{DialogActions, ReplacedDialog};

/// A call, found by its Call-ID and tags.
#[derive(Debug)]
pub(super) struct Call {
    /// Of the Call-ID.
    pub hash: u64,
    /// Call-ID, the caller's tag, From and To; a URI too long to keep is absent.
    pub names: Arc<CallNames>,
    /// CSeq of the INVITE.
    pub cseq: u32,
    pub caller: KeptParty,
    /// The source that it counts for; a peer is its own.
    pub source: Option<IpAddr>,
    /// The account or peer that it counts for.
    pub account: Option<Name>,
    pub offer: Option<MediaDirection>,
    pub branches: Vec<Branch>,
    pub dialogs: Vec<Dialog>,
    pub setup: Setup,
    pub is_cancelled: bool,
    /// How often the INVITE came again: a spiral, or for another user of a peer's fork.
    pub passes: u16,
    /// How many of them, the first one too, wait for a final response.
    pub open_passes: u16,
    pub replaces: Option<Box<ReplacedDialog>>,
    pub began: Now,
    /// The first response but 100.
    pub heard: Option<Instant>,
    pub rang: Option<Instant>,
    pub answered: Option<Instant>,
    /// How it ended last, as the caller sees it.
    pub last_end: Option<(DialogEnd, Option<Role>)>,
    /// With whoever answers.
    pub media_failure: Option<MediaFailure>,
    /// No INVITE of it was seen, or its record is written.
    pub has_record: bool,
    /// No INVITE of it was seen: its parties are those of the first tokens for its names.
    pub is_adopted: bool,
    /// It has ended, and is remembered until then.
    pub lingers_until: Option<Instant>,
}

/// Where the INVITE was sent.
#[derive(Debug)]
pub(super) struct Branch {
    pub number: u32,
    pub callee: KeptParty,
    /// It has failed: it rings no more. A late 2xx of it is believed if it is forwarded.
    pub is_over: bool,
    /// With whom it rings alone.
    pub media_failure: Option<MediaFailure>,
}

/// How far the INVITE is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setup {
    /// The caller waits for a final response, at most until then.
    Pending(Instant),
    /// The caller was sent one of this status.
    Done(u16),
}

impl Call {
    pub fn is_pending(&self) -> bool {
        matches!(self.setup, Setup::Pending(_))
    }

    /// Nobody has a dialog of it any more.
    pub fn is_over(&self) -> bool {
        !self.is_pending() && self.dialogs.iter().all(Dialog::is_over)
    }

    pub fn branch_mut(&mut self, number: u32) -> Option<&mut Branch> {
        let mut branches = self.branches.iter_mut();
        branches.find(|branch| branch.number == number)
    }

    /// The index of the dialog with this tag of the callee.
    pub fn find(&self, callee_tag: &str) -> Option<usize> {
        let has_tag = |dialog: &Dialog| dialog.callee_tag.as_deref() == Some(callee_tag);
        self.dialogs.iter().position(has_tag)
    }

    /// Whether the dialog with this tag was answered, or ended for good, so that a 2xx of it
    /// comes again.
    pub fn has_had(&self, callee_tag: &str) -> bool {
        self.find(callee_tag).is_some_and(|index| {
            let dialog = &self.dialogs[index];
            dialog.is_confirmed || dialog.is_spent
        })
    }

    /// The index of the dialog with these tags of a request or response, and the side that
    /// sent the request.
    pub fn find_within(&self, from_tag: &str, to_tag: &str) -> Option<(usize, Role)> {
        let (sender, callee_tag) = match self.names.caller_tag() == from_tag {
            true => (Role::Caller, to_tag),
            false if self.names.caller_tag() == to_tag => (Role::Callee, from_tag),
            false => return None,
        };
        Some((self.find(callee_tag)?, sender))
    }

    pub fn party<'c>(&'c self, dialog: &'c Dialog, role: Role) -> Option<&'c KeptParty> {
        match role {
            Role::Caller => Some(&self.caller),
            Role::Callee => dialog.callee.as_ref(),
        }
    }

    pub fn device(&self, dialog: &Dialog, role: Role) -> Option<Name> {
        self.party(dialog, role)?.device.clone()
    }

    /// Every device that takes part, each once for each of its branches.
    pub fn devices(&self) -> impl Iterator<Item = &Name> {
        let callees = self.branches.iter().map(|branch| &branch.callee);
        let parties = std::iter::once(&self.caller).chain(callees);
        parties.filter_map(|party| party.device.as_ref())
    }

    /// What rings for one pass of the INVITE ends. Its caller may still be answered by another.
    pub fn end_pass(&mut self, pass: u16, end: DialogEnd, status: u16) {
        let is_of_pass = |dialog: &Dialog| {
            let branch = dialog.branch.filter(|_| !dialog.is_confirmed);
            branch.is_some_and(|branch| branch >> 16 == u32::from(pass))
        };
        let dialogs = self.dialogs.iter_mut();
        for dialog in dialogs.filter(|dialog| is_of_pass(dialog)) {
            dialog.side_mut(Role::Callee).end(end, Some(status));
        }
    }

    /// All that was not answered ends: another dialog was, or none will be.
    pub fn end_unconfirmed(&mut self, ends: [DialogEnd; 2], code: Option<u16>) {
        for dialog in &mut self.dialogs {
            if !dialog.is_confirmed {
                dialog.end(ends, code);
            }
        }
    }

    /// A dialog ends; `by` is the side that ended it.
    pub fn end(&mut self, index: usize, ends: [DialogEnd; 2], code: Option<u16>, by: Option<Role>) {
        let dialog = &mut self.dialogs[index];
        if dialog.end(ends, code) {
            dialog.is_spent = true;
            self.last_end = Some((ends[0], by));
        }
    }

    /// Tells the devices what has changed, and forgets dialogs that may begin again.
    pub fn tell(&mut self, out: &mut DialogActions) {
        let mut dialogs = std::mem::take(&mut self.dialogs);
        for dialog in &mut dialogs {
            for role in Role::ALL {
                self.tell_side(dialog, role, out);
            }
        }
        dialogs.retain(|dialog| dialog.is_spent || dialog.is_confirmed || !dialog.is_over());
        self.dialogs = dialogs;
    }

    fn tell_side(&self, dialog: &mut Dialog, role: Role, out: &mut DialogActions) {
        let Some(news) = dialog.side_mut(role).take_news() else {
            return;
        };
        let Some(device) = self.device(dialog, role) else {
            return;
        };
        dialog.version += 1;
        out.changes.push(DialogChange {
            device,
            // A device that calls itself has both sides.
            id: dialog.id << 1 | role as u64,
            version: dialog.version,
            step: match news {
                News::Is(state) => DialogStep::Is(self.info(dialog, role, state)),
                News::Ended(end, code) => DialogStep::Ended { end, code },
            },
        });
    }

    fn info(&self, dialog: &Dialog, role: Role, state: DialogState) -> DialogInfo {
        DialogInfo {
            names: self.names.clone(),
            callee_tag: dialog.callee_tag.clone(),
            direction: role.direction(),
            state,
            is_local_hold: dialog.exchange.holds(role),
            is_remote_hold: dialog.exchange.holds(role.other()),
        }
    }

    /// When something has to be done.
    pub fn deadline(&self, policy: &DialogPolicy) -> Instant {
        if let Some(until) = self.lingers_until {
            return until;
        }
        let setup = match self.setup {
            Setup::Pending(until) => until,
            Setup::Done(_) => Instant::FAR_FUTURE,
        };
        let dialogs = self.dialogs.iter().map(|dialog| dialog.deadline(policy));
        dialogs.chain([setup]).min().unwrap_or(setup)
    }

    /// What is left of it.
    pub fn record(&self, now: Instant) -> CallRecord {
        let unix_at = |at: Instant| self.began.unix + (at - self.began.now);
        let answered = self.answered_dialog();
        let callee = answered.and_then(|dialog| dialog.callee.as_ref());
        let tried = || self.branches.last().map(|branch| &branch.callee);
        let (end, ended_by) = self.last_end.unwrap_or((DialogEnd::Timeout, None));
        CallRecord {
            names: self.names.clone(),
            caller_device: self.caller.device.clone(),
            answered_by: callee.and_then(|callee| callee.device.clone()),
            began: self.began.unix,
            rang: self.rang.map(unix_at),
            answered: self.answered.map(unix_at),
            ended: unix_at(now),
            post_dial_delay: self.heard.map(|heard| heard - self.began.now),
            talk_time: self.answered.map(|answered| now - answered),
            status: match self.setup {
                Setup::Pending(_) => 0,
                Setup::Done(status) => status,
            },
            end,
            ended_by,
            caller_flow: flow_text(self.caller.flow()),
            callee_flow: callee.or_else(tried).map(|callee| flow_text(callee.flow())),
            media_failure: self.recorded_media_failure(),
        }
    }

    /// What is shown of it while it lasts; `None` once it is over.
    pub fn live(&self) -> Option<LiveCall> {
        let live = self.dialogs.iter().filter(|dialog| !dialog.is_over());
        let furthest = live.max_by_key(|dialog| dialog.state())?;
        let callee = furthest.callee.as_ref();
        Some(LiveCall {
            names: self.names.clone(),
            caller_device: self.caller.device.clone(),
            callee_device: callee.and_then(|callee| callee.device.clone()),
            state: furthest.state()?,
            since: furthest.since,
            caller_flow: self.caller.flow(),
            callee_flow: callee.map(KeptParty::flow),
            holds: Role::ALL.map(|role| furthest.exchange.holds(role)),
            has_record_to_come: !self.has_record,
        })
    }

    /// Whether the media with these is not yet known to fail.
    pub fn needs_media_failure(&self, between: MediaSides) -> bool {
        let of_branch = self
            .branch_of(between)
            .map(|place| self.branches[place].media_failure);
        of_branch.unwrap_or(self.media_failure).is_none()
    }

    /// Notes why the media fails; where the branch is not known, it concerns all.
    pub fn media_fails(&mut self, between: MediaSides, failure: MediaFailure) {
        match self.branch_of(between) {
            Some(place) => self.branches[place].media_failure = Some(failure),
            None => self.media_failure = Some(failure),
        }
    }

    /// Of several over one flow, the one that has answered.
    fn branch_of(&self, between: MediaSides) -> Option<usize> {
        let branch_where = |is_it: &dyn Fn(&Branch) -> bool| self.branches.iter().position(is_it);
        match between {
            MediaSides::All => None,
            MediaSides::Branch(call, branch) => {
                let number = call.branch(branch);
                branch_where(&|branch| branch.number == number)
            }
            MediaSides::Flow(to) => {
                let answered = self.answered_dialog().and_then(|dialog| dialog.branch);
                let is_over_it = |branch: &Branch| branch.callee.flow() == to;
                branch_where(&|branch| answered == Some(branch.number) && is_over_it(branch))
                    .or_else(|| branch_where(&is_over_it))
            }
        }
    }

    /// Of the branch that has answered; of the first one that failed, if none has.
    fn recorded_media_failure(&self) -> Option<MediaFailure> {
        let answered = self.answered_dialog();
        let counts =
            |branch: &&Branch| answered.is_none_or(|dialog| dialog.branch == Some(branch.number));
        let branches = self.branches.iter().filter(counts);
        let of_branch = branches.filter_map(|branch| branch.media_failure).next();
        self.media_failure.or(of_branch)
    }

    fn answered_dialog(&self) -> Option<&Dialog> {
        self.dialogs.iter().find(|dialog| dialog.is_confirmed)
    }
}
