//! The domains whose addresses of record are ours, and those among them that have accounts
//! of their own.
//!
//! Tenants come and go while the server runs, so all clones of a [`Domains`] share one table
//! of them, which is replaced as a whole. While there is none, nothing but one flag is read.

use super::Tenant;
use crate::registrar::user_of;
use busyhour_sip::{Host, Uri};
use std::{
    borrow::Cow,
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The hosts whose addresses of record are ours.
///
/// An account is named by the user part of its address of record; an account of a
/// [`Tenant`], by `user@domain`.
#[derive(Debug, Clone, Default)]
pub struct Domains {
    hosts: Vec<String>,
    /// The host of users that are named without a host, if there are no domains.
    home: Option<String>,
    tenants: Arc<SharedTenants>,
}

#[derive(Debug, Default)]
struct SharedTenants {
    are_any: AtomicBool,
    table: RwLock<Arc<TenantTable>>,
    /// The account that is meant, by another name of it.
    aliases: RwLock<HashMap<String, String>>,
}

/// Tenants by their hosts.
#[derive(Debug, Default)]
struct TenantTable {
    by_host: HashMap<String, Arc<Tenant>>,
    by_realm: HashMap<String, Arc<Tenant>>,
}

impl Domains {
    /// These hosts, names without regard to case; none means any host.
    pub fn new(hosts: impl IntoIterator<Item = String>) -> Self {
        Self {
            hosts: hosts.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The same domains; if there are none, users who are named without a host
    /// are at this address.
    #[must_use]
    pub fn at(self, address: Option<IpAddr>) -> Self {
        let home = address.map(|address| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        });
        Self { home, ..self }
    }

    /// The same hosts, and no tenants: what is said of it is not said of these.
    pub fn without_tenants(&self) -> Self {
        Self {
            hosts: self.hosts.clone(),
            home: self.home.clone(),
            tenants: Arc::default(),
        }
    }

    /// The host of users who are named without one: the first domain, or the address
    /// of [`at`](Self::at).
    ///
    /// ```
    /// use busyhour_registrar::Domains;
    ///
    /// let none = Domains::default().at("127.0.0.1".parse().ok());
    /// assert_eq!(none.first(), Some("127.0.0.1"));
    /// ```
    pub fn first(&self) -> Option<&str> {
        self.hosts
            .first()
            .or(self.home.as_ref())
            .map(String::as_str)
    }

    /// The hosts that are ours, without tenants; none means any host.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Whether every host is ours.
    pub fn are_all(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Whether `host` is ours.
    ///
    /// ```
    /// use busyhour_sip::Host;
    /// use busyhour_registrar::Domains;
    ///
    /// let domains = Domains::new(["example.com".to_owned()]);
    /// assert!(domains.contain(&Host::Name("EXAMPLE.com")));
    /// assert!(!domains.contain(&Host::Name("example.org")));
    /// assert!(Domains::default().contain(&Host::Name("example.org")));
    /// ```
    pub fn contain(&self, host: &Host<'_>) -> bool {
        self.hosts.is_empty()
            || self.hosts.iter().any(|domain| names(domain, host))
            || self.tenant_at(host).is_some()
    }

    /// Whether the host of `user@host`, as an address of record has it, is ours.
    pub fn contain_address(&self, address: &str) -> bool {
        let Some(host) = host_of(address) else {
            return false;
        };
        let is_named = || {
            self.hosts
                .iter()
                .any(|domain| domain.eq_ignore_ascii_case(host))
        };
        let is_written_otherwise = || {
            let uri = format!("sip:{host}");
            let uri = Uri::parse(&uri);
            let host = uri.as_ref().and_then(Uri::as_sip).map(|uri| uri.host);
            host.is_some_and(|host| self.contain(&host))
        };
        self.are_all() || is_named() || is_written_otherwise()
    }

    /// Replaces the tenants.
    ///
    /// ```
    /// use busyhour_sip::Uri;
    /// use busyhour_registrar::{address_of_record, Domains, Tenant};
    ///
    /// let domains = Domains::new(["example.com".to_owned()]);
    /// let tenant = Tenant { aliases: vec!["www.a.example".into()], ..Tenant::new("a.example") };
    /// domains.replace_tenants([tenant]);
    /// domains.set_alias("sales@a.example", Some("alice@a.example"));
    /// let uri = Uri::parse("sip:sales@WWW.a.example").unwrap();
    /// let aor = address_of_record(&uri, &domains).unwrap();
    /// assert_eq!(aor, "sip:alice@a.example");
    /// assert_eq!(domains.account_of(&aor), "alice@a.example");
    /// assert_eq!(domains.account_of("sip:alice@example.com"), "alice");
    /// ```
    pub fn replace_tenants(&self, tenants: impl IntoIterator<Item = Tenant>) {
        let mut table = TenantTable::default();
        for tenant in tenants.into_iter().map(Arc::new) {
            let hosts = tenant.aliases.iter().chain([&tenant.name]);
            for host in hosts {
                table.by_host.insert(host.clone(), tenant.clone());
            }
            if !tenant.has_server_accounts {
                table.by_realm.insert(tenant.realm.clone(), tenant.clone());
            }
        }
        let shared = &self.tenants;
        let aliases = shared
            .aliases
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let are_any = !table.by_host.is_empty() || !aliases.is_empty();
        *shared.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
        shared.are_any.store(are_any, Ordering::Release);
    }

    /// Gives an account another name, or takes it back. Both are names of accounts: a user,
    /// or `user@domain`.
    pub fn set_alias(&self, alias: &str, account: Option<&str>) {
        let shared = &self.tenants;
        let table = shared.table.read().unwrap_or_else(PoisonError::into_inner);
        let mut aliases = shared
            .aliases
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        match account {
            Some(account) => aliases.insert(alias.to_owned(), account.to_owned()),
            None => aliases.remove(alias),
        };
        let are_any = !table.by_host.is_empty() || !aliases.is_empty();
        shared.are_any.store(are_any, Ordering::Release);
    }

    /// The account that has this other name.
    pub fn alias(&self, alias: &str) -> Option<String> {
        self.table()?;
        let aliases = self.tenants.aliases.read();
        aliases
            .unwrap_or_else(PoisonError::into_inner)
            .get(alias)
            .cloned()
    }

    /// Whether there is a tenant or an alias.
    pub fn have_tenants(&self) -> bool {
        self.tenants.are_any.load(Ordering::Acquire)
    }

    /// The tenant that has this address of record, if one has.
    pub fn tenant_of(&self, aor: &str) -> Option<Arc<Tenant>> {
        let table = self.table()?;
        table.by_host.get(host_of(aor)?).cloned()
    }

    /// The tenant at a host, by its name or an alias.
    pub fn tenant_at(&self, host: &Host<'_>) -> Option<Arc<Tenant>> {
        let table = self.table()?;
        let found = match host {
            Host::Name(name) => table.by_host.get(&name.to_ascii_lowercase()),
            Host::V4(address) => table.by_host.get(&address.to_string()),
            Host::V6(address) => table.by_host.get(&format!("[{address}]")),
        };
        found.cloned()
    }

    /// The tenant with accounts of its own that challenges for this realm.
    pub fn tenant_of_realm(&self, realm: &str) -> Option<Arc<Tenant>> {
        self.table()?.by_realm.get(realm).cloned()
    }

    /// Every tenant, by name.
    pub fn tenants(&self) -> Vec<Arc<Tenant>> {
        let Some(table) = self.table() else {
            return Vec::new();
        };
        let mut tenants: Vec<Arc<Tenant>> = table.by_host.values().cloned().collect();
        tenants.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        tenants.dedup_by(|one, other| one.name == other.name);
        tenants
    }

    /// The account of an address of record: its user, with the domain behind it if the
    /// domain has accounts of its own.
    pub fn account_of<'a>(&self, aor: &'a str) -> &'a str {
        let user = user_of(aor);
        match self.table() {
            None => user,
            Some(table) => match host_of(aor).and_then(|host| table.by_host.get(host)) {
                Some(tenant) if !tenant.has_server_accounts => {
                    aor.split_once(':').map_or(aor, |(_, address)| address)
                }
                _ => user,
            },
        }
    }

    /// The account of a user who logs in at a tenant, or at the server itself. The name may
    /// have a domain behind it.
    pub fn account_named<'u>(&self, username: &'u str, tenant: Option<&Tenant>) -> Cow<'u, str> {
        let Some(tenant) = tenant else {
            return Cow::Borrowed(username);
        };
        let user = match username.rsplit_once('@') {
            Some((user, host)) if tenant.is_at(host) => user,
            _ => username,
        };
        let written = tenant.names.written(user);
        match tenant.has_server_accounts {
            true => written,
            false => Cow::Owned(format!("{written}@{}", tenant.name)),
        }
    }

    /// The tenant and the user of an account, as [`account_of`](Self::account_of) names it;
    /// no tenant where it is the server's own.
    pub fn parts_of<'a>(&self, account: &'a str) -> (Option<Arc<Tenant>>, &'a str) {
        let Some(table) = self.table() else {
            return (None, account);
        };
        let parted = account.rsplit_once('@');
        let tenant = parted.and_then(|(user, host)| Some((table.by_host.get(host)?, user)));
        match tenant {
            Some((tenant, user)) if !tenant.has_server_accounts => (Some(tenant.clone()), user),
            _ => (None, account),
        }
    }

    /// The address of record as it is written here, by the rules and aliases of its domain.
    pub(in crate::registrar) fn settle(&self, aor: String) -> String {
        match self.table() {
            None => aor,
            Some(table) => self.resolve(table.written(aor)),
        }
    }

    /// An alias without a domain is one at the host of the request.
    fn resolve(&self, aor: String) -> String {
        match self.alias(self.account_of(&aor)) {
            Some(meant) if meant.contains('@') => format!("sip:{meant}"),
            Some(meant) => format!("sip:{meant}@{}", host_of(&aor).unwrap_or_default()),
            None => aor,
        }
    }

    fn table(&self) -> Option<Arc<TenantTable>> {
        if !self.have_tenants() {
            return None;
        }
        let table = self
            .tenants
            .table
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        Some(table.clone())
    }
}

impl TenantTable {
    fn written(&self, aor: String) -> String {
        let tenant = host_of(&aor).and_then(|host| self.by_host.get(host));
        match tenant {
            Some(tenant) => {
                let user = tenant.names.written(user_of(&aor));
                format!("sip:{user}@{}", tenant.name)
            }
            None => aor,
        }
    }
}

impl Tenant {
    fn is_at(&self, host: &str) -> bool {
        let mut hosts = self.aliases.iter().chain([&self.name]);
        hosts.any(|own| own.eq_ignore_ascii_case(host))
    }
}

fn host_of(aor: &str) -> Option<&str> {
    aor.rsplit_once('@').map(|(_, host)| host)
}

fn names(domain: &str, host: &Host<'_>) -> bool {
    match host {
        // Nearly always it is written as it is configured.
        Host::Name(name) => *name == domain || name.eq_ignore_ascii_case(domain),
        Host::V4(address) => domain.parse() == Ok(*address),
        Host::V6(address) => domain.trim_matches(['[', ']']).parse() == Ok(*address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{UserNames, address_of_record};

    fn aor(text: &str, domains: &Domains) -> String {
        let uri = Uri::parse(text).unwrap();
        address_of_record(&uri, domains).unwrap_or_default()
    }

    fn domains() -> Domains {
        let domains = Domains::new(["example.com".to_owned()]);
        let folding = Tenant {
            names: UserNames {
                fold_case: true,
                phone_numbers: true,
                country_code: "1".into(),
            },
            aliases: vec!["sip.a.example".into(), "192.0.2.5".into()],
            ..Tenant::new("a.example")
        };
        let own = Tenant {
            has_server_accounts: true,
            aliases: vec!["www.example.com".into()],
            ..Tenant::new("example.com")
        };
        domains.replace_tenants([folding, own, Tenant::new("b.example")]);
        domains.set_alias("sales@a.example", Some("alice@a.example"));
        domains.set_alias("info", Some("bob"));
        domains
    }

    #[test]
    fn without_tenants_an_address_stays_as_it_is() {
        let domains = Domains::new(["example.com".to_owned()]);
        assert_eq!(
            aor("sip:Alice@EXAMPLE.com", &domains),
            "sip:Alice@example.com"
        );
        assert_eq!(domains.account_of("sip:Alice@example.com"), "Alice");
        assert_eq!(domains.account_named("a@b", None), "a@b");
        assert_eq!(domains.parts_of("a@b").1, "a@b");
        assert_eq!(aor("sip:alice@a.example", &domains), "", "not ours");
    }

    #[test]
    fn all_spellings_of_one_person_are_one_address() {
        let domains = domains();
        for text in [
            "sip:ALICE@sip.a.example",
            "sips:alice@192.0.2.5;user=phone",
            "sip:Sales@A.example",
        ] {
            assert_eq!(aor(text, &domains), "sip:alice@a.example", "{text}");
        }
        for text in [
            "sip:+1-212-555.0100@a.example;user=phone",
            "sip:02125550100@a.example",
            "sip:0012125550100@a.example",
        ] {
            assert_eq!(aor(text, &domains), "sip:+12125550100@a.example", "{text}");
        }
        assert_eq!(aor("sip:Alice@b.example", &domains), "sip:Alice@b.example");
        for text in ["sip:bob@www.example.com", "sip:info@example.com"] {
            assert_eq!(aor(text, &domains), "sip:bob@example.com");
        }
    }

    #[test]
    fn an_account_is_named_with_its_domain_only_if_that_has_accounts_of_its_own() {
        let domains = domains();
        assert_eq!(domains.account_of("sip:alice@a.example"), "alice@a.example");
        assert_eq!(domains.account_of("sip:alice@example.com"), "alice");
        let tenant = domains.tenant_of_realm("a.example").unwrap();
        for username in ["Alice", "alice@a.example", "ALICE@SIP.a.example"] {
            let named = domains.account_named(username, Some(&tenant));
            assert_eq!(named, "alice@a.example");
        }
        let (found, user) = domains.parts_of("alice@a.example");
        assert_eq!((found.unwrap().name.as_str(), user), ("a.example", "alice"));
        assert!(domains.parts_of("alice@nowhere.example").0.is_none());
        assert!(
            domains.tenant_of_realm("example.com").is_none(),
            "the server's"
        );
        domains.replace_tenants([]);
        domains.set_alias("sales@a.example", None);
        assert!(domains.tenants().is_empty());
    }
}
