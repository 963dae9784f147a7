//! Every mailbox that was set or published, with its message counts.
//!
//! Counts that are set over HTTP are stored, and last until they are set again or
//! removed. A device's publication overrides them as long as it lives (RFC 3903 calls
//! the two hard and soft state).
//!
//! The table's lock is held while a change is given to the store and published, so that
//! two changes of a mailbox keep their order.

use super::{overtaken::unless, setting_source::SettingSource};
use crate::server::{
    ServerConfig,
    access::account_policy::AccountPolicy,
    change::{changes::Changes, record},
    persistence::Persistence,
    stats::{MailboxStats, counters::MailboxCounters, listing::NamedPage},
};
use busyhour::{
    bus::{Name, Topic},
    runtime::Runtime,
};
use busyhour_registrar::watch::{Mailbox, MessageSummary};
use busyhour_store::{Change, Completion, MAILBOX_RULE, Refused, SettingKind, is_mailbox_name};
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Arc, Mutex, MutexGuard},
};
use thiserror::Error;

/// The table of mailboxes, in the order of their names.
pub(in crate::server) struct Mailboxes {
    topic: Topic<Mailbox>,
    table: Mutex<MailboxTable>,
    counters: MailboxCounters,
    count_max: usize,
    /// They name the mailbox of an account.
    accounts: Arc<AccountPolicy>,
    persistence: Arc<Persistence>,
    changes: Arc<Changes>,
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
    pub(in crate::server) fn new(
        runtime: &Runtime,
        config: &ServerConfig,
        accounts: Arc<AccountPolicy>,
        persistence: Arc<Persistence>,
        changes: Arc<Changes>,
    ) -> Self {
        Self {
            topic: runtime.topic("mailbox").cached().build(),
            table: Mutex::default(),
            counters: MailboxCounters::default(),
            count_max: config.limits.mailboxes_max,
            accounts,
            persistence,
            changes,
        }
    }

    pub(in crate::server) fn topic(&self) -> &Topic<Mailbox> {
        &self.topic
    }

    /// What waits in a mailbox.
    pub(in crate::server) fn get(&self, id: &Name) -> Option<Mailbox> {
        self.topic.get(id)
    }

    /// The mailbox of an account.
    pub(in crate::server) fn of(&self, username: &str) -> Name {
        Name::new(&self.accounts.directory.mailbox(username))
    }

    /// The account that has an address of record.
    pub(in crate::server) fn account_of<'a>(&self, aor: &'a str) -> &'a str {
        self.accounts.account_of(aor)
    }

    /// MSGCOUNT for an account; `None` if nothing is known of its mailbox.
    pub(in crate::server) fn message_count(&self, username: &str) -> Option<u16> {
        Some(self.get(&self.of(username))?.summary.iax2_count())
    }

    /// Takes a stored setting back in, unless a later change is on its way. One that is set here
    /// already is told to nobody again.
    pub(in crate::server) fn restore(
        &self,
        id: &str,
        value: &str,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let summary: MessageSummary =
            serde_json::from_str(value).map_err(|error| error.to_string())?;
        if self.has(id, &summary) {
            return Ok(());
        }
        let set = self.put(id, summary, SettingSource::Store, |_| unless(is_overtaken));
        set.map(drop).map_err(|refusal| refusal.to_string())
    }

    /// Whether this is what HTTP has set.
    fn has(&self, id: &str, summary: &MessageSummary) -> bool {
        let table = self.lock();
        let slot = table.slots.get(&Name::new(id));
        slot.is_some_and(|slot| slot.set.as_deref() == Some(summary))
    }

    /// Sets and stores the message counts of a mailbox; returns whether they were not
    /// set before.
    pub(in crate::server) fn set(
        &self,
        id: &str,
        summary: MessageSummary,
        done: Completion,
    ) -> Result<bool, MailboxRefusal> {
        let set = self.put(id, summary, SettingSource::Request, |summary| {
            let put = Change::PutSetting {
                kind: SettingKind::Mailbox,
                name: id.to_owned(),
                value: serde_json::to_string(summary).unwrap_or_default(),
            };
            self.persistence.store().commit(vec![put], done)
        });
        match set {
            Ok(_) => self.counters.set.increment(),
            Err(_) => self.counters.refused.increment(),
        }
        set
    }

    fn put(
        &self,
        id: &str,
        summary: MessageSummary,
        source: SettingSource,
        keep: impl FnOnce(&MessageSummary) -> Result<(), Refused>,
    ) -> Result<bool, MailboxRefusal> {
        if !is_mailbox_name(id) {
            return Err(MailboxRefusal::Name);
        }
        let summary = summary.checked().map_err(MailboxRefusal::Summary)?;
        let id = Name::new(id);
        let mut table = self.lock();
        self.make_room(&table, &id, source)?;
        keep(&summary)?;
        let slot = table.slots.entry(id.clone()).or_default();
        let is_new = slot.set.replace(Arc::new(summary)).is_none();
        self.tell(&mut table, &id);
        Ok(is_new)
    }

    /// Removes the message counts, here and from the store; `false` if nothing is known
    /// of the mailbox.
    pub(in crate::server) fn remove(
        &self,
        id: &str,
        done: Completion,
    ) -> Result<bool, MailboxRefusal> {
        let keep = || {
            let forget = Change::RemoveSetting {
                kind: SettingKind::Mailbox,
                name: id.to_owned(),
            };
            self.persistence.store().commit(vec![forget], done)
        };
        let is_removed = self.try_remove(id, keep)?;
        if is_removed {
            self.counters.removed.increment();
        }
        Ok(is_removed)
    }

    /// As [`remove`](Self::remove), for what is not in the store any more, unless a later change is
    /// on its way.
    pub(in crate::server) fn forget(&self, id: &str, is_overtaken: &dyn Fn() -> bool) {
        // What is refused was not set over HTTP here.
        let _ = self.try_remove(id, || unless(is_overtaken));
    }

    fn try_remove(
        &self,
        id: &str,
        keep: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<bool, MailboxRefusal> {
        let mut table = self.lock();
        let name = Name::new(id);
        let Some(slot) = table.slots.get_mut(&name) else {
            return Ok(false);
        };
        if slot.set.is_none() {
            return Err(MailboxRefusal::Published);
        }
        keep()?;
        slot.set = None;
        self.tell(&mut table, &name);
        Ok(true)
    }

    /// Sets what a device publishes for the mailbox of its account, in place of any
    /// other mailbox; `None` removes its publication.
    pub(in crate::server) fn publish(&self, device: &Name, summary: Option<Arc<MessageSummary>>) {
        let id = self.of(self.accounts.account_of(device));
        match self.put_published(&id, device, summary) {
            true => self.counters.published.increment(),
            false => self.counters.refused.increment(),
        }
    }

    /// The same for this mailbox; `false` if there is no room.
    fn put_published(&self, id: &Name, by: &Name, summary: Option<Arc<MessageSummary>>) -> bool {
        let mut table = self.lock();
        let before = table.published.get(by).cloned();
        if let Some(before) = before.filter(|before| before != id || summary.is_none()) {
            self.take_back(&mut table, &before, by);
        }
        let Some(summary) = summary else { return true };
        if self.make_room(&table, id, SettingSource::Request).is_err() {
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

    /// Whether a device may publish the mailbox of its account.
    pub(in crate::server) fn has_room_for(&self, device: &Name) -> bool {
        let id = self.of(self.accounts.account_of(device));
        self.make_room(&self.lock(), &id, SettingSource::Request)
            .is_ok()
    }

    fn take_back(&self, table: &mut MailboxTable, id: &Name, by: &Name) {
        table.published.remove(by);
        if let Some(slot) = table.slots.get_mut(id) {
            slot.published.retain(|(owner, _)| owner != by);
        }
        self.tell(table, id);
    }

    /// The names of those that HTTP has set.
    pub(in crate::server) fn set_names(&self) -> Vec<String> {
        let table = self.lock();
        let set = table.slots.iter().filter(|(_, slot)| slot.set.is_some());
        set.map(|(id, _)| id.to_string()).collect()
    }

    pub(in crate::server) fn list(
        &self,
        after: Option<&str>,
        limit: usize,
        domain: Option<&str>,
    ) -> NamedPage<Mailbox> {
        NamedPage::of(&self.lock().slots, after, limit, domain, |id, slot| {
            slot.mailbox(id)
        })
    }

    pub(in crate::server) fn stats(&self) -> MailboxStats {
        MailboxStats {
            mailbox_count: self.lock().slots.len() as u64,
            set: self.counters.set.get(),
            removed: self.counters.removed.get(),
            published: self.counters.published.get(),
            refused: self.counters.refused.get(),
        }
    }

    fn make_room(
        &self,
        table: &MailboxTable,
        id: &Name,
        source: SettingSource,
    ) -> Result<(), MailboxRefusal> {
        let count_max = source.count_max(self.count_max);
        match table.slots.len() >= count_max && !table.slots.contains_key(id) {
            true => Err(MailboxRefusal::Full(self.count_max)),
            false => Ok(()),
        }
    }

    fn tell(&self, table: &mut MailboxTable, id: &Name) {
        let Some(slot) = table.slots.get(id) else {
            return;
        };
        let mailbox = slot.mailbox(id);
        let told = || record::mailbox(id, true, mailbox.as_ref());
        self.changes.mailboxes.tell(told);
        match mailbox {
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

    /// Tells what waits in the next mailboxes behind this one to those who read changes;
    /// returns the last of them.
    pub(in crate::server) fn tell_states(&self, after: Option<&Name>) -> Option<Name> {
        let table = self.lock();
        let behind = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = table.slots.range((behind, Bound::Unbounded));
        let mut last = None;
        for (id, slot) in next.take(PORTION_LEN) {
            let mailbox = slot.mailbox(id);
            let told = || record::mailbox(id, false, mailbox.as_ref());
            self.changes.mailboxes.tell(told);
            last = Some(id.clone());
        }
        last
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

/// Mailboxes whose states are told at a time.
const PORTION_LEN: usize = 1000;
