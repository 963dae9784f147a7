//! The table of calls: finds them, bounds them, and forgets them.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use busyhour::{
    bus::Name,
    clock::Instant,
    timer::{QueueHandle, TimerQueue},
};
use busyhour_sip::{Message, source_of};
use foldhash::quality::FixedState;
use hashbrown::HashTable;

use super::call::Call;
use super::dialog::Dialog;
use super::party::KeptParty;
use super::party::{KnownSender, Party, Role};
use super::policy::DialogPolicy;
use super::record::{LiveCall, MediaFailure, MediaSides};
use super::side::ProbeStage;
use super::stats::DialogStats;
use super::tag::kept_tag;
use super::{CallEvent, DialogActions, EndedFlow};

/// The dialogs that pass through a proxy; pure. A server may have several tables, if each
/// Call-ID always goes to the same one.
#[derive(Debug)]
pub struct Dialogs {
    pub(super) policy: DialogPolicy,
    /// Calls, at their next deadline.
    pub(super) calls: TimerQueue<Box<Call>>,
    /// The same by their Call-ID.
    by_call_id: HashTable<QueueHandle>,
    /// The same by each device that takes part, once for each of its branches.
    by_device: HashTable<(Name, QueueHandle)>,
    sources: HashMap<IpAddr, usize, FixedState>,
    /// Calls by the account or peer that makes them.
    accounts: HashMap<Name, usize, FixedState>,
    /// Calls that have ended, the oldest first.
    lingering: VecDeque<QueueHandle>,
    /// Calls of the other tables of this server.
    others: usize,
    number: u16,
    last_serial: u64,
    pub(super) stats: DialogStats,
    hasher: FixedState,
}

/// The names of a dialog in a message: Call-ID and tags, as they are kept.
#[derive(Debug, Clone)]
pub(super) struct DialogName<'m> {
    pub call_id: &'m str,
    pub from_tag: Cow<'m, str>,
    pub to_tag: Cow<'m, str>,
}

impl Dialogs {
    /// An empty table. Each table of one server needs its own `number`; `seed` is secret,
    /// so that nobody can choose Call-IDs of one bucket.
    pub fn new(seed: u64, number: u16, policy: DialogPolicy) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self {
            policy,
            calls: TimerQueue::new(),
            by_call_id: HashTable::new(),
            by_device: HashTable::new(),
            sources: HashMap::with_hasher(hasher.clone()),
            accounts: HashMap::with_hasher(hasher.clone()),
            lingering: VecDeque::new(),
            others: 0,
            number,
            last_serial: 0,
            stats: DialogStats::default(),
            hasher,
        }
    }

    /// The calls of other tables, which count against the common bound.
    pub fn set_others(&mut self, others: usize) {
        self.others = others;
    }

    /// Calls now, without those that have ended.
    pub fn len(&self) -> usize {
        self.by_call_id.len() - self.lingering.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counters and gauges.
    pub fn stats(&self) -> DialogStats {
        DialogStats {
            call_count: self.len() as u64,
            lingering_count: self.lingering.len() as u64,
            ..self.stats.clone()
        }
    }

    /// The calls that last, in no defined order.
    pub fn live(&self) -> impl Iterator<Item = LiveCall> + '_ {
        self.calls.iter().filter_map(|(_, call)| call.live())
    }

    /// Whether a call with this Call-ID has not ended: [`DialogActions::ended`] will name it.
    pub fn lasts(&self, call_id: &str) -> bool {
        let lasts = |call: &Call| call.lingers_until.is_none();
        self.find(call_id, lasts).is_some()
    }

    /// The media of the calls with this Call-ID that have not ended cannot flow `between` these. The first
    /// reason of each goes into the record, if that concerns who has answered.
    pub fn media_fails(&mut self, call_id: &str, between: MediaSides, failure: MediaFailure) {
        let is_to_note =
            |call: &Call| call.lingers_until.is_none() && call.needs_media_failure(between);
        if let MediaSides::Branch(handle, _) = between {
            let call = self.calls.get_mut(handle.key);
            if let Some(call) = call.filter(|call| is_to_note(call)) {
                call.media_fails(between, failure);
            }
            return;
        }
        while let Some(handle) = self.find(call_id, is_to_note) {
            if let Some(call) = self.calls.get_mut(handle) {
                call.media_fails(between, failure);
            }
        }
    }

    /// Who sends a request with these names, if its dialog is known.
    pub fn sender(&self, request: &Message<'_>) -> Option<KnownSender> {
        let (handle, index, sender) = self.find_dialog(&DialogName::of(request)?)?;
        let call = self.calls.get(handle)?;
        let dialog = call.dialogs.get(index)?;
        let party = call.party(dialog, sender)?;
        Some(KnownSender {
            party: party.get(),
            other: call.party(dialog, sender.other()).map(KeptParty::get),
            is_adopted: call.is_adopted,
        })
    }

    /// Both sides of the dialog of a request with these names, if it is known and was answered,
    /// and which of them sends.
    pub fn parties(&self, request: &Message<'_>) -> Option<([Party; 2], Role)> {
        let (handle, index, sender) = self.find_dialog(&DialogName::of(request)?)?;
        let call = self.calls.get(handle)?;
        let dialog = call.dialogs.get(index)?;
        let callee = call.party(dialog, Role::Callee)?;
        let parties = [call.caller.get(), callee.get()];
        dialog.is_confirmed.then_some((parties, sender))
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let next = self.calls.next_deadline();
        next.filter(|deadline| *deadline < Instant::FAR_FUTURE)
    }

    /// A flow of a device ended, or the device was unregistered. Its dialogs may live on,
    /// as media goes another way: so it is asked about them after
    /// [`flow_grace`](DialogPolicy::flow_grace), unless a message of it comes before.
    pub fn flow_ended(&mut self, now: Instant, ended: EndedFlow<'_>) {
        let due = now + self.policy.flow_grace;
        let entries = self.by_device.iter_hash(self.hasher.hash_one(ended.device));
        let of_device = entries.filter(|(device, _)| device == ended.device);
        let handles: Vec<_> = of_device.map(|(_, handle)| *handle).collect();
        for handle in handles {
            if let Some(call) = self.calls.get_mut(handle) {
                ask_soon(call, ended, due);
            }
            self.reschedule(handle, now);
        }
    }

    pub(super) fn hash(&self, call_id: &str) -> u64 {
        self.hasher.hash_one(call_id)
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_serial += 1;
        u64::from(self.number) << 47 | self.last_serial
    }

    /// The call that this INVITE began, or this caller's last one with the Call-ID.
    pub(super) fn find_invite(&self, call_id: &str, caller_tag: &str) -> Option<QueueHandle> {
        self.find(call_id, |call| call.names.caller_tag() == caller_tag)
    }

    /// The call and the index of the dialog of this name, with the side that sent the
    /// request.
    pub(super) fn find_dialog(&self, name: &DialogName<'_>) -> Option<(QueueHandle, usize, Role)> {
        let within = |call: &Call| call.find_within(&name.from_tag, &name.to_tag);
        let handle = self.find(name.call_id, |call| within(call).is_some())?;
        let (index, sender) = within(self.calls.get(handle)?)?;
        Some((handle, index, sender))
    }

    pub(super) fn find(&self, call_id: &str, is_it: impl Fn(&Call) -> bool) -> Option<QueueHandle> {
        let is_it = |handle: &QueueHandle| {
            let call = self.calls.get(*handle);
            call.is_some_and(|call| call.names.call_id() == call_id && is_it(call))
        };
        self.by_call_id.find(self.hash(call_id), is_it).copied()
    }

    /// Whether there is room for another call; counts it if not.
    pub(super) fn admits(&mut self, caller: &Party, account: Option<&Name>) -> bool {
        let source = source_of_call(caller).and_then(|source| self.sources.get(&source));
        let account = account.and_then(|account| self.accounts.get(account));
        let account_max = match &caller.peer {
            Some(peer) => self.policy.calls_of_peer_max(peer),
            None => self.policy.calls_per_account_max,
        };
        let exceeds = |count: Option<&usize>, bound| count.copied().unwrap_or(0) >= bound;
        let counter = if self.len() + self.others >= self.policy.calls_max {
            &mut self.stats.untracked_full
        } else if exceeds(source, self.policy.calls_per_source_max) {
            &mut self.stats.untracked_source
        } else if exceeds(account, account_max) {
            &mut self.stats.untracked_account
        } else {
            return true;
        };
        *counter += 1;
        false
    }

    pub(super) fn insert(&mut self, call: Call) -> QueueHandle {
        let (source, account) = holders(&call);
        self.count(source, account);
        let (hash, devices) = (call.hash, call.devices().cloned().collect::<Vec<_>>());
        let handle = self.calls.add(Instant::FAR_FUTURE, Box::new(call));
        devices.iter().for_each(|device| self.index(device, handle));
        let calls = &self.calls;
        let rehash = |handle: &QueueHandle| calls.get(*handle).map_or(0, |call| call.hash);
        self.by_call_id.insert_unique(hash, handle, rehash);
        handle
    }

    /// The device takes part in the call, once more.
    pub(super) fn index(&mut self, device: &Name, handle: QueueHandle) {
        let hasher = &self.hasher;
        let rehash = |(device, _): &(Name, QueueHandle)| hasher.hash_one(device);
        let hash = hasher.hash_one(device);
        self.by_device
            .insert_unique(hash, (device.clone(), handle), rehash);
    }

    /// After each event of a call: tells what has changed, writes the record when it is
    /// over, and sets its timer.
    pub(super) fn settle(&mut self, handle: QueueHandle, now: Instant, out: &mut DialogActions) {
        let Some(call) = self.calls.get_mut(handle) else {
            return;
        };
        call.tell(out);
        match (call.is_over(), call.lingers_until) {
            (true, None) => self.begin_to_linger(handle, now, out),
            (false, Some(_)) => self.revive(handle),
            _ => {}
        }
        self.reschedule(handle, now);
    }

    fn begin_to_linger(&mut self, handle: QueueHandle, now: Instant, out: &mut DialogActions) {
        let Some(call) = self.calls.get_mut(handle) else {
            return;
        };
        call.lingers_until = Some(now + self.policy.linger);
        if !std::mem::replace(&mut call.has_record, true) {
            out.calls.push(CallEvent::Ended(call.record(now)));
            match call.answered {
                Some(_) => self.stats.answered += 1,
                None => self.stats.unanswered += 1,
            }
        }
        let (source, account) = holders(call);
        let call_id: Arc<str> = call.names.call_id().into();
        self.release(source, account.as_ref());
        if !self.lasts(&call_id) {
            out.ended.push(call_id);
        }
        self.lingering.push_back(handle);
        if self.lingering.len() > self.policy.lingering_max
            && let Some(oldest) = self.lingering.front().copied()
        {
            self.stats.lingering_evicted += 1;
            self.forget(oldest);
        }
    }

    /// A 2xx came after the end of the call: it crossed a CANCEL.
    fn revive(&mut self, handle: QueueHandle) {
        let Some(call) = self.calls.get_mut(handle) else {
            return;
        };
        call.lingers_until = None;
        let (source, account) = holders(call);
        self.count(source, account);
        self.stop_lingering(handle);
    }

    /// It ended last if it begins again or is given up; the oldest is forgotten first.
    fn stop_lingering(&mut self, handle: QueueHandle) {
        match self.lingering.back() == Some(&handle) {
            true => drop(self.lingering.pop_back()),
            false => {
                let place = self.lingering.iter().position(|it| *it == handle);
                place.and_then(|place| self.lingering.remove(place));
            }
        }
    }

    fn count(&mut self, source: Option<IpAddr>, account: Option<Name>) {
        if let Some(source) = source {
            *self.sources.entry(source).or_default() += 1;
        }
        if let Some(account) = account {
            *self.accounts.entry(account).or_default() += 1;
        }
    }

    fn release(&mut self, source: Option<IpAddr>, account: Option<&Name>) {
        if let Some(source) = source {
            decrement(&mut self.sources, &source);
        }
        if let Some(account) = account {
            decrement(&mut self.accounts, account);
        }
    }

    /// Forgets a call that has ended.
    pub(super) fn forget(&mut self, handle: QueueHandle) {
        let Some(call) = self.calls.cancel(handle) else {
            return;
        };
        for device in call.devices() {
            self.unindex(device, handle);
        }
        self.stop_lingering(handle);
        let is_it = |entry: &QueueHandle| *entry == handle;
        if let Ok(entry) = self.by_call_id.find_entry(call.hash, is_it) {
            entry.remove();
        }
    }

    fn unindex(&mut self, device: &Name, handle: QueueHandle) {
        let is_it = |entry: &(Name, QueueHandle)| entry.1 == handle && entry.0 == *device;
        let hash = self.hasher.hash_one(device);
        if let Ok(entry) = self.by_device.find_entry(hash, is_it) {
            entry.remove();
        }
    }

    /// The deadline lies ahead, so that no call can keep [`expire`](Self::expire) busy.
    pub(super) fn reschedule(&mut self, handle: QueueHandle, now: Instant) {
        let deadline = self
            .calls
            .get(handle)
            .map(|call| call.deadline(&self.policy));
        if let Some(deadline) = deadline {
            self.calls
                .reschedule(handle, deadline.max(now + LEAST_WAIT));
        }
    }
}

impl<'m> DialogName<'m> {
    /// The dialog of a request within one, or of its response. A side of RFC 2543 may have no tag.
    pub fn of(message: &Message<'m>) -> Option<Self> {
        Some(Self {
            call_id: message.call_id().ok()?,
            from_tag: kept_tag(message.from().ok()?.tag().unwrap_or("")),
            to_tag: kept_tag(message.to().ok()?.tag().unwrap_or("")),
        })
    }
}

fn ask_soon(call: &mut Call, ended: EndedFlow<'_>, due: Instant) {
    let Call {
        caller, dialogs, ..
    } = call;
    for dialog in dialogs.iter_mut() {
        let Dialog { callee, .. } = dialog;
        let has_it = |party: &KeptParty| {
            party.device.as_ref() == Some(ended.device)
                && ended.flow.is_none_or(|flow| party.flow() == flow)
        };
        let hit = [has_it(caller), callee.as_ref().is_some_and(has_it)];
        for (role, hit) in Role::ALL.into_iter().zip(hit) {
            let side = dialog.side_mut(role);
            if hit && !side.is_ended() && side.probe == ProbeStage::Idle {
                side.probe = ProbeStage::DueAt(due);
            }
        }
    }
}

/// Whom a call counts for.
fn holders(call: &Call) -> (Option<IpAddr>, Option<Name>) {
    (call.source, call.account.clone())
}

/// The source that a call of this caller counts for. A peer has many calls of one source, so
/// it counts by its name alone.
pub(super) fn source_of_call(caller: &Party) -> Option<IpAddr> {
    let is_peer = caller.peer.is_some();
    (!is_peer).then(|| source_of(caller.flow.remote.ip()))
}

fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, usize, FixedState>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

const LEAST_WAIT: Duration = Duration::from_millis(1);

/// A text that is kept, if it is not too long.
pub(super) fn kept(text: &str, len_max: usize) -> Option<Arc<str>> {
    (text.len() <= len_max).then(|| text.into())
}
