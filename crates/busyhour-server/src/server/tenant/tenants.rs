//! The domains with settings of their own: those of the configuration and those of the store.
//!
//! The table is replaced as a whole when one of them changes, and readers take what there is.
//! What a domain has is counted beside the table, by its name, so that a change of its settings
//! loses no count.

use super::{
    registration_rate::RegistrationRate,
    tenant_config::TenantConfig,
    tenant_quota::{QuotaCounters, TenantQuota},
    tenant_refusal::TenantRefusal,
    tenant_view::{TenantUse, TenantView},
};
use crate::server::{
    load::shares::{Holder, Holders},
    stats::counters::Counter,
};
use busyhour::clock::Instant;
use busyhour_registrar::{Domains, Tenant};
use busyhour_sip::auth::Authenticator;
use busyhour_store::{Refused, SettingRows};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// The table of domains with settings of their own.
pub(in crate::server) struct Tenants {
    domains: Domains,
    holders: Holders,
    /// That of the server's own realm; `None` where everybody may do everything.
    authenticator: Option<Authenticator>,
    count_max: usize,
    table: RwLock<Arc<Table>>,
    setup: Mutex<Setup>,
}

type Table = BTreeMap<String, Arc<TenantState>>;

/// Where the table comes from, and what outlives it.
#[derive(Default)]
struct Setup {
    configured: Vec<TenantConfig>,
    stored: BTreeMap<String, TenantConfig>,
    gauges: HashMap<String, Arc<Gauges>>,
}

/// A domain as the server uses it.
pub(in crate::server) struct TenantState {
    pub(in crate::server) config: TenantConfig,
    pub(in crate::server) tenant: Tenant,
    /// What its accounts are charged to together.
    pub(in crate::server) holder: Holder,
    authenticator: Option<Authenticator>,
    is_configured: bool,
    gauges: Arc<Gauges>,
}

#[derive(Default)]
struct Gauges {
    contacts: AtomicU64,
    calls: AtomicU64,
    registrations: Counter,
    refused: QuotaCounters,
    rate: RegistrationRate,
}

impl Tenants {
    pub(in crate::server) fn new(
        domains: Domains,
        holders: Holders,
        authenticator: Option<Authenticator>,
        configured: Vec<TenantConfig>,
        count_max: usize,
    ) -> Self {
        let tenants = Self {
            domains,
            holders,
            authenticator,
            count_max,
            table: RwLock::default(),
            setup: Mutex::new(Setup {
                configured,
                ..Setup::default()
            }),
        };
        tenants.rebuild(&mut tenants.setup());
        tenants
    }

    pub(in crate::server) fn domains(&self) -> &Domains {
        &self.domains
    }

    /// The domains that these rows of the store would change.
    pub(in crate::server) fn changed_by(&self, rows: &SettingRows) -> Vec<String> {
        let setup = self.setup();
        let row_of = |config: &TenantConfig| serde_json::to_string(config).unwrap_or_default();
        let is_same =
            |name: &&String| setup.stored.get(*name).map(row_of).as_ref() == rows.get(*name);
        let known = setup.stored.keys().filter(|name| !rows.contains_key(*name));
        let changed = rows.keys().filter(|name| !is_same(name));
        known.chain(changed).cloned().collect()
    }

    /// Takes the rows of the store in place of those before; returns whether anything is
    /// different. A row that is not possible any more has no effect.
    pub(in crate::server) fn replace_stored(&self, rows: &SettingRows) -> bool {
        let mut setup = self.setup();
        let before = std::mem::take(&mut setup.stored);
        for (name, row) in rows {
            let config =
                serde_json::from_str::<TenantConfig>(row).map_err(|error| error.to_string());
            let checked = config.and_then(|config| {
                let fits = self.check(&setup, &config);
                fits.map(|()| config).map_err(|refusal| refusal.to_string())
            });
            match checked {
                Ok(config) => _ = setup.stored.insert(name.clone(), config),
                Err(reason) => tracing::warn!(domain = name, reason, "a domain has no effect"),
            }
        }
        let is_new = setup.stored != before;
        if is_new {
            self.rebuild(&mut setup);
        }
        is_new
    }

    /// The domains of the server with these in place of those of the configuration before.
    pub(in crate::server) fn planned(
        &self,
        configured: &[TenantConfig],
    ) -> Result<Domains, (String, TenantRefusal)> {
        let setup = self.setup();
        let realm = self.authenticator.as_ref().map_or("", Authenticator::realm);
        for config in configured {
            let others = configured.iter().chain(setup.stored.values());
            let others = others.filter(|other| other.name != config.name);
            let fits = config.check_beside(others, self.domains.hosts(), realm);
            fits.map_err(|refusal| (config.name.clone(), refusal))?;
        }
        let domains = self.domains.without_tenants();
        let all = setup.stored.values().chain(configured);
        domains.replace_tenants(all.map(|config| config.tenant(&domains)));
        Ok(domains)
    }

    /// The domains that differ in this configuration.
    pub(in crate::server) fn reconfigured(&self, configured: &[TenantConfig]) -> Vec<String> {
        let setup = self.setup();
        let before = &setup.configured;
        let gone = before.iter().filter(|one| !configured.contains(one));
        let new = configured.iter().filter(|one| !before.contains(one));
        gone.chain(new).map(|one| one.name.clone()).collect()
    }

    /// Takes these in place of those of the configuration before.
    pub(in crate::server) fn replace_configured(&self, configured: &[TenantConfig]) {
        let mut setup = self.setup();
        setup.configured = configured.to_vec();
        self.rebuild(&mut setup);
    }

    /// Sets a domain up, in place of one of the same name, and stores it with `keep`; returns
    /// whether it is new.
    pub(in crate::server) fn set(
        &self,
        config: TenantConfig,
        keep: impl FnOnce(String) -> Result<(), Refused>,
    ) -> Result<bool, TenantRefusal> {
        let mut setup = self.setup();
        if setup.configured.iter().any(|one| one.name == config.name) {
            return Err(TenantRefusal::Configured(config.name));
        }
        self.check(&setup, &config)?;
        let is_new = !setup.stored.contains_key(&config.name);
        if is_new && setup.stored.len() + setup.configured.len() >= self.count_max {
            return Err(TenantRefusal::Full(self.count_max));
        }
        keep(serde_json::to_string(&config).unwrap_or_default())?;
        setup.stored.insert(config.name.clone(), config);
        self.rebuild(&mut setup);
        Ok(is_new)
    }

    /// Forgets a domain; `false` if there is none. Its accounts stay in the store.
    pub(in crate::server) fn remove(
        &self,
        name: &str,
        keep: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<bool, TenantRefusal> {
        let mut setup = self.setup();
        if setup.configured.iter().any(|one| one.name == name) {
            return Err(TenantRefusal::Configured(name.to_owned()));
        }
        if !setup.stored.contains_key(name) {
            return Ok(false);
        }
        keep()?;
        setup.stored.remove(name);
        self.rebuild(&mut setup);
        Ok(true)
    }

    /// Whether a domain fits beside the others.
    fn check(&self, setup: &Setup, config: &TenantConfig) -> Result<(), TenantRefusal> {
        let mistakes = config.mistakes();
        if !mistakes.is_empty() {
            return Err(TenantRefusal::Mistakes(mistakes.join("; ")));
        }
        let others = setup.configured.iter().chain(setup.stored.values());
        let others = others.filter(|other| other.name != config.name);
        let realm = self.authenticator.as_ref().map_or("", Authenticator::realm);
        config.check_beside(others, self.domains.hosts(), realm)
    }

    fn rebuild(&self, setup: &mut Setup) {
        let configured = setup.configured.iter().map(|config| (config, true));
        let stored = setup.stored.values().map(|config| (config, false));
        let all: Vec<_> = stored.chain(configured).collect();
        let mut table = Table::new();
        let mut gauges = HashMap::new();
        for (config, is_configured) in all {
            let known = setup.gauges.get(&config.name);
            let gauge = known.cloned().unwrap_or_default();
            gauges.insert(config.name.clone(), gauge.clone());
            let state = self.state_for(config, is_configured, gauge);
            table.insert(config.name.clone(), Arc::new(state));
        }
        setup.gauges = gauges;
        let tenants = table.values().map(|state| state.tenant.clone());
        self.domains.replace_tenants(tenants.collect::<Vec<_>>());
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }

    fn state_for(
        &self,
        config: &TenantConfig,
        is_configured: bool,
        gauges: Arc<Gauges>,
    ) -> TenantState {
        let tenant = config.tenant(&self.domains);
        let own = self.authenticator.as_ref();
        let own = own.filter(|_| !tenant.has_server_accounts);
        TenantState {
            holder: self.holders.of_domain(&config.name),
            authenticator: own.and_then(|own| own.for_realm(config.realm()).ok()),
            config: config.clone(),
            tenant,
            is_configured,
            gauges,
        }
    }

    /// A domain, by its name.
    pub(in crate::server) fn find(&self, name: &str) -> Option<Arc<TenantState>> {
        self.table().get(name).cloned()
    }

    /// A request of an account was refused since it, or its domain, has its share.
    pub(in crate::server) fn note_refused(&self, quota: TenantQuota, account: Option<&str>) {
        let domain = account.and_then(|account| account.rsplit_once('@'));
        if let Some(tenant) = domain.and_then(|(_, domain)| self.find(domain)) {
            tenant.note_refused(quota);
        }
    }

    /// The domain of an address of record, if it has settings of its own.
    pub(in crate::server) fn of_aor(&self, aor: &str) -> Option<Arc<TenantState>> {
        let tenant = self.domains.tenant_of(aor)?;
        self.find(&tenant.name)
    }

    /// The realm that the account of an address of record is in.
    pub(in crate::server) fn realm_of(&self, aor: &str) -> String {
        let tenant = self.of_aor(aor);
        let own = tenant.as_ref().and_then(|tenant| tenant.authenticator());
        let realm = own.or(self.authenticator.as_ref());
        realm.map_or_else(String::new, |it| it.realm().to_owned())
    }

    /// The domain that challenges for this realm, if it has accounts of its own.
    pub(in crate::server) fn of_realm(&self, realm: &str) -> Option<Arc<TenantState>> {
        let tenant = self.domains.tenant_of_realm(realm)?;
        self.find(&tenant.name)
    }

    /// Every domain, by name.
    pub(in crate::server) fn all(&self) -> Vec<Arc<TenantState>> {
        self.table().values().cloned().collect()
    }

    fn table(&self) -> Arc<Table> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.clone()
    }

    fn setup(&self) -> MutexGuard<'_, Setup> {
        self.setup.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TenantState {
    /// Who challenges its users; `None` where the server itself does.
    pub(in crate::server) fn authenticator(&self) -> Option<&Authenticator> {
        self.authenticator.as_ref()
    }

    /// Whether one more registration may be made now; counted if not.
    pub(in crate::server) fn admits_registration(&self, now: Instant) -> bool {
        let rate = self.config.registrations_per_second;
        let is_admitted = rate.is_none_or(|rate| self.gauges.rate.take(rate, now));
        if !is_admitted {
            self.note_refused(TenantQuota::Registrations);
        }
        is_admitted
    }

    /// A registration was accepted.
    pub(in crate::server) fn registered(&self) {
        self.gauges.registrations.increment();
    }

    /// Charges so many contacts; `false` if that is too much.
    pub(in crate::server) fn take_contacts(&self, count: u64) -> bool {
        let (contacts, bound) = (&self.gauges.contacts, self.config.max_contacts);
        let before = contacts.fetch_add(count, Ordering::Relaxed);
        let fits = bound.is_none_or(|bound| before + count <= bound);
        if !fits {
            contacts.fetch_sub(count, Ordering::Relaxed);
            self.note_refused(TenantQuota::Contacts);
        }
        fits
    }

    /// As many contacts more or less as the two differ, whatever the quota is.
    pub(in crate::server) fn move_contacts(&self, before: u64, now: u64) {
        let contacts = &self.gauges.contacts;
        match now.checked_sub(before) {
            Some(more) => _ = contacts.fetch_add(more, Ordering::Relaxed),
            None => give_back(contacts, before - now),
        }
    }

    /// Something was refused since the domain, or one of its accounts, has as much of it as it may.
    pub(in crate::server) fn note_refused(&self, quota: TenantQuota) {
        self.gauges.refused.note(quota);
    }

    /// Whether one of its accounts may begin a call; counted if not. Calls that are checked at
    /// the same time may be too many by so many.
    pub(in crate::server) fn admits_call(&self) -> bool {
        let calls = self.gauges.calls.load(Ordering::Relaxed);
        let is_admitted = self.config.max_calls.is_none_or(|bound| calls < bound);
        if !is_admitted {
            self.note_refused(TenantQuota::Calls);
        }
        is_admitted
    }

    pub(in crate::server) fn call_began(&self) {
        self.gauges.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::server) fn call_ended(&self) {
        give_back(&self.gauges.calls, 1);
    }

    /// What this table knows of what it has; the rest is of other parts.
    pub(in crate::server) fn view(&self) -> TenantView {
        TenantView {
            config: self.config.clone(),
            configured: self.is_configured,
            server_accounts: self.tenant.has_server_accounts,
            used: TenantUse {
                contact_count: self.gauges.contacts.load(Ordering::Relaxed),
                call_count: self.gauges.calls.load(Ordering::Relaxed),
                registrations: self.gauges.registrations.get(),
                ..self.gauges.refused.view()
            },
        }
    }
}

/// What was charged before the domain was set up is not taken from what it has now.
fn give_back(gauge: &AtomicU64, count: u64) {
    let less = |held: u64| Some(held.saturating_sub(count));
    // It always gives a value.
    let _ = gauge.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants(configured: &[&str]) -> Tenants {
        let configured = configured.iter().map(|name| config(name)).collect();
        let domains = Domains::new(["example.com".to_owned()]);
        let own = Authenticator::new("busyhour", [1; 32], &[]).unwrap();
        Tenants::new(domains, Holders::new(1), Some(own), configured, 3)
    }

    fn config(name: &str) -> TenantConfig {
        TenantConfig {
            name: name.into(),
            ..TenantConfig::default()
        }
    }

    #[test]
    fn a_domain_is_set_once_and_conflicts_name_the_other() {
        let tenants = tenants(&["a.example"]);
        let set = |config| tenants.set(config, |_| Ok(()));
        assert_eq!(set(config("b.example")), Ok(true));
        assert_eq!(set(config("b.example")), Ok(false));
        let configured = set(config("a.example")).unwrap_err();
        assert_eq!(configured, TenantRefusal::Configured("a.example".into()));
        let alias = |host: &str| TenantConfig {
            aliases: vec![host.into()],
            ..config("c.example")
        };
        assert!(matches!(
            set(alias("a.example")),
            Err(TenantRefusal::Host(..))
        ));
        assert!(matches!(
            set(alias("example.com")),
            Err(TenantRefusal::OwnHost(_))
        ));
        let realm = |realm: &str| TenantConfig {
            realm: Some(realm.into()),
            ..config("c.example")
        };
        for taken in ["busyhour", "b.example"] {
            assert!(
                matches!(set(realm(taken)), Err(TenantRefusal::Realm(..))),
                "{taken}"
            );
        }
        assert_eq!(set(alias("www.c.example")), Ok(true));
        assert_eq!(set(config("d.example")), Err(TenantRefusal::Full(3)));
        assert_eq!(tenants.remove("b.example", || Ok(())), Ok(true));
        assert_eq!(tenants.remove("b.example", || Ok(())), Ok(false));
        assert!(tenants.remove("a.example", || Ok(())).is_err());
    }

    #[test]
    fn what_a_domain_has_outlives_a_change_of_its_settings() {
        let tenants = tenants(&[]);
        let quota = |max| TenantConfig {
            max_contacts: max,
            ..config("a.example")
        };
        tenants.set(quota(None), |_| Ok(())).unwrap();
        assert!(tenants.find("a.example").unwrap().take_contacts(3));
        tenants.set(quota(Some(4)), |_| Ok(())).unwrap();
        let state = tenants.find("a.example").unwrap();
        assert!(!state.take_contacts(2));
        assert!(state.take_contacts(1));
        let used = state.view().used;
        assert_eq!((used.contact_count, used.refused), (4, 1));
        assert_eq!(used.refused_contacts, 1);
        assert_eq!(
            tenants.of_realm("a.example").unwrap().config.name,
            "a.example"
        );
        let own = tenants.of_aor("sip:alice@a.example").unwrap();
        assert_eq!(own.authenticator().unwrap().realm(), "a.example");
    }

    #[test]
    fn rows_that_do_not_fit_have_no_effect() {
        let tenants = tenants(&["a.example"]);
        let row = |name: &str| serde_json::to_string(&config(name)).unwrap();
        let rows = SettingRows::from([
            ("b.example".to_owned(), row("b.example")),
            ("future".to_owned(), "{\"wings\": 2}".to_owned()),
            ("bad".to_owned(), row("B example")),
        ]);
        assert!(tenants.replace_stored(&rows));
        assert!(!tenants.replace_stored(&rows), "nothing is new");
        let names: Vec<_> = tenants
            .all()
            .iter()
            .map(|state| state.config.name.clone())
            .collect();
        assert_eq!(names, ["a.example", "b.example"]);
    }
}
