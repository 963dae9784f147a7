use super::{certificates::Certificates, trial_storm::TrialStorms};
use crate::{
    config::{self, Config, KEYS, Loaded, Overrides, Problems},
    logs::recent::RecentLog,
    server::{Accounts, Server},
    web::{
        Access, CertificatesApi, OperatorApi, ReloadReport, SettingView, StormPlan, StormRefusal,
        StormView,
    },
};
use busyhour_sip::auth::Secret;
use std::{
    borrow::Cow,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

/// The accounts of the configuration. A reload replaces all of them at once.
pub(super) struct Reloadable(RwLock<config::ConfiguredAccounts>);

impl Reloadable {
    pub(super) fn new(accounts: config::ConfiguredAccounts) -> Self {
        Self(RwLock::new(accounts))
    }

    fn replace(&self, accounts: config::ConfiguredAccounts) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = accounts;
    }
}

impl Accounts for Reloadable {
    fn secret(&self, username: &str) -> Option<Cow<'_, Secret>> {
        let accounts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        accounts.secret(username).cloned().map(Cow::Owned)
    }

    fn mailbox(&self, username: &str) -> Option<String> {
        let accounts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        accounts.mailbox(username).map(str::to_owned)
    }
}

/// Where a configuration comes from.
pub(super) struct ConfigSource {
    /// The file, if one was named.
    pub(super) file: Option<PathBuf>,
    /// The environment and the flags.
    pub(super) overrides: Overrides,
}

impl ConfigSource {
    pub(super) fn load(&self) -> Result<Loaded, Problems> {
        Config::load(self.file.as_deref(), &self.overrides)
    }
}

/// The configuration of a running server, and reading it again: on SIGHUP and over HTTP.
pub(super) struct Reloader {
    /// As it was at the start.
    pub(super) loaded: Loaded,
    pub(super) source: ConfigSource,
    pub(super) recent_log: Arc<RecentLog>,
    pub(super) accounts: Arc<Reloadable>,
    pub(super) access: Arc<Access>,
    pub(super) server: Server,
    pub(super) certificates: Arc<Certificates>,
    pub(super) storms: TrialStorms,
}

impl Reloader {
    /// Applies the accounts, tokens and certificates of the configuration as it is now, and names
    /// the settings that need a restart.
    ///
    /// # Errors
    ///
    /// All that is wrong with the configuration; then nothing has changed.
    pub(super) fn reload(&self) -> Result<ReloadReport, Problems> {
        let config = self.source.load().inspect_err(|problems| {
            tracing::error!(%problems, "the configuration was not reloaded");
        })?;
        let config = config.config;
        self.accounts.replace(config.accounts.clone());
        self.server.accounts_changed();
        self.access.replace_tokens(config.tokens.clone());
        let configured_accounts = config.accounts.len();
        tracing::info!(
            configured_accounts,
            stored_accounts = self.server.stored_account_count(),
            tokens = config.tokens.len(),
            "accounts read again"
        );
        // What is wrong is logged, too.
        let certificate_problem = self.certificates.reload().err();
        let changed = self.loaded.config.differences(&config);
        let needs_restart: Vec<_> = changed.map(str::to_owned).collect();
        for setting in &needs_restart {
            tracing::warn!(setting, "a changed setting needs a restart");
        }
        Ok(ReloadReport {
            configured_accounts,
            tokens: config.tokens.len() as u64,
            certificate_problem,
            needs_restart,
        })
    }
}

impl OperatorApi for Reloader {
    fn settings(&self) -> Vec<SettingView> {
        let view = |key: &config::SettingKey| SettingView {
            name: key.path,
            value: key.show(&self.loaded.config),
            origin: match self.loaded.origins.get(key.path) {
                Some(origin) => origin.to_string(),
                None => "default".to_owned(),
            },
            allowed: key.allowed.to_string(),
            help: key.help,
        };
        KEYS.iter().map(view).collect()
    }

    fn reload(&self) -> Result<ReloadReport, String> {
        self.reload().map_err(|problems| problems.to_string())
    }

    fn log(&self) -> &RecentLog {
        &self.recent_log
    }

    fn storm(&self) -> StormView {
        self.storms.view()
    }

    fn start_storm(&self, plan: StormPlan) -> Result<StormView, StormRefusal> {
        self.storms.start(plan)
    }
}
