//! Domains, seen and changed while the server runs.
//!
//! A domain that comes makes the accounts of its realm known: their hints, aliases and names.
//! One that goes ends what they have. Both are told as if the accounts themselves had come or
//! gone.

use super::{
    tenant_config::TenantConfig,
    tenant_refusal::TenantRefusal,
    tenant_view::{TenantStats, TenantView},
    tenants::TenantState,
};
use crate::server::{Server, core::Core};
use busyhour_store::{Change, Completion, SettingKind, SettingRows};
use std::sync::Arc;

impl Server {
    /// Every domain with settings of its own, by name, and what it has.
    pub fn tenants(&self) -> Vec<TenantView> {
        let all = self.core.tenants.all();
        all.iter()
            .map(|state| self.core.tenant_view(state))
            .collect()
    }

    /// A domain with settings of its own, and what it has.
    pub fn tenant(&self, name: &str) -> Option<TenantView> {
        let state = self.core.tenants.find(name)?;
        Some(self.core.tenant_view(&state))
    }

    /// Sets a domain up and stores it; returns whether it is new. It is in effect at once.
    ///
    /// # Errors
    ///
    /// See [`TenantRefusal`]; then `done` is dropped without having been called.
    pub fn put_tenant(
        &self,
        config: TenantConfig,
        done: Completion,
    ) -> Result<bool, TenantRefusal> {
        let core = &self.core;
        let name = config.name.clone();
        core.change_tenants(std::slice::from_ref(&name), || {
            core.tenants.set(config, |value| {
                let (kind, name) = (SettingKind::Domain, name.clone());
                let put = Change::PutSetting { kind, name, value };
                core.persistence.store().commit(vec![put], done)
            })
        })
    }

    /// Removes a domain; `false` if there is none. What its accounts have registered ends, and
    /// the accounts stay in the store.
    ///
    /// # Errors
    ///
    /// See [`TenantRefusal`]; then `done` is dropped without having been called.
    pub fn remove_tenant(&self, name: &str, done: Completion) -> Result<bool, TenantRefusal> {
        let core = &self.core;
        core.change_tenants(&[name.to_owned()], || {
            core.tenants.remove(name, || {
                let (kind, name) = (SettingKind::Domain, name.to_owned());
                let forget = Change::RemoveSetting { kind, name };
                core.persistence.store().commit(vec![forget], done)
            })
        })
    }
}

impl Core {
    /// Takes the domains of the store, which any program may change.
    pub(in crate::server) fn follow_tenants(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        let learn = move |rows: &SettingRows| {
            if let Some(core) = core.upgrade() {
                let changed = core.tenants.changed_by(rows);
                if !changed.is_empty() {
                    core.change_tenants(&changed, || core.tenants.replace_stored(rows));
                }
            }
        };
        let store = self.persistence.store();
        store.watch_settings(SettingKind::Domain, Box::new(learn));
    }

    /// Takes the domains of a configuration that was read again.
    pub(in crate::server) fn reconfigure_tenants(self: &Arc<Self>, configured: &[TenantConfig]) {
        let changed = self.tenants.reconfigured(configured);
        if !changed.is_empty() {
            self.change_tenants(&changed, || self.tenants.replace_configured(configured));
        }
    }

    /// Changes domains of these names, and tells what follows for their accounts.
    fn change_tenants<R>(self: &Arc<Self>, names: &[String], change: impl FnOnce() -> R) -> R {
        let directory = &self.accounts.directory;
        let realms = || {
            let states = names.iter().filter_map(|name| self.tenants.find(name));
            let own = states.filter(|state| !state.tenant.has_server_accounts);
            own.map(|state| state.tenant.realm.clone())
                .collect::<Vec<_>>()
        };
        let before = realms();
        let gone = before
            .iter()
            .flat_map(|realm| directory.differences_without(realm));
        let gone: Vec<_> = gone.collect();
        let changed = change();
        directory.follow_aliases(&gone);
        self.hints.follow_accounts(&gone);
        directory.rules_changed();
        let new = realms();
        let new = new
            .iter()
            .flat_map(|realm| directory.differences_with(realm));
        let new: Vec<_> = new.collect();
        directory.follow_aliases(&new);
        self.hints.follow_accounts(&new);
        for name in names {
            self.bound_tenant(name);
        }
        // Who is gone, and who may watch whom, is looked at anew.
        self.revoke();
        self.count_contacts();
        changed
    }

    /// Gives the parts the quotas of a domain; without one, its share.
    pub(in crate::server) fn bound_tenant(&self, name: &str) {
        let state = self.tenants.find(name);
        let config = state.as_ref().map(|state| &state.config);
        let holder = self.holders.of_domain(name);
        let watchers = config.and_then(|config| config.max_watchers);
        self.watchers.shares().bound_domain(holder, watchers);
        let bytes = config.and_then(|config| config.memory_kib);
        let bytes = bytes.map(|kib| kib.saturating_mul(1024));
        let memory = self.responder.transactions().memory();
        let rooms = [self.watchers.notifies(), self.calls.room.memory()];
        for shares in memory.into_iter().chain(rooms) {
            shares.bound_domain(holder, bytes);
        }
    }

    fn tenant_view(&self, state: &TenantState) -> TenantView {
        let mut view = state.view();
        let realm = match state.tenant.has_server_accounts {
            true => self.accounts.directory.realm(),
            false => &state.tenant.realm,
        };
        view.used.account_count = self.accounts.directory.count_of(realm) as u64;
        view.used.watcher_count = self.watchers.shares().held_by_domain(state.holder);
        let memory = self.responder.transactions().memory();
        let rooms = [self.watchers.notifies(), self.calls.room.memory()];
        let held = memory.into_iter().chain(rooms);
        let held = held.map(|shares| shares.held_by_domain(state.holder));
        view.used.memory_bytes = held.sum();
        view
    }

    /// What each domain has.
    pub(in crate::server) fn tenant_stats(&self) -> Vec<TenantStats> {
        let all = self.tenants.all();
        let stats = all.iter().map(|state| TenantStats {
            name: state.config.name.clone(),
            used: self.tenant_view(state).used,
        });
        stats.collect()
    }
}
