//! What a running server takes when its configuration is read again: all of it, or nothing.

use super::{
    hints::{HintConfig, HintRefusal},
    lists::{ListConfig, ListRefusal},
};
use crate::server::{
    ServerConfig,
    core::Core,
    tenant::{tenant_config::TenantConfig, tenant_refusal::TenantRefusal},
    webhook::{WebhookConfig, WebhookRefusal},
};
use busyhour_registrar::RegistrationPolicy;
use std::sync::Arc;
use thiserror::Error;

/// The part of a [`ServerConfig`] that takes effect without a restart.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    registration: RegistrationPolicy,
    records_days: u32,
    records_max: u64,
    hints: Vec<HintConfig>,
    lists: Vec<ListConfig>,
    tenants: Vec<TenantConfig>,
    webhooks: Vec<(String, WebhookConfig)>,
}

/// Why a server cannot take a configuration beside what was set over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LiveRefusal {
    /// A domain.
    #[error("domain {0}: {1}")]
    Domain(String, TenantRefusal),
    /// A hint.
    #[error("hint {0}: {1}")]
    Hint(String, HintRefusal),
    /// A list.
    #[error("list {0}: {1}")]
    List(String, ListRefusal),
    /// A webhook.
    #[error("webhook {0}: {1}")]
    Webhook(String, WebhookRefusal),
}

impl From<ServerConfig> for LiveSettings {
    fn from(config: ServerConfig) -> Self {
        Self {
            registration: config.registration,
            records_days: config.calls.records_days,
            records_max: config.calls.records_max,
            hints: config.hints,
            lists: config.lists,
            tenants: config.tenants,
            webhooks: config.webhooks,
        }
    }
}

impl Core {
    /// Replaces what came of the configuration before, if all of this fits beside what was set
    /// over HTTP. What is set over HTTP meanwhile under the name of something here gives way.
    pub(in crate::server) fn reconfigure(
        self: &Arc<Self>,
        live: &LiveSettings,
    ) -> Result<(), LiveRefusal> {
        self.check_live(live)?;
        self.accounts.set_registration(&live.registration);
        self.call_log.keep(live.records_days, live.records_max);
        // First the domains, which extensions and lists may be of.
        self.reconfigure_tenants(&live.tenants);
        self.hints.replace_configured(&live.hints);
        self.watching.lists.replace_configured(&live.lists);
        self.webhooks.replace_configured(&live.webhooks);
        Ok(())
    }

    fn check_live(&self, live: &LiveSettings) -> Result<(), LiveRefusal> {
        let domains = self.tenants.planned(&live.tenants);
        let domains = domains.map_err(|(name, refusal)| LiveRefusal::Domain(name, refusal))?;
        for hint in &live.hints {
            let checked = self.hints.check_configured(hint, &domains);
            checked.map_err(|refusal| LiveRefusal::Hint(hint.extension.clone(), refusal))?;
        }
        let lists = self.watching.lists.planned(&live.lists, &domains);
        lists.map_err(|(name, refusal)| LiveRefusal::List(name, refusal))?;
        let webhooks = self.webhooks.check_configured(&live.webhooks);
        webhooks.map_err(|(name, refusal)| LiveRefusal::Webhook(name, refusal))
    }
}
