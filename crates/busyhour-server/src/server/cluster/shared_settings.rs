//! Mailboxes, hints and lists that are set over HTTP at another node: the database tells of them.

use crate::server::core::Core;
use busyhour_store::{SettingKind, SettingRows};
use std::sync::{Arc, Mutex};

impl Core {
    /// Takes what is set at other nodes from now on; `known` is what this one has restored.
    pub(in crate::server) fn follow_settings(
        self: &Arc<Self>,
        known: impl Fn(SettingKind) -> SettingRows,
    ) {
        if self.cluster.is_none() {
            return;
        }
        for kind in KINDS {
            let (core, known) = (Arc::downgrade(self), Mutex::new(known(kind)));
            let learn = move |rows: &SettingRows| {
                let Some(core) = core.upgrade() else { return };
                let known = known.lock();
                let mut known = known.unwrap_or_else(|poisoned| poisoned.into_inner());
                core.take_settings(kind, &known, rows);
                known.clone_from(rows);
            };
            let store = self.persistence.store();
            store.watch_settings(kind, Box::new(learn));
        }
    }

    /// What this node has set itself changes nothing.
    fn take_settings(&self, kind: SettingKind, before: &SettingRows, rows: &SettingRows) {
        let gone = before.keys().filter(|name| !rows.contains_key(*name));
        let gone = gone.map(|name| (name, self.forget_setting(kind, name)));
        let new = rows
            .iter()
            .filter(|(name, value)| before.get(*name) != Some(value));
        let new = new.map(|(name, value)| (name, self.restore_setting(kind, name, value)));
        for (name, taken) in gone.chain(new) {
            if let Err(reason) = taken {
                let kind = kind.name();
                tracing::warn!(
                    kind,
                    name,
                    reason,
                    "a setting of another node has no effect"
                );
            }
        }
    }

    fn forget_setting(&self, kind: SettingKind, name: &str) -> Result<(), String> {
        match kind {
            SettingKind::Mailbox => self.mailboxes.forget(name),
            SettingKind::Hint => self.hints.forget(name),
            SettingKind::List => self.watching.lists.forget(name),
            _ => Ok(()),
        }
    }
}

/// Those that any node may be asked to set, and that watchers at all nodes are told of.
const KINDS: [SettingKind; 3] = [SettingKind::Mailbox, SettingKind::Hint, SettingKind::List];
