//! What a registrar behind this server is told, and when. Pure.

use super::{
    times::{TOGETHER, earlier, jittered, renewed_after, together},
    upstream_entry::{Counted, Failure, PendingRequest, UpstreamEntry},
    upstream_step::{
        UpstreamAnswer, UpstreamAsk, UpstreamPolicy, UpstreamRefusal, UpstreamRow, UpstreamStep,
    },
};
use busyhour::clock::{Instant, UnixTime};
use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

/// The addresses of record that are registered at one registrar: one long registration for each,
/// whatever its telephones do.
///
/// It sends nothing itself: [`poll`](Self::poll) and [`answered`](Self::answered) say what is to be
/// sent and stored.
#[derive(Debug)]
pub struct UpstreamTable {
    policy: UpstreamPolicy,
    entries: HashMap<Arc<str>, UpstreamEntry>,
    /// Addresses without a pending request, by when their next one leaves.
    due: BTreeSet<(Instant, Arc<str>)>,
    /// Pending requests, by when they are sent again.
    again: BTreeSet<(Instant, u64)>,
    /// Whose requests wait for their answer.
    pending: HashMap<u64, Arc<str>>,
    /// The requests that have left take until then at the pace.
    paced_until: Instant,
    next_query_at: Instant,
    /// Queries, one after the other, that it answered without our contact.
    missing: u32,
    /// Its answers list the contacts that it has.
    is_listing: bool,
    /// Nothing is sent before all telephones are restored.
    is_restoring: bool,
    /// Requests without any answer, one after the other.
    silences: u32,
    told_count: usize,
    failing_count: usize,
    /// Those with a failure, with a telephone or without.
    refused_count: usize,
    last_number: u64,
    random: u64,
}

impl UpstreamTable {
    /// One that has told nothing, and sends nothing before [`end_restore`](Self::end_restore); the
    /// seed decides about times.
    pub fn new(policy: UpstreamPolicy, seed: u64) -> Self {
        Self {
            policy,
            entries: HashMap::new(),
            due: BTreeSet::new(),
            again: BTreeSet::new(),
            pending: HashMap::new(),
            paced_until: Instant::ZERO,
            next_query_at: Instant::ZERO,
            missing: 0,
            is_listing: false,
            is_restoring: true,
            silences: 0,
            told_count: 0,
            failing_count: 0,
            refused_count: 0,
            last_number: seed >> 1,
            random: seed,
        }
    }

    /// An earlier run has stored this.
    pub fn restore(&mut self, now: Instant, unix: UnixTime, aor: &str, row: UpstreamRow) {
        let mut entry = UpstreamEntry::new(now, self.policy.expires_s);
        entry.sure_until = row.sure_until.map(|until| now + (until - unix));
        entry.may_until = Some(now + (row.may_until - unix));
        entry.service_route = row.service_route;
        self.entries.insert(aor.into(), entry);
        self.settle(aor);
    }

    /// All telephones have been restored.
    pub fn end_restore(&mut self, now: Instant) {
        self.is_restoring = false;
        self.next_query_at = now + QUERY_PERIOD;
        let all: Vec<_> = self.entries.keys().cloned().collect();
        for aor in all {
            let sure_for = self.entries.get(&aor).and_then(|entry| {
                let until = entry.sure_until.filter(|until| *until > now)?;
                entry.is_wanted.then(|| until - now)
            });
            let after = sure_for.map(|left| self.before_end(left));
            self.plan(&aor, now + after.unwrap_or_default());
        }
    }

    /// Whether an address of record has a telephone may have changed.
    pub fn want(&mut self, now: Instant, aor: &str, is_wanted: bool) {
        let Some(entry) = self.entries.get_mut(aor) else {
            if is_wanted && !self.is_full() {
                let mut entry = UpstreamEntry::new(now, self.policy.expires_s);
                entry.is_wanted = true;
                self.entries.insert(aor.into(), entry);
                self.plan(aor, now);
            }
            return;
        };
        if std::mem::replace(&mut entry.is_wanted, is_wanted) == is_wanted {
            return;
        }
        if is_wanted && !entry.is_sure(now) {
            entry.unsure_since = now;
        }
        if let Some(request) = &mut entry.pending {
            request.is_outdated = true;
        }
        if is_wanted {
            entry.failure.take_if(|failure| failure.is_of_end);
        }
        let is_refused = entry.failure.is_some_and(Failure::is_refusal);
        // What the registrar has is renewed when it is time, and what it refuses is not asked
        // sooner.
        let next = match is_wanted {
            true if entry.is_sure(now) || entry.failure.is_some() => None,
            false if entry.may_until.is_none() && is_refused => Some(now + REMEMBERED),
            _ => Some(now),
        };
        match next {
            Some(next) => self.plan(aor, next),
            None => self.settle(aor),
        }
    }

    /// Whether telephones of this address are to be refused.
    pub fn refusal(&self, now: Instant, aor: &str) -> Option<UpstreamRefusal> {
        let Some(entry) = self.entries.get(aor) else {
            return self.is_full().then_some(UpstreamRefusal::Full);
        };
        if let Some(failure) = entry.failure.filter(|failure| failure.is_refusal()) {
            return Some(UpstreamRefusal::Refused(failure.status));
        }
        let unsure_since = entry.unsure_since(now).filter(|_| entry.is_wanted)?;
        let is_long = now - unsure_since > self.policy.patience;
        is_long.then_some(UpstreamRefusal::Unavailable)
    }

    /// The way that requests of this address take to the registrar (RFC 3608), while it has it for
    /// sure.
    pub fn service_route(&self, now: Instant, aor: &str) -> Option<Arc<str>> {
        let entry = self.entries.get(aor).filter(|entry| entry.is_sure(now))?;
        entry.service_route.clone()
    }

    /// Whether [`refusal`](Self::refusal) may say something of any address.
    pub fn has_refusals(&self) -> bool {
        self.refused_count > 0 || self.is_away() || self.is_full()
    }

    /// Addresses that have a telephone, and that the registrar has refused or not answered about.
    pub fn failing_count(&self) -> usize {
        self.failing_count
    }

    /// Addresses that the registrar has, or may have.
    pub fn told_count(&self) -> usize {
        self.told_count
    }

    /// Addresses of record.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Requests that wait for their answer.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Whether three requests one after the other were not answered.
    pub fn is_away(&self) -> bool {
        self.silences >= SILENCES_MAX
    }

    /// When to [poll](Self::poll) again.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.is_restoring {
            return None;
        }
        let again = self.again.first().map(|(at, _)| *at);
        let due = self.due.first().filter(|_| self.has_room());
        let due = due.map(|(at, _)| (*at).max(self.may_send_at()));
        let query = (self.can_query() && self.has_room()).then_some(self.next_query_at);
        let query = query.map(|at| at.max(self.may_send_at()));
        [again, due, query].into_iter().flatten().min()
    }

    /// Sends what is due, as far as the pace allows.
    pub fn poll(&mut self, now: Instant, unix: UnixTime) -> Vec<UpstreamStep> {
        let mut steps = Vec::new();
        if self.is_restoring {
            return steps;
        }
        while let Some((at, number)) = self.again.first().copied()
            && at <= now
        {
            self.send_again(now, unix, number, &mut steps);
        }
        while let Some((at, aor)) = self.due.first().cloned()
            && at <= now
            && (self.may_send(now) || self.entries.get(&aor).is_none_or(|it| it.is_over(now)))
        {
            self.send_due(now, unix, &aor, &mut steps);
        }
        if self.can_query() && self.next_query_at <= now && self.may_send(now) {
            self.next_query_at = now + QUERY_PERIOD;
            if let Some(aor) = self.queried(now) {
                self.begin(now, unix, &aor, UpstreamAsk::Query, &mut steps);
            }
        }
        steps
    }

    /// Whose request has this number, and what it asks.
    pub fn pending(&self, number: u64) -> Option<(Arc<str>, UpstreamAsk)> {
        let aor = self.pending.get(&number)?;
        let request = self.entries.get(aor)?.pending.as_ref()?;
        Some((aor.clone(), request.ask))
    }

    /// The registrar has answered. A challenge that can be answered needs the request once more,
    /// with the number that is returned.
    pub fn answered(
        &mut self,
        now: Instant,
        unix: UnixTime,
        number: u64,
        answer: &UpstreamAnswer,
        steps: &mut Vec<UpstreamStep>,
    ) -> Option<u64> {
        let aor = self.pending.get(&number)?.clone();
        if std::mem::take(&mut self.silences) >= SILENCES_MAX {
            steps.push(UpstreamStep::Back);
            self.tell_all(now);
        }
        if let Some(again) = self.renumber(now, &aor, answer) {
            return Some(again);
        }
        let request = self.take_pending(&aor)?;
        match (request.ask, answer.status) {
            (UpstreamAsk::Query, 200..300) if !answer.is_listed => self.forgotten(now, &aor, steps),
            (UpstreamAsk::Query, status) => {
                if (200..300).contains(&status) {
                    self.missing = 0;
                }
                self.resume(now, &aor, &request);
            }
            (UpstreamAsk::End, 200..300) => self.ended(now, &aor, steps),
            (UpstreamAsk::Register(asked_s), 200..300) => {
                self.is_listing |= answer.is_listed;
                let granted_s = answer.expires_s.unwrap_or(asked_s);
                let granted = (granted_s, answer.service_route.clone());
                self.registered((now, unix), &aor, granted, steps);
            }
            (UpstreamAsk::Register(asked_s), 423) if is_longer(answer, asked_s) => {
                if let Some(entry) = self.entries.get_mut(&aor) {
                    entry.expires_s = answer.min_expires_s.unwrap_or(asked_s);
                    entry.may_until = request.may_until_if_refused(entry.may_until);
                }
                self.plan(&aor, now);
            }
            (_, _) => self.fail((now, unix), &aor, &request, answer, steps),
        }
        self.settle(&aor);
        None
    }

    /// Sends what the address needs next, if it needs anything.
    fn send_due(
        &mut self,
        now: Instant,
        unix: UnixTime,
        aor: &Arc<str>,
        steps: &mut Vec<UpstreamStep>,
    ) {
        let Some(entry) = self.entries.get(aor) else {
            return;
        };
        if entry.is_over(now) {
            let is_stored = entry.may_until.is_some();
            self.remove(aor);
            if is_stored {
                let (aor, row) = (aor.clone(), None);
                steps.push(UpstreamStep::Store { aor, row });
            }
            return;
        }
        let ask = match entry.is_wanted {
            true => UpstreamAsk::Register(entry.expires_s),
            false => UpstreamAsk::End,
        };
        self.begin(now, unix, aor, ask, steps);
    }

    fn begin(
        &mut self,
        now: Instant,
        unix: UnixTime,
        aor: &Arc<str>,
        ask: UpstreamAsk,
        steps: &mut Vec<UpstreamStep>,
    ) {
        self.last_number += 1;
        let number = self.last_number;
        let Some(entry) = self.entries.get_mut(aor) else {
            return;
        };
        self.due.remove(&(entry.due_at, aor.clone()));
        let again_at = now + RETRANSMIT_MIN;
        let may_before = entry.may_until;
        entry.pending = Some(PendingRequest {
            number,
            ask,
            may_before,
            began_at: now,
            again_at,
            interval: 2 * RETRANSMIT_MIN,
            challenge_count: 0,
            is_sent_again: false,
            is_outdated: false,
        });
        entry.sent_at = Some(now);
        match ask {
            UpstreamAsk::Register(expires_s) => {
                let until = now + Duration::from_secs(expires_s.into()) + LATE_MAX;
                entry.may_until = entry.may_until.max(Some(until));
            }
            UpstreamAsk::End => entry.doubt(now),
            UpstreamAsk::Query => {}
        }
        let is_query = ask == UpstreamAsk::Query;
        let first = row_of(entry, now, unix).filter(|_| !is_query);
        self.again.insert((again_at, number));
        self.pending.insert(number, aor.clone());
        let gap = Duration::from_secs(1) / self.policy.rate.max(1);
        self.paced_until = self.paced_until.max(now) + gap;
        steps.push(UpstreamStep::Send {
            aor: aor.clone(),
            number,
            ask,
            first,
            is_again: false,
        });
        self.settle(aor);
    }

    /// A retransmission (RFC 3261 §17.1.2), or the end of patience.
    fn send_again(
        &mut self,
        now: Instant,
        unix: UnixTime,
        number: u64,
        steps: &mut Vec<UpstreamStep>,
    ) {
        let aor = self.pending.get(&number).cloned();
        let entry = aor.as_ref().and_then(|aor| self.entries.get_mut(aor));
        let (Some(aor), Some(entry)) = (&aor, entry) else {
            return;
        };
        let Some(request) = &mut entry.pending else {
            return;
        };
        if now - request.began_at >= TIMEOUT {
            return self.give_up(now, unix, aor, steps);
        }
        self.again.remove(&(request.again_at, number));
        request.is_sent_again = true;
        request.again_at = now + request.interval;
        request.interval = (2 * request.interval).min(RETRANSMIT_MAX);
        self.again.insert((request.again_at, number));
        steps.push(UpstreamStep::Send {
            aor: aor.clone(),
            number,
            ask: request.ask,
            first: None,
            is_again: true,
        });
    }

    fn give_up(
        &mut self,
        now: Instant,
        unix: UnixTime,
        aor: &Arc<str>,
        steps: &mut Vec<UpstreamStep>,
    ) {
        let Some(request) = self.take_pending(aor) else {
            return;
        };
        self.silences = self.silences.saturating_add(1);
        if self.silences == SILENCES_MAX {
            steps.push(UpstreamStep::Away);
        }
        match request.ask {
            UpstreamAsk::Query => self.resume(now, aor, &request),
            UpstreamAsk::Register(_) | UpstreamAsk::End => {
                self.fail((now, unix), aor, &request, &UpstreamAnswer::NONE, steps);
            }
        }
        self.settle(aor);
    }

    /// A challenge: the request leaves once more, with credentials.
    fn renumber(&mut self, now: Instant, aor: &Arc<str>, answer: &UpstreamAnswer) -> Option<u64> {
        let request = self.entries.get_mut(aor)?.pending.as_mut()?;
        if !answer.is_challenge || request.challenge_count >= CHALLENGES_MAX {
            return None;
        }
        self.pending.remove(&request.number);
        self.again.remove(&(request.again_at, request.number));
        self.last_number += 1;
        request.challenge_count += 1;
        request.number = self.last_number;
        request.began_at = now;
        request.again_at = now + RETRANSMIT_MIN;
        request.interval = 2 * RETRANSMIT_MIN;
        self.pending.insert(request.number, aor.clone());
        self.again.insert((request.again_at, request.number));
        Some(request.number)
    }

    fn registered(
        &mut self,
        (now, unix): (Instant, UnixTime),
        aor: &Arc<str>,
        (granted_s, service_route): (u32, Option<Arc<str>>),
        steps: &mut Vec<UpstreamStep>,
    ) {
        let life = Duration::from_secs(granted_s.into());
        let after = self.before_end(life).max(RETRY_MIN);
        let Some(entry) = self.entries.get_mut(aor) else {
            return;
        };
        // The next renewal stores it; a first one is stored now, so that a start soon after does
        // not tell it again, and so is another way, which calls need after it.
        let is_first = !entry.is_sure(now) || entry.service_route != service_route;
        entry.service_route = service_route;
        entry.failure = None;
        entry.sure_until = Some(now + life);
        entry.may_until = entry.may_until.max(entry.sure_until);
        if let Some(row) = row_of(entry, now, unix).filter(|_| is_first) {
            let (aor, row) = (aor.clone(), Some(row));
            steps.push(UpstreamStep::Store { aor, row });
        }
        let next = match entry.is_wanted {
            true => together(now + after),
            false => now,
        };
        self.plan(aor, next);
    }

    /// The registrar has it no more.
    fn ended(&mut self, now: Instant, aor: &Arc<str>, steps: &mut Vec<UpstreamStep>) {
        let Some(entry) = self.entries.get_mut(aor) else {
            return;
        };
        entry.doubt(now);
        entry.may_until = None;
        entry.service_route = None;
        let (told, row) = (aor.clone(), None);
        steps.push(UpstreamStep::Store { aor: told, row });
        let refused = entry.failure.filter(|failure| failure.is_refusal());
        match (entry.is_wanted, refused) {
            (true, _) => self.plan(aor, now),
            // A telephone that comes again is told so at once, for a while.
            (false, Some(_)) => self.plan(aor, now + REMEMBERED),
            // It is forgotten when its next request could leave, so that there is no sooner one.
            (false, None) => self.plan(aor, now),
        }
    }

    /// The registrar has not what it has acknowledged.
    fn forgotten(&mut self, now: Instant, aor: &Arc<str>, steps: &mut Vec<UpstreamStep>) {
        if let Some(entry) = self.entries.get_mut(aor) {
            entry.doubt(now);
        }
        self.plan(aor, now);
        // One contact may be lost by other means, a second one at the same time is not.
        self.missing += 1;
        let is_all = self.missing >= MISSING_MAX;
        steps.push(UpstreamStep::Forgotten { is_all });
        if is_all {
            self.missing = 0;
            self.tell_all(now);
        } else {
            self.next_query_at = now;
        }
    }

    /// What was planned before a query goes on.
    fn resume(&mut self, now: Instant, aor: &Arc<str>, request: &PendingRequest) {
        let planned = self.entries.get(aor).map(|entry| entry.due_at);
        let planned = planned.filter(|_| !request.is_outdated);
        self.plan(aor, planned.unwrap_or(now));
    }

    fn fail(
        &mut self,
        (now, unix): (Instant, UnixTime),
        aor: &Arc<str>,
        request: &PendingRequest,
        answer: &UpstreamAnswer,
        steps: &mut Vec<UpstreamStep>,
    ) {
        let random = self.next_random();
        let Some(entry) = self.entries.get_mut(aor) else {
            return;
        };
        let failure = Failure {
            status: answer.status,
            count: entry.failure.map_or(1, |it| it.count.saturating_add(1)),
            is_of_end: request.ask == UpstreamAsk::End,
        };
        entry.failure = Some(failure);
        if failure.is_refusal() {
            // It has not taken this request, and a start does not forget that it has refused it.
            entry.may_until = request.may_until_if_refused(entry.may_until);
            entry.doubt(now);
            let (aor, row) = (aor.clone(), row_of(entry, now, unix));
            steps.push(UpstreamStep::Store { aor, row });
        }
        let longest = (RETRY_MIN * (1 << failure.count.min(8))).min(RETRY_MAX);
        let asked = Duration::from_secs(answer.retry_after_s.unwrap_or(0).into());
        let next = jittered(longest, random).max(asked.min(RETRY_MAX));
        self.plan(aor, now + next);
    }

    /// The registrar may have forgotten all: everything is told again, in a random order and no
    /// faster than the pace.
    fn tell_all(&mut self, now: Instant) {
        let count = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let paced = Duration::from_secs(1) * count / self.policy.rate.max(1);
        let within = paced.max(TELL_ALL_WITHIN);
        let idle = self.entries.iter().filter(|(_, it)| it.pending.is_none());
        let all: Vec<_> = idle.map(|(aor, it)| (aor.clone(), it.due_at)).collect();
        for (aor, due_at) in all {
            let part = f64::from(self.next_random()) / f64::from(u32::MAX);
            self.plan(&aor, due_at.min(now + within.mul_f64(part)));
        }
    }

    /// The address that was renewed the longest ago, of those that the registrar has for sure: one
    /// that was renewed since it forgot all would not show it.
    fn queried(&self, now: Instant) -> Option<Arc<str>> {
        let is_sure = |aor: &Arc<str>| {
            let entry = self.entries.get(aor);
            entry.is_some_and(|it| it.is_sure(now) && it.is_wanted && it.failure.is_none())
        };
        let mut first = self.due.iter().take(QUERY_CANDIDATES).map(|(_, aor)| aor);
        first.find(|aor| is_sure(aor)).cloned()
    }

    fn can_query(&self) -> bool {
        self.is_listing && !self.due.is_empty()
    }

    fn has_room(&self) -> bool {
        // Who does not answer one is not asked more.
        let pending_max = match self.is_away() {
            true => 1,
            false => self.policy.pending_max,
        };
        self.pending.len() < pending_max
    }

    fn may_send(&self, now: Instant) -> bool {
        self.has_room() && self.may_send_at() <= now
    }

    /// The requests of a tenth of a second may leave together.
    fn may_send_at(&self) -> Instant {
        earlier(self.paced_until, TOGETHER)
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.policy.entries_max
    }

    fn take_pending(&mut self, aor: &Arc<str>) -> Option<PendingRequest> {
        let request = self.entries.get_mut(aor)?.pending.take()?;
        self.pending.remove(&request.number);
        self.again.remove(&(request.again_at, request.number));
        Some(request)
    }

    /// Sets when the next request of an address leaves. While one is pending, its answer decides.
    fn plan(&mut self, aor: &str, at: Instant) {
        let Some((aor, _)) = self.entries.get_key_value(aor) else {
            return;
        };
        let aor = aor.clone();
        let Some(entry) = self.entries.get_mut(&aor) else {
            return;
        };
        let earliest = entry.sent_at.map_or(at, |sent| sent + GAP_MIN);
        let at = at.max(earliest);
        if entry.pending.is_none() {
            self.due.remove(&(entry.due_at, aor.clone()));
            entry.due_at = at;
            self.due.insert((at, aor.clone()));
        }
        self.settle(&aor);
    }

    fn remove(&mut self, aor: &Arc<str>) {
        if let Some(entry) = self.entries.remove(aor) {
            self.due.remove(&(entry.due_at, aor.clone()));
            self.count(entry.counted, Counted::default());
        }
    }

    /// Counts an address that has changed.
    fn settle(&mut self, aor: &str) {
        let Some(entry) = self.entries.get_mut(aor) else {
            return;
        };
        let tally = entry.tally();
        let before = std::mem::replace(&mut entry.counted, tally);
        self.count(before, tally);
    }

    fn count(&mut self, before: Counted, after: Counted) {
        self.told_count += usize::from(after.is_told);
        self.told_count -= usize::from(before.is_told);
        self.failing_count += usize::from(after.is_failing);
        self.failing_count -= usize::from(before.is_failing);
        self.refused_count += usize::from(after.is_refused);
        self.refused_count -= usize::from(before.is_refused);
    }

    /// A registration is renewed when seven to nine tenths of it have passed.
    fn before_end(&mut self, life: Duration) -> Duration {
        renewed_after(life, self.next_random())
    }

    fn next_random(&mut self) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 32) as u32
    }
}

fn row_of(entry: &UpstreamEntry, now: Instant, unix: UnixTime) -> Option<UpstreamRow> {
    let at = |until: Instant| unix + (until - now);
    Some(UpstreamRow {
        sure_until: entry.sure_until.filter(|until| *until > now).map(at),
        may_until: at(entry.may_until?),
        service_route: entry.service_route.clone(),
    })
}

fn is_longer(answer: &UpstreamAnswer, asked_s: u32) -> bool {
    let min_s = answer.min_expires_s.unwrap_or(0);
    min_s > asked_s && min_s <= EXPIRES_S_MAX
}

/// T1 and T2 of RFC 3261 §17.1.2.
const RETRANSMIT_MIN: Duration = Duration::from_millis(500);
const RETRANSMIT_MAX: Duration = Duration::from_secs(4);
const TIMEOUT: Duration = Duration::from_secs(32);
/// A request may arrive so long after it was first sent: with its challenges, and on the network.
const LATE_MAX: Duration = Duration::from_secs(128);
/// A nonce may be stale once.
const CHALLENGES_MAX: u32 = 2;
/// So many requests without an answer, and the registrar is away.
const SILENCES_MAX: u32 = 3;
/// Between two requests for one address.
const GAP_MIN: Duration = Duration::from_secs(1);
const RETRY_MIN: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// How long a refusal is known after the telephone has gone.
const REMEMBERED: Duration = Duration::from_secs(60);
const TELL_ALL_WITHIN: Duration = Duration::from_secs(30);
const QUERY_PERIOD: Duration = Duration::from_secs(30);
/// So many addresses of which it has none, and it has forgotten all.
const MISSING_MAX: u32 = 2;
/// Addresses of which one is asked about.
const QUERY_CANDIDATES: usize = 64;
/// A week.
const EXPIRES_S_MAX: u32 = 604_800;
