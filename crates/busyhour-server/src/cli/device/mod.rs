//! `busyhour device` changes accounts of the store, whether a server runs or not.

mod add;
mod import;
mod list;
mod password;
mod remove;
mod server;
mod show;
mod unregister;

use super::{
    Failure,
    service::{database, make_folder, store_name},
};
use crate::{
    config::{self, Config, Durability, StoreOverrides},
    console,
};
use busyhour_store::{
    Account, AccountAdmin, PostgresOptions, StoreError, WhenMissing, open_accounts,
    open_postgres_accounts,
};
use clap::{Args, Subcommand};
use std::path::PathBuf;

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
    Unregister(unregister::Unregister),
    Import(import::Import),
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
            DeviceAction::Unregister(command) => command.run(),
            DeviceAction::Import(command) => command.run(),
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

/// An open store and the realm of the server that uses it.
pub(super) struct AccountStore {
    pub(super) admin: Box<dyn AccountAdmin>,
    realm: String,
    /// The store as every command names it: its path, or its URL without the password.
    pub(super) store: String,
    /// Where the server that uses the store is asked.
    http: config::Http,
}

impl AccountLocation {
    /// The realm of the server. The hashes of passwords depend on it.
    fn realm(&self) -> Result<String, Failure> {
        let loaded = Config::load(self.config.as_deref(), &self.overrides.0)?;
        Ok(loaded.config.sip.realm)
    }

    /// The settings of the store, of which there is more than memory.
    pub(super) fn store(&self) -> Result<config::Store, Failure> {
        let loaded = Config::load(self.config.as_deref(), &self.overrides.0)?;
        match loaded.config.store.durability {
            Durability::Memory => Err(Failure::usage(IN_MEMORY)),
            _ => Ok(loaded.config.store),
        }
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
        Ok(AccountStore {
            admin: open(&config.store, when_missing)?,
            realm: config.sip.realm,
            store: store_name(&config.store),
            http: config.http,
        })
    }
}

impl AccountStore {
    /// The accounts of the realm, by name.
    fn all(&mut self) -> Result<Vec<Account>, Failure> {
        let mut accounts = self.admin.all().map_err(Failure::running)?;
        accounts.retain(|account| account.realm == self.realm);
        Ok(accounts)
    }

    fn find(&mut self, user: &str) -> Result<Option<Account>, Failure> {
        let accounts = self.all()?;
        Ok(accounts.into_iter().find(|one| one.username == user))
    }

    fn missing(&self, user: &str) -> Failure {
        let realm = &self.realm;
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
    HTTP (PUT /api/accounts/USER) or in its configuration, and tokens in its configuration";
const AFTER_HELP: &str = "\
Examples:
  busyhour device add alice --mailbox 100    asks for the password, twice
  pwgen 16 1 | busyhour device add bob       reads the password from standard input
  busyhour device import devices.csv         user,password,iax2,max_contacts,mailbox,hints
  busyhour device list --json | jq -r '.devices[].user'
  busyhour device remove alice
  busyhour device unregister bob             ends what is registered; the account stays

A server that runs on the same store notices changes within about a second. Every command
names the store that it used. No command creates a store without --create.

Exit codes: 0 done, 1 failed or not there, 2 wrong usage.";
