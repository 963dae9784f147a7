//! `busyhour device`: accounts of the store, beside a running server or without one.

mod add;
mod import;
mod list;
mod password;
mod remove;
mod show;

use super::{
    Failure,
    service::{database, make_folder},
};
use crate::{
    config::{self, Config, Durability, StoreOverrides},
    store::{Account, AccountBook, PostgresOptions, open_accounts, open_postgres_accounts},
};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// See and change the devices that may register
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub struct Device {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(add::Add),
    List(list::List),
    Show(show::Show),
    Remove(remove::Remove),
    Import(import::Import),
}

impl Device {
    /// Does what the subcommand says.
    ///
    /// # Errors
    ///
    /// What was asked wrongly, is not there, or could not be read or written.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Action::Add(command) => command.run(),
            Action::List(command) => command.run(),
            Action::Show(command) => command.run(),
            Action::Remove(command) => command.run(),
            Action::Import(command) => command.run(),
        }
    }
}

/// Where the accounts are, as the server's configuration says.
#[derive(Debug, Args)]
struct Place {
    /// The server's configuration file, which says where the store is and what the realm
    #[arg(long, short, value_name = "FILE", env = "BUSYHOUR_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    overrides: StoreOverrides,
}

/// An open store and the realm of the server that uses it.
struct Accounts {
    book: Box<dyn AccountBook>,
    realm: String,
}

impl Place {
    fn open(&self) -> Result<Accounts, Failure> {
        let config = Config::load(self.config.as_deref(), &self.overrides.0)?.config;
        if config.store.durability == Durability::Memory {
            return Err(Failure::usage(IN_MEMORY));
        }
        let book = open(&config.store)?;
        let realm = config.sip.realm;
        Ok(Accounts { book, realm })
    }
}

impl Accounts {
    /// The accounts of the realm, by name.
    fn all(&mut self) -> Result<Vec<Account>, Failure> {
        let mut accounts = self.book.all().map_err(Failure::running)?;
        accounts.retain(|account| account.realm == self.realm);
        Ok(accounts)
    }

    fn find(&mut self, user: &str) -> Result<Option<Account>, Failure> {
        let accounts = self.all()?;
        Ok(accounts.into_iter().find(|one| one.username == user))
    }

    fn missing(&self, user: &str) -> Failure {
        let realm = &self.realm;
        Failure::running(format!(
            "there is no device `{user}` in the realm `{realm}`"
        ))
    }
}

fn open(options: &config::Store) -> Result<Box<dyn AccountBook>, Failure> {
    if let Some(url) = &options.url {
        let options = PostgresOptions::new(url).map_err(Failure::usage)?;
        return open_postgres_accounts(options).map_err(Failure::running);
    }
    let path = database(options);
    make_folder(&path)?;
    open_accounts(&path).map_err(Failure::running)
}

const IN_MEMORY: &str = "store.durability is memory: such a server keeps its accounts in its \
    memory; put them over HTTP (PUT /api/accounts/USER) or into its configuration";
const AFTER_HELP: &str = "\
Examples:
  busyhour device add alice --mailbox 100    asks for the password, twice
  pwgen 16 1 | busyhour device add bob       takes it from standard input
  busyhour device import devices.csv         user,password,iax2,max_contacts,mailbox,hints
  busyhour device list --json | jq -r '.[].user'
  busyhour device remove alice

A server that runs on the same store takes changes within about a second.

Exit codes: 0 done, 1 failed or not there, 2 wrong usage.";
