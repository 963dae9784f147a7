//! PUBLISH at a device: its publications, their answers, and their end.

use crate::server::{
    core::Core,
    load::shares::{Excess, Holder},
    sip::inbound_request::InboundRequest,
    stats::PublishStats,
};
use busyhour::{buffer::Buffer, bus::Name};
use busyhour_registrar::{
    Refusal, user_of,
    watch::{
        Granted, Keep, Package, Plan, Publications, Publish, PublishStep, Restorable,
        write_published,
    },
};
use busyhour_sip::{Flow, Message};
use busyhour_store::{Change, SoftState, SoftStateKind};
use std::sync::{Arc, Weak, atomic::Ordering};

/// What a PUBLISH leads to, and the answer to it.
pub(in crate::server) struct PublicationDraft {
    pub(in crate::server) plan: Plan,
    pub(in crate::server) answer: Buffer,
    /// The package whose watchers see a difference.
    pub(in crate::server) changed: Option<Package>,
    /// The place of a new one.
    pub(in crate::server) place: Option<ReservedPublication>,
}

/// A reserved place among the publications, given back unless it is used.
pub(in crate::server) struct ReservedPublication {
    core: Weak<Core>,
    holder: Option<Holder>,
}

impl ReservedPublication {
    /// A publication lives there from now on.
    pub(in crate::server) fn take_up(mut self) {
        self.holder = None;
    }
}

impl Drop for ReservedPublication {
    fn drop(&mut self) {
        if let (Some(holder), Some(core)) = (self.holder, self.core.upgrade()) {
            core.parts.publications.give_back(holder, 1);
        }
    }
}

impl Core {
    /// The outcome of a device's PUBLISH. Without a buffer for the answer nothing is
    /// done and the result is `None`: the publisher retransmits the same request.
    pub(in crate::server) fn plan_publication(
        self: &Arc<Self>,
        device: &Name,
        holder: Holder,
        publications: &Publications,
        message: &Message<'_>,
        inbound: &InboundRequest,
    ) -> Result<Option<PublicationDraft>, Refusal> {
        let publish = Publish::read(message, &self.config().watch)?;
        let package = publish.package;
        let place = match publish.if_match {
            None => Some(self.place_for_publication(device, holder, inbound.flow)?),
            Some(_) => None,
        };
        if package == Package::MessageSummary
            && publish.document.is_some()
            && !self
                .mailboxes()
                .has_room_for(&self.mailboxes().of(user_of(device)))
        {
            return Err(self.responder().no_room(
                Excess::Whole,
                inbound.flow,
                Some(user_of(device)),
            ));
        }
        let mut new = || self.new_etag();
        let count_max = self.limits().publications_per_device_max;
        let plan = publications.plan(publish, count_max, self.now(), &mut new)?;
        let Some(answer) = self.published_answer(message, inbound, &plan.granted) else {
            return Ok(None);
        };
        Ok(Some(PublicationDraft {
            answer,
            changed: match plan.granted.step {
                // The account may have another mailbox by now.
                PublishStep::Refreshed if package == Package::MessageSummary => Some(package),
                PublishStep::Refreshed | PublishStep::Nothing => None,
                PublishStep::Created | PublishStep::Modified | PublishStep::Removed => {
                    Some(package)
                }
            },
            place: place.filter(|_| plan.granted.step == PublishStep::Created),
            plan,
        }))
    }

    fn place_for_publication(
        self: &Arc<Self>,
        device: &Name,
        holder: Holder,
        flow: Flow,
    ) -> Result<ReservedPublication, Refusal> {
        let taken = self.parts.publications.take(holder, 1);
        taken.map_err(|excess| {
            self.responder()
                .no_room(excess, flow, Some(user_of(device)))
        })?;
        Ok(ReservedPublication {
            core: Arc::downgrade(self),
            holder: Some(holder),
        })
    }

    /// The changes that must be durable before the answer leaves.
    pub(in crate::server) fn keep_publication(
        &self,
        device: &Name,
        publications: &Publications,
        plan: &mut Plan,
    ) -> Vec<Change> {
        if self.store().is_immediate() {
            return Vec::new();
        }
        match publications.keep(device, plan) {
            None => Vec::new(),
            Some(Keep::Remove(row)) => vec![Change::RemoveSoftState(row.id)],
            Some(Keep::Put(row, value)) => {
                let id = row.map_or_else(|| self.persistence().next_id(), |row| row.id);
                let (kind, granted_s) = (SoftStateKind::Publication, plan.granted.expires_s);
                let row = self.persistence().soft_state(id, kind, value, granted_s);
                plan.set_row(row.ended());
                vec![Change::PutSoftState(row)]
            }
        }
    }

    /// Restores stored publications. Limits do not apply here.
    pub(in crate::server) fn restore_publications(self: &Arc<Self>, rows: Vec<SoftState>) {
        let at = self.moment();
        let mut over = Vec::new();
        for row in rows {
            let remaining = row.remaining(at.steady);
            let stored = Restorable::read(&row.value);
            if let Err(reason) = &stored {
                tracing::warn!(row = row.id.0, %reason, "a stored publication cannot be restored");
            }
            let (Ok(stored), false) = (stored, remaining.is_zero()) else {
                over.push(row.ended());
                continue;
            };
            self.last_etag
                .fetch_max(stored.last_number(), Ordering::Relaxed);
            let device = self.devices().reopen(stored.device().into(), self);
            self.parts.publications.take_anyway(device.holder(), 1);
            device.restore_publication(self, stored, row.ended(), at.now + remaining);
        }
        self.store().purge(&over);
    }

    pub(in crate::server) fn count_ended_publications(
        &self,
        holder: Holder,
        count: usize,
        is_revoked: bool,
    ) {
        let counters = &self.counters().publish;
        let counter = match is_revoked {
            true => &counters.revoked,
            false => &counters.expired,
        };
        counter.add(count as u64);
        self.parts.publications.give_back(holder, count as u64);
    }

    pub(in crate::server) fn refuse_publication(
        &self,
        message: &Message<'_>,
        inbound: &InboundRequest,
        refusal: &Refusal,
    ) {
        self.counters().publish.count_refusal(refusal);
        self.responder()
            .refuse(message, inbound.flow, inbound.transaction, refusal);
    }

    pub(in crate::server) fn publish_stats(&self) -> PublishStats {
        let counters = &self.counters().publish;
        PublishStats {
            publication_count: self.parts.publications.used(),
            requests: counters.requests.get(),
            created: counters.created.get(),
            refreshed: counters.refreshed.get(),
            modified: counters.modified.get(),
            removed: counters.removed.get(),
            expired: counters.expired.get(),
            revoked: counters.revoked.get(),
            condition_failed: counters.condition_failed.get(),
            too_many: counters.too_many.get(),
            rejected: counters.rejected.get(),
        }
    }

    fn published_answer(
        &self,
        message: &Message<'_>,
        inbound: &InboundRequest,
        granted: &Granted,
    ) -> Option<Buffer> {
        let tag = self.responder().to_tag(inbound.transaction);
        self.responder()
            .write(|out| write_published(out, message, granted, inbound.flow.remote, tag.as_str()))
    }

    pub(in crate::server) fn count_publication(&self, step: PublishStep, holder: Holder) {
        let counters = &self.counters().publish;
        match step {
            PublishStep::Created => counters.created.increment(),
            PublishStep::Refreshed => counters.refreshed.increment(),
            PublishStep::Modified => counters.modified.increment(),
            PublishStep::Removed => {
                self.parts.publications.give_back(holder, 1);
                counters.removed.increment();
            }
            PublishStep::Nothing => {}
        }
    }

    /// A new number for a publication, and an unguessable entity-tag.
    fn new_etag(&self) -> (u64, String) {
        let number = self.last_etag.fetch_add(1, Ordering::Relaxed) + 1;
        let secret = self.parts.secrets.tag(number | ETAG);
        (number, format!("{number:x}-{secret:016x}"))
    }
}

/// Makes the secrets of entity-tags different from those of watchers' tags.
const ETAG: u64 = 1 << 63;
