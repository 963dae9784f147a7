//! `busyhour device` changes accounts of the store, whether a server runs or not.

mod add;
mod disable;
mod export;
mod foreign_export;
mod import;
mod list;
mod named_accounts;
mod password;
mod remove;
mod server;
mod show;
mod unregister;

use super::{
    Failure,
    service::{database, make_folder, store_name},
};
use crate::server::TenantConfig;
use crate::{
    config::{self, Config, ConfiguredAccounts, Durability, StoreOverrides},
    console,
};
use busyhour_store::{
    Account, AccountAdmin, AccountEntry, PostgresOptions, SettingKind, StoreError, WhenMissing,
    open_accounts, open_postgres_accounts,
};
use clap::{Args, Subcommand};
use std::{collections::HashMap, path::PathBuf};

/// List and change the accounts of devices
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub struct DeviceCommand {
    #[command(subcommand)]
    action: DeviceAction,
}

#[derive(Debug, Subcommand)]
enum DeviceAction {
    Add(add::AddDevice),
    List(list::ListDevices),
    Show(show::ShowAccount),
    Remove(remove::RemoveDevices),
    Disable(disable::DisableDevices),
    Enable(disable::EnableDevices),
    Unregister(unregister::Unregister),
    Import(Box<import::Import>),
    Export(export::Export),
}

impl DeviceCommand {
    /// Runs the subcommand.
    ///
    /// # Errors
    ///
    /// A mistake in the arguments, an account that does not exist, or a store that
    /// cannot be read or written.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            DeviceAction::Add(command) => command.run(),
            DeviceAction::List(command) => command.run(),
            DeviceAction::Show(command) => command.run(),
            DeviceAction::Remove(command) => command.run(),
            DeviceAction::Disable(command) => command.run(),
            DeviceAction::Enable(command) => command.run(),
            DeviceAction::Unregister(command) => command.run(),
            DeviceAction::Import(command) => command.run(),
            DeviceAction::Export(command) => command.run(),
        }
    }
}

/// Where the accounts are, as the server's configuration says.
#[derive(Debug, Args)]
pub(super) struct AccountLocation {
    /// The server's configuration file, which names the store and the realm
    #[arg(long, short, value_name = "FILE", env = "BUSYHOUR_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    overrides: StoreOverrides,
}

/// Whether a command that writes may make the store.
#[derive(Debug, Args)]
pub(super) struct Creation {
    /// Create the database if it does not exist
    #[arg(long)]
    create: bool,
}

/// An open store and the realms of the server that uses it.
pub(super) struct AccountStore {
    pub(super) admin: Box<dyn AccountAdmin>,
    realm: String,
    /// The domains with accounts of their own, of the configuration and of the store.
    tenants: Vec<TenantConfig>,
    /// The server's other domains.
    domains: Vec<String>,
    /// The store as every command names it: its path, or its URL without the password.
    pub(super) store: String,
    /// Where the server that uses the store is asked.
    http: config::Http,
    /// Accounts that stand in the configuration.
    configured: ConfiguredAccounts,
}

/// A user as a person names it, with or without a domain, and where its account is.
pub(super) struct AccountPlace {
    pub(super) user: String,
    pub(super) realm: String,
    /// The domain, if that has accounts of its own.
    pub(super) domain: Option<String>,
}

impl AccountLocation {
    /// The settings of the store, of which there is more than memory.
    pub(super) fn store(&self) -> Result<config::Store, Failure> {
        let loaded = Config::load(self.config.as_deref(), &self.overrides.0)?;
        match loaded.config.store.durability {
            Durability::Memory => Err(Failure::usage(IN_MEMORY)),
            _ => Ok(loaded.config.store),
        }
    }

    /// The configuration of the server.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        Ok(Config::load(self.config.as_deref(), &self.overrides.0)?.config)
    }

    /// Opens the store, which must exist.
    pub(super) fn open(&self) -> Result<AccountStore, Failure> {
        self.open_or(WhenMissing::Refuse)
    }

    /// Opens the store, and creates it if that was requested.
    pub(super) fn open_or_create(&self, creation: &Creation) -> Result<AccountStore, Failure> {
        self.open_or(match creation.create {
            true => WhenMissing::Create,
            false => WhenMissing::Refuse,
        })
    }

    fn open_or(&self, when_missing: WhenMissing) -> Result<AccountStore, Failure> {
        let loaded = Config::load(self.config.as_deref(), &self.overrides.0)?;
        for warning in &loaded.warnings {
            console::print_error(format_args!("busyhour: warning: {warning}"));
        }
        let config = loaded.config;
        if config.store.durability == Durability::Memory {
            return Err(Failure::usage(IN_MEMORY));
        }
        let mut admin = open(&config.store, when_missing)?;
        Ok(AccountStore {
            tenants: tenants(&mut *admin, &config.tenants)?,
            domains: config.sip.domains,
            admin,
            realm: config.sip.realm,
            store: store_name(&config.store),
            http: config.http,
            configured: config.accounts,
        })
    }
}

/// The domains with settings of their own: those of the configuration count.
fn tenants(
    admin: &mut dyn AccountAdmin,
    configured: &[TenantConfig],
) -> Result<Vec<TenantConfig>, Failure> {
    let rows = admin
        .settings(SettingKind::Domain)
        .map_err(Failure::running)?;
    let stored = rows
        .values()
        .filter_map(|row| serde_json::from_str(row).ok());
    let mut tenants: Vec<TenantConfig> = configured.to_vec();
    for one in stored {
        let one: TenantConfig = one;
        if tenants.iter().all(|known| known.name != one.name) {
            tenants.push(one);
        }
    }
    tenants.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tenants)
}

/// Opens the accounts of a store that must exist; or says why not.
pub(super) fn open_store(options: &config::Store) -> Result<Box<dyn AccountAdmin>, String> {
    open(options, WhenMissing::Refuse).map_err(Failure::into_message)
}

impl AccountStore {
    /// The realm of the accounts.
    pub(super) fn realm(&self) -> &str {
        &self.realm
    }

    /// The accounts of a realm, by name.
    fn all_of(&mut self, realm: &str) -> Result<Vec<Account>, Failure> {
        let mut accounts = self.admin.all().map_err(Failure::running)?;
        accounts.retain(|account| account.realm == realm);
        Ok(accounts)
    }

    /// The accounts of the server's realm and of its domains, by name.
    fn all(&mut self) -> Result<Vec<Account>, Failure> {
        let mut accounts = self.admin.all().map_err(Failure::running)?;
        accounts.retain(|account| account.realm == self.realm || self.domain_of(account).is_some());
        accounts.sort_by_key(|account| self.domain_of(account).map(str::to_owned));
        Ok(accounts)
    }

    fn find(&mut self, placed: &AccountPlace) -> Result<Option<Account>, Failure> {
        let accounts = self.all_of(&placed.realm)?;
        Ok(accounts.into_iter().find(|one| one.username == placed.user))
    }

    /// Where the account of a user is. A domain of the server's own is no part of the name.
    pub(super) fn place(&self, user: &str) -> Result<AccountPlace, Failure> {
        let Some((user, domain)) = user.rsplit_once('@') else {
            return Ok(AccountPlace {
                user: user.to_owned(),
                realm: self.realm.clone(),
                domain: None,
            });
        };
        let domain = domain.to_ascii_lowercase();
        let own = self
            .domains
            .iter()
            .any(|own| own.eq_ignore_ascii_case(&domain));
        let tenant = self.tenants.iter().find(|tenant| tenant.name == domain);
        match (own, tenant) {
            (true, _) => self.place(user),
            (false, Some(tenant)) => Ok(AccountPlace {
                user: user.to_owned(),
                realm: tenant.realm().to_owned(),
                domain: Some(domain),
            }),
            (false, None) => Err(Failure::usage(format!(
                "`{domain}` is no domain of this server; `busyhour domain add {domain}` makes it one"
            ))),
        }
    }

    /// The domain of an account, if that has accounts of its own.
    pub(super) fn domain_of(&self, account: &Account) -> Option<&str> {
        let is_own = |tenant: &&TenantConfig| {
            !self
                .domains
                .iter()
                .any(|own| own.eq_ignore_ascii_case(&tenant.name))
        };
        let mut tenants = self.tenants.iter().filter(is_own);
        let found = tenants.find(|tenant| tenant.realm() == account.realm);
        found.map(|tenant| tenant.name.as_str())
    }

    /// The account that an entry asks for, whose user may have a domain behind it.
    pub(super) fn checked(&self, entry: AccountEntry) -> Result<Account, String> {
        let placed = self.place(&entry.user).map_err(Failure::into_message)?;
        let entry = AccountEntry {
            user: placed.user,
            ..entry
        };
        entry.check_in(&placed.realm, placed.domain.as_deref())
    }

    /// The domains with settings of their own, by name.
    pub(in crate::cli) fn tenants(&self) -> &[TenantConfig] {
        &self.tenants
    }

    /// In which realm the users of a domain are.
    pub(in crate::cli) fn realm_of<'a>(&'a self, domain: &'a TenantConfig) -> &'a str {
        let is_own = self
            .domains
            .iter()
            .any(|own| own.eq_ignore_ascii_case(&domain.name));
        match is_own {
            true => &self.realm,
            false => domain.realm(),
        }
    }

    /// Whether a domain fits beside the others.
    pub(in crate::cli) fn check_domain(
        &self,
        config: &TenantConfig,
        replaces: bool,
    ) -> Result<(), Failure> {
        let store = &self.store;
        let mut others = Vec::new();
        for other in &self.tenants {
            match other.name == config.name {
                true if !replaces => {
                    return Err(Failure::running(format!(
                        "domain `{}` already exists in database {store}, or in the \
                         configuration; --replace replaces one of the database",
                        config.name
                    )));
                }
                true => {}
                false => others.push(other.clone()),
            }
        }
        let checked = config.check_beside(&others, &self.domains, &self.realm);
        checked.map_err(Failure::running)
    }

    /// The name of an account, with its domain if that has accounts of its own.
    pub(super) fn name_of(&self, account: &Account) -> String {
        match self.domain_of(account) {
            Some(domain) => format!("{}@{domain}", account.username),
            None => account.username.clone(),
        }
    }

    /// The server's first domain, or its realm.
    pub(super) fn first_domain(&self) -> &str {
        self.domains.first().map_or(&self.realm, |domain| domain)
    }

    /// A domain that was set up just now, or would be.
    pub(super) fn learn(&mut self, config: TenantConfig) {
        self.tenants.push(config);
    }

    /// Whether those of the accounts that are new fit into their domains.
    pub(super) fn check_rooms(
        &mut self,
        accounts: &[Account],
        is_new: impl Fn(&Account) -> bool,
    ) -> Result<(), Failure> {
        let mut more: HashMap<String, usize> = HashMap::new();
        for account in accounts.iter().filter(|account| is_new(account)) {
            if let Some(domain) = self.domain_of(account) {
                *more.entry(format!("user@{domain}")).or_default() += 1;
            }
        }
        for (name, count) in more {
            let placed = self.place(&name)?;
            self.check_room(&placed, count)?;
        }
        Ok(())
    }

    /// Whether an account more fits into its domain.
    pub(super) fn check_room(&mut self, placed: &AccountPlace, more: usize) -> Result<(), Failure> {
        let Some(domain) = &placed.domain else {
            return Ok(());
        };
        let tenant = self.tenants.iter().find(|tenant| tenant.name == *domain);
        let Some(max) = tenant.and_then(|tenant| tenant.max_accounts) else {
            return Ok(());
        };
        let count = self.all_of(&placed.realm)?.len() + more;
        match count as u64 > max {
            true => Err(Failure::running(format!(
                "the domain {domain} may have {max} accounts (its max_accounts), and would have {count}"
            ))),
            false => Ok(()),
        }
    }

    fn missing(&self, placed: &AccountPlace) -> Failure {
        let AccountPlace { user, realm, .. } = placed;
        let store = &self.store;
        Failure::running(format!(
            "there is no device `{user}` in the realm `{realm}` of database {store}"
        ))
    }
}

fn open(
    options: &config::Store,
    when_missing: WhenMissing,
) -> Result<Box<dyn AccountAdmin>, Failure> {
    if let Some(url) = options.database_url().map_err(Failure::usage)? {
        let options = PostgresOptions::new(&url).map_err(Failure::usage)?;
        return open_postgres_accounts(options, when_missing).map_err(refused);
    }
    let path = database(options);
    if when_missing == WhenMissing::Create {
        make_folder(&path)?;
    }
    open_accounts(&path, when_missing).map_err(refused)
}

/// If the store does not exist, the path is most likely wrong.
fn refused(error: StoreError) -> Failure {
    match error {
        StoreError::Missing { .. } => Failure::running(format!("{error}{ELSEWHERE}")),
        _ => Failure::running(error),
    }
}

fn say(text: impl std::fmt::Display) -> Result<(), Failure> {
    console::print(text).map_err(Failure::running)
}

/// What was done.
fn confirm(text: impl std::fmt::Display) -> Result<(), Failure> {
    console::confirm(text).map_err(Failure::running)
}

const ELSEWHERE: &str = "; name the server's database with --config FILE, --store-path or --store-url-file, \
    start the server once, or create a database here: `device add` and `device import` take --create";

const IN_MEMORY: &str = "store.durability is memory: such a server has no database; add accounts over \
    HTTP (PUT /api/v1/accounts/USER) or in its configuration, and tokens in its configuration";
const AFTER_HELP: &str = "\
Examples:
  busyhour device add alice --mailbox 100    asks for the password, twice
  pwgen 16 1 | busyhour device add bob       reads the password from standard input
  busyhour device import devices.csv         user,password,iax2,max_contacts,mailbox,hints
  busyhour device list --json | jq -r '.devices[].user'
  busyhour device add alice@a.example        an account of a domain with accounts of its own
  busyhour device remove alice
  busyhour device unregister bob             ends what is registered; the account stays

A server that runs on the same store notices changes within about a second. Every command
names the store that it used. No command creates a store without --create.

Exit codes: 0 done, 1 failed or not there, 2 wrong usage.";
