//! The compositor of event states (RFC 3903 §2): what the PUBLISH requests of devices
//! lead to, the answers to them, and how many publications there may be. The publications
//! themselves are in their devices.

use crate::server::{
    ServerConfig,
    load::shares::{Excess, Holder, Shares},
    persistence::Persistence,
    random::Secrets,
    server_clock::ServerClock,
    settings::mailboxes::Mailboxes,
    sip::{inbound_request::InboundRequest, responder::Responder, transactions::TransactionKey},
    stats::{PublishStats, counters::PublishCounters},
    tenant::tenant_quota::TenantQuota,
};
use busyhour::{buffer::Buffer, bus::Name};
use busyhour_registrar::{
    BindingId, Refusal,
    watch::{
        Granted, Keep, Package, Plan, Publications, Publish, PublishStep, Restorable, WatchPolicy,
        write_published,
    },
};
use busyhour_sip::{Flow, Message};
use busyhour_store::{Change, SoftStateKind};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Decides on publications, and counts them.
pub(in crate::server) struct Compositor {
    pub(in crate::server) counters: PublishCounters,
    /// Publications of all devices.
    places: Arc<Shares>,
    /// Those of them that were taken back lately, and are remembered.
    removed: Arc<Shares>,
    last_etag: AtomicU64,
    secrets: Arc<Secrets>,
    policy: WatchPolicy,
    per_device_max: usize,
    responder: Arc<Responder>,
    persistence: Arc<Persistence>,
    mailboxes: Arc<Mailboxes>,
    clock: Arc<ServerClock>,
}

/// What a PUBLISH leads to, and the answer to it.
pub(super) struct PublicationDraft {
    pub(super) plan: Plan,
    pub(super) answer: Buffer,
    /// The package whose watchers see a difference.
    pub(super) changed: Option<Package>,
    /// The place of a new one, or of one that is taken back and remembered.
    pub(super) place: Option<ReservedPublication>,
}

/// A reserved place among the publications, given back unless it is used.
pub(super) struct ReservedPublication {
    places: Arc<Shares>,
    holder: Option<Holder>,
}

impl Compositor {
    pub(in crate::server) fn new(
        config: &ServerConfig,
        [places, removed]: [Shares; 2],
        secrets: Arc<Secrets>,
        responder: Arc<Responder>,
        persistence: Arc<Persistence>,
        mailboxes: Arc<Mailboxes>,
        clock: Arc<ServerClock>,
    ) -> Self {
        Self {
            counters: PublishCounters::default(),
            places: Arc::new(places),
            removed: Arc::new(removed),
            last_etag: AtomicU64::new(0),
            secrets,
            policy: config.watch.clone(),
            per_device_max: config.limits.publications_per_device_max,
            responder,
            persistence,
            mailboxes,
            clock,
        }
    }

    /// The outcome of a device's PUBLISH. Without a buffer for the answer nothing is
    /// done and the result is `None`: the publisher retransmits the same request.
    pub(super) fn plan(
        &self,
        device: &Name,
        holder: Holder,
        (publications, publisher): (&Publications, Option<BindingId>),
        message: &Message<'_>,
        inbound: &InboundRequest,
    ) -> Result<Option<PublicationDraft>, Refusal> {
        let publish = Publish::read(message, &self.policy);
        self.responder.traffic.count_body(message, &publish);
        let publish = publish?;
        let package = publish.package;
        let place = match publish.if_match {
            None => Some(self.reserve(device, holder, inbound.flow)?),
            Some(_) => None,
        };
        let is_of_mailbox = package == Package::MessageSummary && publish.document.is_some();
        if is_of_mailbox && !self.mailboxes.has_room_for(device) {
            let account = Some(self.mailboxes.account_of(device));
            return Err((self.responder).no_room(
                Excess::Whole,
                TenantQuota::OtherShare,
                inbound.flow,
                account,
            ));
        }
        let mut new = || self.new_etag();
        let (count_max, now) = (self.per_device_max, self.clock.now());
        let mut plan = publications.plan(publish, publisher, count_max, now, &mut new)?;
        let place = match plan.granted.step {
            PublishStep::Created => place,
            _ => self.reserve_removal(holder, &mut plan),
        };
        let Some(answer) = self.answer(message, inbound, &plan.granted) else {
            return Ok(None);
        };
        Ok(Some(PublicationDraft {
            answer,
            changed: match plan.granted.step {
                // The account may have another mailbox by now.
                PublishStep::Refreshed if package == Package::MessageSummary => Some(package),
                PublishStep::Refreshed | PublishStep::Nothing | PublishStep::Repeated => None,
                PublishStep::Created | PublishStep::Modified | PublishStep::Removed => {
                    Some(package)
                }
            },
            place,
            plan,
        }))
    }

    fn reserve(
        &self,
        device: &Name,
        holder: Holder,
        flow: Flow,
    ) -> Result<ReservedPublication, Refusal> {
        let taken = self.places.take(holder, 1);
        taken.map_err(|excess| {
            let account = Some(self.mailboxes.account_of(device));
            self.responder
                .no_room(excess, TenantQuota::OtherShare, flow, account)
        })?;
        Ok(ReservedPublication {
            places: self.places.clone(),
            holder: Some(holder),
        })
    }

    /// The place of a publication that is taken back and remembered. Without one its publisher may be answered 412, as if
    /// it had not taken it back itself.
    fn reserve_removal(&self, holder: Holder, plan: &mut Plan) -> Option<ReservedPublication> {
        // What this process has answered it answers again without that, and nobody else has it.
        let is_needed = !self.persistence.store().is_immediate();
        if !is_needed || !plan.remembers_removal() || self.removed.take(holder, 1).is_err() {
            plan.forget_removal();
            if is_needed && plan.granted.step == PublishStep::Removed {
                self.counters.not_remembered.increment();
            }
            return None;
        }
        Some(ReservedPublication {
            places: self.removed.clone(),
            holder: Some(holder),
        })
    }

    /// The changes that must be durable before the answer leaves.
    pub(super) fn keep(
        &self,
        device: &Name,
        publications: &Publications,
        plan: &mut Plan,
    ) -> Vec<Change> {
        if self.persistence.store().is_immediate() {
            return Vec::new();
        }
        match publications.keep(device, plan) {
            None => Vec::new(),
            Some(Keep::Remove(row)) => vec![Change::RemoveSoftState(row.id)],
            Some(Keep::Put(row, value)) => {
                let id = row.map_or_else(|| self.persistence.next_id(), |row| row.id);
                let (kind, granted_s) = (SoftStateKind::Publication, plan.kept_s());
                let row = self.persistence.soft_state(id, kind, value, granted_s);
                plan.set_row(row.ended());
                vec![Change::PutSoftState(row)]
            }
        }
    }

    /// A stored publication is taken back in, even if there is no room.
    pub(super) fn take_back_in(&self, stored: &Restorable, holder: Holder) {
        let last_number = stored.last_number();
        self.last_etag.fetch_max(last_number, Ordering::Relaxed);
        match stored.is_removal() {
            true => self.removed.take_anyway(holder, 1),
            false => self.places.take_anyway(holder, 1),
        }
    }

    pub(super) fn count(&self, step: PublishStep, holder: Holder) {
        match step {
            PublishStep::Created => self.counters.created.increment(),
            PublishStep::Refreshed => self.counters.refreshed.increment(),
            PublishStep::Modified => self.counters.modified.increment(),
            PublishStep::Removed => {
                self.places.give_back(holder, 1);
                self.counters.removed.increment();
            }
            PublishStep::Repeated => {
                let traffic = &self.responder.traffic;
                traffic.retransmissions_answered.increment();
                self.counters.repeated.increment();
            }
            PublishStep::Nothing => {}
        }
    }

    /// Publications have left memory, and go on elsewhere.
    pub(super) fn forget(&self, holder: Holder, publications: &Publications) {
        self.places.give_back(holder, publications.len() as u64);
        self.forget_removals(holder, publications.removed_len());
    }

    /// Publications that were taken back are not remembered any more.
    pub(super) fn forget_removals(&self, holder: Holder, count: usize) {
        self.removed.give_back(holder, count as u64);
    }

    pub(super) fn count_ended(&self, holder: Holder, count: usize, is_revoked: bool) {
        let counter = match is_revoked {
            true => &self.counters.revoked,
            false => &self.counters.expired,
        };
        counter.add(count as u64);
        self.places.give_back(holder, count as u64);
    }

    pub(super) fn count_unregistered(&self, holder: Holder, count: usize) {
        self.counters.unregistered.add(count as u64);
        self.places.give_back(holder, count as u64);
    }

    pub(in crate::server) fn refuse(
        &self,
        message: &Message<'_>,
        flow: Flow,
        transaction: TransactionKey,
        refusal: &Refusal,
    ) {
        self.counters.count_refusal(refusal);
        self.responder.refuse(message, flow, transaction, refusal);
    }

    pub(in crate::server) fn stats(&self) -> PublishStats {
        let counters = &self.counters;
        PublishStats {
            publication_count: self.places.used(),
            requests: counters.requests.get(),
            created: counters.created.get(),
            refreshed: counters.refreshed.get(),
            modified: counters.modified.get(),
            removed: counters.removed.get(),
            expired: counters.expired.get(),
            revoked: counters.revoked.get(),
            unregistered: counters.unregistered.get(),
            repeated: counters.repeated.get(),
            remembered_count: self.removed.used(),
            not_remembered: counters.not_remembered.get(),
            condition_failed: counters.condition_failed.get(),
            too_many: counters.too_many.get(),
            rejected: counters.rejected.get(),
        }
    }

    fn answer(
        &self,
        message: &Message<'_>,
        inbound: &InboundRequest,
        granted: &Granted,
    ) -> Option<Buffer> {
        let tag = self.responder.to_tag(inbound.transaction);
        let source = inbound.flow.remote;
        self.responder
            .write(|out| write_published(out, message, granted, source, tag.as_str()))
    }

    /// A new number for a publication, and an unguessable entity-tag.
    fn new_etag(&self) -> (u64, String) {
        let number = self.last_etag.fetch_add(1, Ordering::Relaxed) + 1;
        let secret = self.secrets.tag(number | ETAG);
        (number, format!("{number:x}-{secret:016x}"))
    }
}

impl ReservedPublication {
    /// A publication lives there from now on.
    pub(super) fn take_up(mut self) {
        self.holder = None;
    }
}

impl Drop for ReservedPublication {
    fn drop(&mut self) {
        if let Some(holder) = self.holder {
            self.places.give_back(holder, 1);
        }
    }
}

/// Makes the secrets of entity-tags different from those of watchers' tags.
const ETAG: u64 = 1 << 63;
