//! A domain as a person or a program sets it up: a `[[domain]]` of the file, or the body of a
//! request.

use super::tenant_refusal::TenantRefusal;
use busyhour_registrar::{Domains, Tenant, UserNames};
use busyhour_sip::{Host, auth::Authenticator};
use busyhour_store::{WATCHER_RULE, is_domain, is_watcher};
use serde::{Deserialize, Serialize};

/// A domain with settings of its own.
///
/// ```
/// use busyhour_server::server::TenantConfig;
///
/// let config: TenantConfig = serde_json::from_str(r#"{"name": "a.example"}"#)?;
/// assert_eq!(config.mistakes(), Vec::<String>::new());
/// let bad = TenantConfig { name: "A example".into(), ..config };
/// assert!(bad.mistakes()[0].starts_with("name: "));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TenantConfig {
    /// The host of its addresses of record, in lower case. A domain of `sip.domains` keeps the
    /// accounts of the server; any other one has its own.
    pub name: String,
    /// The realm of its challenges; by default its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realm: Option<String>,
    /// Other hosts that mean the same domain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Whether upper and lower case of users mean the same.
    #[serde(skip_serializing_if = "is_false")]
    pub fold_case: bool,
    /// Whether telephone numbers are the same with separators and without.
    #[serde(skip_serializing_if = "is_false")]
    pub phone_numbers: bool,
    /// The country code that `0` before a number stands for; `00` stands for `+`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub country_code: String,
    /// Who may watch its users besides its own accounts: `user@domain`, `@domain` or `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watchers: Vec<String>,
    /// Accounts that the store may have for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_accounts: Option<u64>,
    /// Contacts of all its accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_contacts: Option<u64>,
    /// Subscriptions of all its accounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_watchers: Option<u64>,
    /// Calls at a time that its accounts have begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u64>,
    /// Registrations in a second, and ten times as many at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registrations_per_second: Option<u64>,
    /// Packet memory in KiB for each purpose: kept answers, requests in work, NOTIFYs, calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_kib: Option<u64>,
}

impl TenantConfig {
    /// All that is wrong with it by itself.
    pub fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let hosts = self.aliases.iter().map(|alias| ("aliases", alias));
        for (field, host) in [("name", &self.name)].into_iter().chain(hosts) {
            if !is_domain(host) {
                mistakes.push(format!(
                    "{field}: `{host}`: give a host name in lower case, or an IP address"
                ));
            }
        }
        if self.aliases.len() > ALIASES_MAX {
            mistakes.push(format!("aliases: give at most {ALIASES_MAX}"));
        }
        if Authenticator::new(self.realm(), [0; 32], &[]).is_err() {
            mistakes.push("realm: give visible characters without quotes and backslashes".into());
        }
        if !self.country_code.bytes().all(|byte| byte.is_ascii_digit())
            || self.country_code.len() > 3
        {
            mistakes.push("country_code: give 1 to 3 digits".into());
        }
        if !self.country_code.is_empty() && !self.phone_numbers {
            mistakes.push("country_code: it needs phone_numbers = true".into());
        }
        let is_far =
            |watcher: &&String| !is_watcher(watcher) || **watcher != "*" && !watcher.contains('@');
        if let Some(watcher) = self.watchers.iter().find(is_far) {
            mistakes.push(format!(
                "watchers: `{watcher}`: give {WATCHER_RULE}; users of the domain itself may watch"
            ));
        }
        if self.watchers.len() > WATCHERS_MAX {
            mistakes.push(format!("watchers: give at most {WATCHERS_MAX}"));
        }
        mistakes
    }

    /// Whether it fits beside other domains, on a server with these hosts and this realm.
    ///
    /// # Errors
    ///
    /// Which of them is in its way.
    pub fn check_beside<'o>(
        &self,
        others: impl IntoIterator<Item = &'o Self>,
        own_hosts: &[String],
        own_realm: &str,
    ) -> Result<(), TenantRefusal> {
        let is_own = |host: &str| own_hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        if let Some(alias) = self.aliases.iter().find(|alias| is_own(alias)) {
            return Err(TenantRefusal::OwnHost(alias.clone()));
        }
        let has_own_accounts = |one: &Self| !is_own(&one.name);
        if has_own_accounts(self) && self.realm() == own_realm {
            let whose = "the server (sip.realm)".to_owned();
            return Err(TenantRefusal::Realm(own_realm.to_owned(), whose));
        }
        for other in others {
            if let Some(host) = self
                .hosts()
                .find(|host| other.hosts().any(|own| own == *host))
            {
                return Err(TenantRefusal::Host(host.clone(), other.name.clone()));
            }
            let both = has_own_accounts(self) && has_own_accounts(other);
            if both && other.realm() == self.realm() {
                let whose = format!("the domain `{}`", other.name);
                return Err(TenantRefusal::Realm(self.realm().to_owned(), whose));
            }
        }
        Ok(())
    }

    /// The realm of its challenges.
    pub fn realm(&self) -> &str {
        self.realm.as_deref().unwrap_or(&self.name)
    }

    /// How the registrar sees it, beside these domains.
    pub(in crate::server) fn tenant(&self, domains: &Domains) -> Tenant {
        let is_ours = |host: &String| host.eq_ignore_ascii_case(&self.name);
        Tenant {
            name: self.name.clone(),
            realm: self.realm().to_owned(),
            aliases: self.aliases.clone(),
            has_server_accounts: domains.hosts().iter().any(is_ours),
            names: UserNames {
                fold_case: self.fold_case,
                phone_numbers: self.phone_numbers,
                country_code: self.country_code.clone(),
            },
        }
    }

    /// Its name and aliases.
    pub(in crate::server) fn hosts(&self) -> impl Iterator<Item = &String> {
        [&self.name].into_iter().chain(&self.aliases)
    }

    /// Whether a host is one of the server's, whatever the tenants are.
    pub(in crate::server) fn is_host_of(domains: &Domains, host: &str) -> bool {
        let own = Domains::new(domains.hosts().iter().cloned());
        !own.are_all() && own.contain(&Host::Name(host))
    }
}

fn is_false(value: &bool) -> bool {
    !*value
}

const ALIASES_MAX: usize = 64;
const WATCHERS_MAX: usize = 256;
