//! Mailboxes, hints and lists that are set over HTTP at any node: the database has the order in which
//! they were set, and each node ends with what was set last.

use crate::server::core::Core;
use busyhour_store::{SettingFollower, SettingKind, SettingRefused};
use std::sync::{Arc, Weak};

impl Core {
    /// Takes what is set at any node from now on; this one has restored all of `revision`, or with
    /// `None` not all that the store has.
    pub(in crate::server) fn follow_settings(self: &Arc<Self>, revision: Option<u64>) {
        if self.cluster.is_some() {
            let follower = CoreSettingFollower(Arc::downgrade(self));
            let store = self.persistence.store();
            store.follow_settings(revision, Box::new(follower));
        }
    }

    fn take_setting(
        &self,
        kind: SettingKind,
        name: &str,
        value: Option<&str>,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Result<(), SettingRefused> {
        let Some(value) = value else {
            self.forget_setting(kind, name, is_overtaken);
            return Ok(());
        };
        let restored = self.restore_setting(kind, name, value, is_overtaken);
        restored.map_err(SettingRefused)
    }

    fn forget_setting(&self, kind: SettingKind, name: &str, is_overtaken: &dyn Fn() -> bool) {
        match kind {
            SettingKind::Mailbox => self.mailboxes.forget(name, is_overtaken),
            SettingKind::Hint => self.hints.forget(name, is_overtaken),
            SettingKind::List => self.watching.lists.forget(name, is_overtaken),
            _ => {}
        }
    }
}

struct CoreSettingFollower(Weak<Core>);

impl SettingFollower for CoreSettingFollower {
    fn kinds(&self) -> &[SettingKind] {
        &KINDS
    }

    fn names(&self, kind: SettingKind) -> Vec<String> {
        let Some(core) = self.0.upgrade() else {
            return Vec::new();
        };
        match kind {
            SettingKind::Mailbox => core.mailboxes.set_names(),
            SettingKind::Hint => core.hints.set_names(),
            SettingKind::List => core.watching.lists.set_names(),
            _ => Vec::new(),
        }
    }

    fn take(
        &self,
        kind: SettingKind,
        name: &str,
        value: Option<&str>,
        is_overtaken: &dyn Fn() -> bool,
    ) -> Result<(), SettingRefused> {
        let core = self.0.upgrade();
        core.map_or(Ok(()), |core| {
            core.take_setting(kind, name, value, is_overtaken)
        })
    }

    fn caught_up(&self) {
        if let Some(core) = self.0.upgrade() {
            core.watching.lists.judge_loops();
        }
    }
}

/// Those that any node may be asked to set, and that watchers at all nodes are told of.
const KINDS: [SettingKind; 3] = [SettingKind::Mailbox, SettingKind::Hint, SettingKind::List];
