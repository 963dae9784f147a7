//! Every mailbox that somebody has spoken of, and what waits in it.
//!
//! A count set by HTTP lasts until it is set anew or removed. What a device
//! publishes by SIP stands in front of it for as long as the publication lives
//! (RFC 3903 calls the two hard and soft state).
//!
//! The table's lock is held while the bus is told, so that two who change a
//! mailbox are told in the order in which they did.

use super::{core::Core, stats::MailboxStats};
use crate::watch::{Mailbox, MessageSummary};
use busyhour::bus::{Name, Topic};
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard},
};
use thiserror::Error;

/// The table of mailboxes, in the order of their names.
pub(super) struct Mailboxes {
    topic: Topic<Mailbox>,
    table: Mutex<BTreeMap<Name, Slot>>,
    count_max: usize,
}

/// One page of mailboxes in the order of their names.
#[derive(Debug, Clone, Default)]
pub struct MailboxListing {
    /// The mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// Where the next page begins: after this name. `None` on the last page.
    pub next: Option<Name>,
}

/// Why a mailbox is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MailboxRefusal {
    /// The name is none.
    #[error("a mailbox has a name of 1 to {MAILBOX_NAME_LEN_MAX} letters, digits or any of -_.+@")]
    Name,
    /// What it is said to hold cannot be told to a watcher.
    #[error("{0}")]
    Summary(&'static str),
    /// Nothing was set, but a device publishes what waits in it.
    #[error("the mailbox is not set here, a device publishes it: it ends with the publication")]
    Published,
    /// There are as many as may be.
    #[error("there are {0} mailboxes already: remove some, or raise limits.mailboxes")]
    Full(usize),
}

#[derive(Default)]
struct Slot {
    set: Option<Arc<MessageSummary>>,
    /// By which address of record.
    published: Option<(Name, Arc<MessageSummary>)>,
}

impl Mailboxes {
    pub(super) fn new(topic: Topic<Mailbox>, count_max: usize) -> Self {
        Self {
            topic,
            table: Mutex::default(),
            count_max,
        }
    }

    pub(super) fn topic(&self) -> &Topic<Mailbox> {
        &self.topic
    }

    /// What waits in a mailbox.
    pub(super) fn get(&self, id: &Name) -> Option<Mailbox> {
        self.topic.get(id)
    }

    /// Sets what waits in a mailbox; whether it was not there before.
    fn set(&self, id: &str, summary: MessageSummary) -> Result<bool, MailboxRefusal> {
        if !is_mailbox_name(id) {
            return Err(MailboxRefusal::Name);
        }
        let summary = summary.checked().map_err(MailboxRefusal::Summary)?;
        let mut table = self.lock();
        let slot = self.slot(&mut table, &Name::new(id))?;
        let is_new = slot.set.replace(Arc::new(summary)).is_none();
        self.tell(&mut table, &Name::new(id));
        Ok(is_new)
    }

    /// Forgets what was set; `false` when nothing is known of it.
    fn remove(&self, id: &str) -> Result<bool, MailboxRefusal> {
        let mut table = self.lock();
        let id = Name::new(id);
        let Some(slot) = table.get_mut(&id) else {
            return Ok(false);
        };
        if slot.set.take().is_none() {
            return Err(MailboxRefusal::Published);
        }
        self.tell(&mut table, &id);
        Ok(true)
    }

    /// Says what the device `by` publishes of a mailbox; `None` takes it back.
    /// `false` when there is no room.
    pub(super) fn publish(
        &self,
        id: &Name,
        by: &Name,
        summary: Option<Arc<MessageSummary>>,
    ) -> bool {
        let mut table = self.lock();
        match summary {
            Some(summary) => match self.slot(&mut table, id) {
                Ok(slot) => slot.published = Some((by.clone(), summary)),
                Err(_) => return false,
            },
            None => {
                if let Some(slot) = table.get_mut(id) {
                    slot.published.take_if(|(owner, _)| owner == by);
                }
            }
        }
        self.tell(&mut table, id);
        true
    }

    fn list(&self, after: Option<&str>, limit: usize) -> MailboxListing {
        let table = self.lock();
        let begin = match after {
            Some(after) => Bound::Excluded(Name::new(after)),
            None => Bound::Unbounded,
        };
        let mut rest = table.range((begin, Bound::Unbounded));
        let page = rest
            .by_ref()
            .take(limit)
            .filter_map(|(id, slot)| slot.mailbox(id));
        let mailboxes: Vec<_> = page.collect();
        let more = rest.next().is_some();
        MailboxListing {
            next: mailboxes
                .last()
                .filter(|_| more)
                .map(|last| last.id.clone()),
            mailboxes,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn slot<'t>(&self, table: &'t mut Table, id: &Name) -> Result<&'t mut Slot, MailboxRefusal> {
        if !table.contains_key(id) && table.len() >= self.count_max {
            return Err(MailboxRefusal::Full(self.count_max));
        }
        Ok(table.entry(id.clone()).or_default())
    }

    fn tell(&self, table: &mut Table, id: &Name) {
        let Some(slot) = table.get(id) else { return };
        match slot.mailbox(id) {
            Some(mailbox) => {
                // A watcher that lags is brought up to date from the cache.
                let _ = self.topic.publish(mailbox);
            }
            None => {
                table.remove(id);
                self.topic.clear(id);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Slot {
    fn mailbox(&self, id: &Name) -> Option<Mailbox> {
        let published = self.published.as_ref().map(|(_, summary)| summary);
        let summary = published.or(self.set.as_ref())?.clone();
        let id = id.clone();
        Some(Mailbox { id, summary })
    }
}

impl Core {
    pub(super) fn mailboxes(&self) -> &Mailboxes {
        &self.parts.mailboxes
    }

    /// The mailbox of an account.
    pub(super) fn mailbox_of(&self, username: &str) -> Name {
        Name::new(&self.parts.directory.mailbox(username))
    }

    /// MSGCOUNT for an account; `None` when nobody has spoken of its mailbox.
    pub(super) fn message_count(&self, username: &str) -> Option<u16> {
        let mailbox = self.mailboxes().get(&self.mailbox_of(username))?;
        Some(mailbox.summary.iax2_count())
    }

    pub(super) fn set_mailbox(
        &self,
        id: &str,
        summary: MessageSummary,
    ) -> Result<bool, MailboxRefusal> {
        let set = self.mailboxes().set(id, summary);
        let counters = &self.counters().mailbox;
        match set {
            Ok(_) => counters.set.increment(),
            Err(_) => counters.refused.increment(),
        }
        set
    }

    pub(super) fn remove_mailbox(&self, id: &str) -> Result<bool, MailboxRefusal> {
        let removed = self.mailboxes().remove(id);
        let is_removed = removed == Ok(true);
        self.counters().mailbox.removed.add(u64::from(is_removed));
        removed
    }

    pub(super) fn list_mailboxes(&self, after: Option<&str>, limit: usize) -> MailboxListing {
        self.mailboxes().list(after, limit)
    }

    pub(super) fn mailbox_stats(&self) -> MailboxStats {
        let counters = &self.counters().mailbox;
        MailboxStats {
            mailbox_count: self.mailboxes().len() as u64,
            set: counters.set.get(),
            removed: counters.removed.get(),
            published: counters.published.get(),
            refused: counters.refused.get(),
        }
    }
}

/// Whether a mailbox may be called so.
pub(crate) fn is_mailbox_name(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+@".contains(c);
    (1..=MAILBOX_NAME_LEN_MAX).contains(&id.len()) && id.chars().all(plain)
}

type Table = BTreeMap<Name, Slot>;

const MAILBOX_NAME_LEN_MAX: usize = 64;
