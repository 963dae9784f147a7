//! `busyhour device disable` and `enable`.

use super::{AccountLocation, Failure, confirm, say};
use busyhour_store::Account;
use clap::Args;

/// Disable accounts: they are kept, but their devices are refused
#[derive(Debug, Args)]
#[command(after_help = AFTER_DISABLE)]
pub(super) struct DisableDevices {
    #[command(flatten)]
    chosen: Chosen,
}

/// Enable accounts that were disabled
#[derive(Debug, Args)]
#[command(after_help = AFTER_ENABLE)]
pub(super) struct EnableDevices {
    #[command(flatten)]
    chosen: Chosen,
}

#[derive(Debug, Args)]
struct Chosen {
    /// Their user names
    #[arg(value_name = "USER", required = true)]
    users: Vec<String>,

    /// Print one JSON object a line, for each account
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

impl DisableDevices {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.chosen.set(true)
    }
}

impl EnableDevices {
    pub(super) fn run(self) -> Result<(), Failure> {
        self.chosen.set(false)
    }
}

impl Chosen {
    /// Changes the accounts that exist, even if others do not exist.
    fn set(self, is_disabled: bool) -> Result<(), Failure> {
        let mut accounts = self.place.open()?;
        let word = if is_disabled { "disabled" } else { "enabled" };
        let mut outcome = Ok(());
        for user in &self.users {
            let placed = accounts.place(user)?;
            let Some(account) = accounts.find(&placed)? else {
                outcome = outcome.and(Err(accounts.missing(&placed)));
                continue;
            };
            let changed = Account {
                is_disabled,
                ..account
            };
            let put = accounts.admin.put(&[changed]);
            put.map_err(Failure::running)?;
            match self.json {
                true => say(serde_json::json!({ word: user, "store": accounts.store }))?,
                false => confirm(format_args!(
                    "{user}: {word} in database {}",
                    accounts.store
                ))?,
            }
        }
        outcome
    }
}

const AFTER_DISABLE: &str = "\
Within about a second a server that runs ends what they have registered, published and subscribed
to, and answers them 403 (Account Disabled). Calls that last go on until somebody hangs up. Passwords,
mailboxes and hints stay as they are: `busyhour device enable` undoes it.

Exit codes: 0 all disabled, 1 one was not there, 2 wrong usage.";
const AFTER_ENABLE: &str = "\
Their devices register again by themselves, at their next try.

Exit codes: 0 all enabled, 1 one was not there, 2 wrong usage.";
