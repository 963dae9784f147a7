use super::{certificates::Certificates, serve::level_of, trial_storm::TrialStorms};
use crate::{
    config::{self, Config, KEYS, Loaded, Overrides, Problems},
    logs::{RunningLog, recent::RecentLog},
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
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
    time::Duration,
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
    /// As it was at the start, with what was taken since then.
    pub(super) in_effect: RwLock<Loaded>,
    /// One reload at a time.
    pub(super) reloading: Mutex<()>,
    pub(super) source: ConfigSource,
    pub(super) log: RunningLog,
    pub(super) accounts: Arc<Reloadable>,
    pub(super) access: Arc<Access>,
    pub(super) server: Server,
    pub(super) certificates: Arc<Certificates>,
    pub(super) storms: TrialStorms,
}

impl Reloader {
    /// Takes all of the configuration, as it is now, that a running server can take, and names the
    /// settings that need a restart.
    ///
    /// # Errors
    ///
    /// What is wrong with the configuration; then nothing has changed.
    pub(super) fn reload(&self) -> Result<ReloadReport, String> {
        let _one = self
            .reloading
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let report = self.take();
        if let Err(problems) = &report {
            tracing::error!(%problems, "the configuration was not reloaded");
        }
        report
    }

    fn take(&self) -> Result<ReloadReport, String> {
        let newer = self
            .source
            .load()
            .map_err(|problems| problems.to_string())?;
        let before = self.in_effect().config.clone();
        let taken = before.with_live_of(&newer.config);
        // The only part that may be refused.
        let live = taken.server().into();
        let reconfigured = self.server.reconfigure(&live);
        reconfigured.map_err(|refusal| refusal.to_string())?;
        self.take_access(&taken);
        self.log.set_level(level_of(&taken));
        let report = self.report(&before, &taken, &newer.config);
        self.note(taken, newer);
        Ok(report)
    }

    fn take_access(&self, taken: &Config) {
        self.accounts.replace(taken.accounts.clone());
        self.server.accounts_changed();
        self.access.replace_tokens(taken.tokens.clone());
        self.access.set_rate(taken.http.requests_per_second);
        tracing::info!(
            configured_accounts = taken.accounts.len(),
            stored_accounts = self.server.stored_account_count(),
            tokens = taken.tokens.len(),
            "accounts read again"
        );
    }

    fn report(&self, before: &Config, taken: &Config, newer: &Config) -> ReloadReport {
        // What is wrong is logged, too.
        let certificate_problem = self.certificates.reload().err();
        let changed: Vec<_> = before.differences(taken).map(str::to_owned).collect();
        for setting in &changed {
            tracing::info!(setting, "a changed setting is in effect");
        }
        let needs_restart: Vec<_> = taken.differences(newer).map(str::to_owned).collect();
        for setting in &needs_restart {
            tracing::warn!(setting, "a changed setting needs a restart");
        }
        ReloadReport {
            configured_accounts: taken.accounts.len(),
            tokens: taken.tokens.len() as u64,
            certificate_problem,
            changed,
            needs_restart,
        }
    }

    /// What is in effect now, and where it comes from.
    fn note(&self, taken: Config, newer: Loaded) {
        let mut in_effect = self
            .in_effect
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        in_effect.config = taken;
        for key in KEYS.iter().filter(|key| key.is_live()) {
            match newer.origins.get(key.path) {
                Some(origin) => _ = in_effect.origins.insert(key.path, origin.clone()),
                None => _ = in_effect.origins.remove(key.path),
            }
        }
    }

    /// How long a shutdown may take.
    pub(super) fn drain_time(&self) -> Duration {
        Duration::from_secs(self.in_effect().config.runtime.drain_seconds.into())
    }

    fn in_effect(&self) -> RwLockReadGuard<'_, Loaded> {
        self.in_effect
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl OperatorApi for Reloader {
    fn settings(&self) -> Vec<SettingView> {
        let in_effect = self.in_effect();
        let view = |key: &config::SettingKey| SettingView {
            name: key.path,
            value: key.show(&in_effect.config),
            origin: match in_effect.origins.get(key.path) {
                Some(origin) => origin.to_string(),
                None => "default".to_owned(),
            },
            allowed: key.allowed.to_string(),
            help: key.help,
            live: key.is_live(),
        };
        KEYS.iter().map(view).collect()
    }

    fn reload(&self) -> Result<ReloadReport, String> {
        self.reload()
    }

    fn log(&self) -> &RecentLog {
        &self.log.recent
    }

    fn storm(&self) -> StormView {
        self.storms.view()
    }

    fn start_storm(&self, plan: StormPlan) -> Result<StormView, StormRefusal> {
        self.storms.start(plan)
    }
}
