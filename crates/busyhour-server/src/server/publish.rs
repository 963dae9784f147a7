//! PUBLISH at a device: its publications, their answers, and their end.

use super::{core::Core, job::Arrival, stats::PublishStats};
use crate::{
    proto::sip::Message,
    registrar::{Refusal, user_of},
    watch::{
        Granted, MessageSummary, Package, Publications, Publish, PublishStep, write_published,
    },
};
use busyhour::{buffer::Buffer, bus::Name};
use std::sync::{Arc, atomic::Ordering};

/// What a PUBLISH changed, and the answer to it.
pub(super) struct Accepted {
    pub(super) answer: Buffer,
    /// The package whose watchers see a difference.
    pub(super) changed: Option<Package>,
}

impl Core {
    /// Takes in a PUBLISH of a device. Without a buffer for the answer nothing is
    /// done, and it is `None`: whoever publishes asks again, in the same words.
    pub(super) fn take_publication(
        &self,
        device: &Name,
        publications: &mut Publications,
        message: &Message<'_>,
        arrival: &Arrival,
    ) -> Result<Option<Accepted>, Refusal> {
        let publish = Publish::read(message, &self.config().watch)?;
        let package = publish.package;
        if publish.if_match.is_none() && !self.has_room_for_publication() {
            return Err(self.table_full());
        }
        if package == Package::MessageSummary
            && publish.document.is_some()
            && !self
                .mailboxes()
                .has_room_for(&self.mailbox_of(user_of(device)))
        {
            return Err(self.table_full());
        }
        let mut new = || self.new_etag();
        let count_max = self.limits().publications_per_device_max;
        let plan = publications.plan(publish, count_max, self.now(), &mut new)?;
        let step = plan.granted.step;
        let Some(answer) = self.published_answer(message, arrival, &plan.granted) else {
            return Ok(None);
        };
        publications.apply(plan);
        self.count_publication(step);
        Ok(Some(Accepted {
            answer,
            changed: match step {
                // The account may have been given another mailbox since.
                PublishStep::Refreshed if package == Package::MessageSummary => Some(package),
                PublishStep::Refreshed | PublishStep::Nothing => None,
                PublishStep::Created | PublishStep::Modified | PublishStep::Removed => {
                    Some(package)
                }
            },
        }))
    }

    /// Tells the mailbox of a device's account what the device says of it.
    pub(super) fn publish_mailbox(&self, device: &Name, messages: Option<Arc<MessageSummary>>) {
        let id = self.mailbox_of(user_of(device));
        let counters = &self.counters().mailbox;
        match self.mailboxes().publish(&id, device, messages) {
            true => counters.published.increment(),
            false => counters.refused.increment(),
        }
    }

    pub(super) fn count_ended_publications(&self, count: usize) {
        self.counters().publish.expired.add(count as u64);
        self.publication_count.fetch_sub(count, Ordering::Relaxed);
    }

    pub(super) fn refuse_publication(
        &self,
        message: &Message<'_>,
        arrival: &Arrival,
        refusal: &Refusal,
    ) {
        self.counters().publish.count_refusal(refusal);
        self.refuse(message, arrival.flow, arrival.transaction, refusal);
    }

    pub(super) fn publish_stats(&self) -> PublishStats {
        let counters = &self.counters().publish;
        PublishStats {
            publication_count: self.publication_count.load(Ordering::Relaxed) as u64,
            requests: counters.requests.get(),
            created: counters.created.get(),
            refreshed: counters.refreshed.get(),
            modified: counters.modified.get(),
            removed: counters.removed.get(),
            expired: counters.expired.get(),
            condition_failed: counters.condition_failed.get(),
            too_many: counters.too_many.get(),
            rejected: counters.rejected.get(),
        }
    }

    fn published_answer(
        &self,
        message: &Message<'_>,
        arrival: &Arrival,
        granted: &Granted,
    ) -> Option<Buffer> {
        let tag = self.to_tag(arrival.transaction);
        self.write(|out| write_published(out, message, granted, arrival.flow.remote, tag.as_str()))
    }

    /// The count may pass the limit by as many as are in work at the same moment.
    fn has_room_for_publication(&self) -> bool {
        self.publication_count.load(Ordering::Relaxed) < self.limits().publications_max
    }

    fn count_publication(&self, step: PublishStep) {
        let counters = &self.counters().publish;
        match step {
            PublishStep::Created => {
                self.publication_count.fetch_add(1, Ordering::Relaxed);
                counters.created.increment();
            }
            PublishStep::Refreshed => counters.refreshed.increment(),
            PublishStep::Modified => counters.modified.increment(),
            PublishStep::Removed => {
                self.publication_count.fetch_sub(1, Ordering::Relaxed);
                counters.removed.increment();
            }
            PublishStep::Nothing => {}
        }
    }

    /// A number that no publication had, and a tag that nobody can guess.
    fn new_etag(&self) -> (u64, String) {
        let number = self.last_etag.fetch_add(1, Ordering::Relaxed) + 1;
        let secret = self.parts.secrets.tag(number | ETAG);
        (number, format!("{number:x}-{secret:016x}"))
    }
}

/// Keeps the secrets of entity-tags apart from those of watchers' tags.
const ETAG: u64 = 1 << 63;
