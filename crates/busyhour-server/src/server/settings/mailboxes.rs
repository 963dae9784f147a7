//! Every mailbox that was set or published, with its message counts.
//!
//! Counts that are set over HTTP are stored, and last until they are set again or
//! removed. A device's publication overrides them as long as it lives (RFC 3903 calls
//! the two hard and soft state).
//!
//! The table's lock is held while a change is given to the store and published, so that
//! two changes of a mailbox keep their order.

use crate::server::{
    access::accounts::Difference,
    core::Core,
    stats::{MailboxStats, listing::NamedPage},
};
use busyhour::bus::{Name, Topic};
use busyhour_registrar::{
    user_of,
    watch::{End, Mailbox, MessageSummary, Package},
};
use busyhour_store::{Change, Completion, MAILBOX_RULE, Refused, SettingKind, is_mailbox_name};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};
use thiserror::Error;

/// The table of mailboxes, in the order of their names.
pub(in crate::server) struct Mailboxes {
    topic: Topic<Mailbox>,
    table: Mutex<MailboxTable>,
    count_max: usize,
}

#[derive(Default)]
struct MailboxTable {
    slots: BTreeMap<Name, Slot>,
    /// The mailbox that each device publishes now: the account's mailbox may change.
    published: BTreeMap<Name, Name>,
}

/// Why a mailbox is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MailboxRefusal {
    /// The name is none.
    #[error("a mailbox has a name of {MAILBOX_RULE}")]
    Name,
    /// Its content cannot be sent to a watcher.
    #[error("{0}")]
    Summary(&'static str),
    /// Nothing was set, but a device publishes the mailbox.
    #[error("only a device publishes this mailbox: it ends with the publication")]
    Published,
    /// There are as many as may be.
    #[error("there are {0} mailboxes already: remove some, or raise limits.mailboxes")]
    Full(usize),
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] Refused),
}

#[derive(Default)]
struct Slot {
    set: Option<Arc<MessageSummary>>,
    /// The addresses of record that publish it; the one that began last counts.
    published: Vec<(Name, Arc<MessageSummary>)>,
}

impl Mailboxes {
    pub(in crate::server) fn new(topic: Topic<Mailbox>, count_max: usize) -> Self {
        Self {
            topic,
            table: Mutex::default(),
            count_max,
        }
    }

    pub(in crate::server) fn topic(&self) -> &Topic<Mailbox> {
        &self.topic
    }

    /// What waits in a mailbox.
    pub(in crate::server) fn get(&self, id: &Name) -> Option<Mailbox> {
        self.topic.get(id)
    }

    /// Sets the message counts of a mailbox if `keep` accepts them; returns whether
    /// they were not set before.
    fn set(
        &self,
        id: &str,
        summary: MessageSummary,
        keep: impl FnOnce(&MessageSummary) -> Result<(), Refused>,
    ) -> Result<bool, MailboxRefusal> {
        if !is_mailbox_name(id) {
            return Err(MailboxRefusal::Name);
        }
        let summary = summary.checked().map_err(MailboxRefusal::Summary)?;
        let id = Name::new(id);
        let mut table = self.lock();
        self.make_room(&table, &id)?;
        keep(&summary)?;
        let slot = table.slots.entry(id.clone()).or_default();
        let is_new = slot.set.replace(Arc::new(summary)).is_none();
        self.tell(&mut table, &id);
        Ok(is_new)
    }

    /// Removes the message counts if `keep` accepts that; `false` if nothing is known
    /// of the mailbox.
    fn remove(
        &self,
        id: &str,
        keep: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<bool, MailboxRefusal> {
        let mut table = self.lock();
        let id = Name::new(id);
        let Some(slot) = table.slots.get_mut(&id) else {
            return Ok(false);
        };
        if slot.set.is_none() {
            return Err(MailboxRefusal::Published);
        }
        keep()?;
        slot.set = None;
        self.tell(&mut table, &id);
        Ok(true)
    }

    /// Sets what the device `by` publishes for a mailbox, in place of any other
    /// mailbox; `None` removes its publication. `false` if there is no room.
    pub(in crate::server) fn publish(
        &self,
        id: &Name,
        by: &Name,
        summary: Option<Arc<MessageSummary>>,
    ) -> bool {
        let mut table = self.lock();
        let before = table.published.get(by).cloned();
        if let Some(before) = before.filter(|before| before != id || summary.is_none()) {
            self.take_back(&mut table, &before, by);
        }
        let Some(summary) = summary else { return true };
        if self.make_room(&table, id).is_err() {
            return false;
        }
        table.published.insert(by.clone(), id.clone());
        let published = &mut table.slots.entry(id.clone()).or_default().published;
        match published.iter_mut().find(|(owner, _)| owner == by) {
            Some((_, known)) => *known = summary,
            None => published.push((by.clone(), summary)),
        }
        self.tell(&mut table, id);
        true
    }

    /// Whether a device may speak of a mailbox.
    pub(in crate::server) fn has_room_for(&self, id: &Name) -> bool {
        self.make_room(&self.lock(), id).is_ok()
    }

    fn take_back(&self, table: &mut MailboxTable, id: &Name, by: &Name) {
        table.published.remove(by);
        if let Some(slot) = table.slots.get_mut(id) {
            slot.published.retain(|(owner, _)| owner != by);
        }
        self.tell(table, id);
    }

    fn list(&self, after: Option<&str>, limit: usize) -> NamedPage<Mailbox> {
        NamedPage::of(&self.lock().slots, after, limit, |id, slot| {
            slot.mailbox(id)
        })
    }

    pub(in crate::server) fn len(&self) -> usize {
        self.lock().slots.len()
    }

    fn make_room(&self, table: &MailboxTable, id: &Name) -> Result<(), MailboxRefusal> {
        match table.slots.len() >= self.count_max && !table.slots.contains_key(id) {
            true => Err(MailboxRefusal::Full(self.count_max)),
            false => Ok(()),
        }
    }

    fn tell(&self, table: &mut MailboxTable, id: &Name) {
        let Some(slot) = table.slots.get(id) else {
            return;
        };
        match slot.mailbox(id) {
            Some(mailbox) => {
                // A watcher that lags is brought up to date from the cache.
                let _ = self.topic.publish(mailbox);
            }
            None => {
                table.slots.remove(id);
                let _ = self.topic.remove(id);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, MailboxTable> {
        self.table
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Slot {
    fn mailbox(&self, id: &Name) -> Option<Mailbox> {
        let published = self.published.last().map(|(_, summary)| summary);
        let summary = published.or(self.set.as_ref())?.clone();
        let id = id.clone();
        Some(Mailbox { id, summary })
    }
}

impl Core {
    pub(in crate::server) fn mailboxes(&self) -> &Mailboxes {
        &self.parts.mailboxes
    }

    /// The mailbox of an account.
    pub(in crate::server) fn mailbox_of(&self, username: &str) -> Name {
        Name::new(&self.parts.accounts.directory.mailbox(username))
    }

    /// MSGCOUNT for an account; `None` if nothing is known of its mailbox.
    pub(in crate::server) fn message_count(&self, username: &str) -> Option<u16> {
        let mailbox = self.mailboxes().get(&self.mailbox_of(username))?;
        Some(mailbox.summary.iax2_count())
    }

    /// Takes a stored setting back in.
    pub(in crate::server) fn restore_mailbox(&self, id: &str, value: &str) -> Result<(), String> {
        let summary = serde_json::from_str(value).map_err(|error| error.to_string())?;
        let set = self.mailboxes().set(id, summary, |_| Ok(()));
        set.map(drop).map_err(|refusal| refusal.to_string())
    }

    pub(in crate::server) fn set_mailbox(
        &self,
        id: &str,
        summary: MessageSummary,
        done: Completion,
    ) -> Result<bool, MailboxRefusal> {
        let set = self.mailboxes().set(id, summary, |summary| {
            let put = Change::PutSetting {
                kind: SettingKind::Mailbox,
                name: id.to_owned(),
                value: serde_json::to_string(summary).unwrap_or_default(),
            };
            self.store().commit(vec![put], done)
        });
        let counters = &self.counters().mailbox;
        match set {
            Ok(_) => counters.set.increment(),
            Err(_) => counters.refused.increment(),
        }
        set
    }

    pub(in crate::server) fn remove_mailbox(
        &self,
        id: &str,
        done: Completion,
    ) -> Result<bool, MailboxRefusal> {
        let removed = self.mailboxes().remove(id, || {
            let forget = Change::RemoveSetting {
                kind: SettingKind::Mailbox,
                name: id.to_owned(),
            };
            self.store().commit(vec![forget], done)
        });
        let is_removed = removed == Ok(true);
        self.counters().mailbox.removed.add(u64::from(is_removed));
        removed
    }

    /// Asks the watchers of accounts whose mailbox has changed to subscribe again.
    pub(in crate::server) fn move_mailboxes(&self, differences: &[Difference]) {
        let moved = differences.iter().filter(|difference| difference.has_moved);
        let moved: HashSet<&str> = moved.map(|difference| &*difference.username).collect();
        if moved.is_empty() {
            return;
        }
        for watcher in self.watchers().all() {
            if watcher.package() == Package::MessageSummary
                && moved.contains(user_of(&watcher.device()))
            {
                watcher.push_end(End::Deactivated);
            }
        }
    }

    pub(in crate::server) fn list_mailboxes(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> NamedPage<Mailbox> {
        self.mailboxes().list(after, limit)
    }

    pub(in crate::server) fn mailbox_stats(&self) -> MailboxStats {
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
