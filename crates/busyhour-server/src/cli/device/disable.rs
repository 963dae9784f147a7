//! `busyhour device disable` and `enable`.

use super::{Failure, named_accounts::NamedAccounts};
use busyhour_store::Account;
use clap::Args;

/// Disable accounts: they are kept, but their devices are refused
#[derive(Debug, Args)]
#[command(after_help = AFTER_DISABLE)]
pub(super) struct DisableDevices {
    #[command(flatten)]
    accounts: NamedAccounts,
}

/// Enable accounts that were disabled
#[derive(Debug, Args)]
#[command(after_help = AFTER_ENABLE)]
pub(super) struct EnableDevices {
    #[command(flatten)]
    accounts: NamedAccounts,
}

impl DisableDevices {
    pub(super) fn run(self) -> Result<(), Failure> {
        set(self.accounts, true)
    }
}

impl EnableDevices {
    pub(super) fn run(self) -> Result<(), Failure> {
        set(self.accounts, false)
    }
}

fn set(accounts: NamedAccounts, is_disabled: bool) -> Result<(), Failure> {
    let done = if is_disabled { "disabled" } else { "enabled" };
    accounts.change_each((done, "in"), |accounts, placed| {
        let Some(account) = accounts.find(placed)? else {
            return Ok(false);
        };
        let changed = Account {
            is_disabled,
            ..account
        };
        let put = accounts.admin.put(&[changed]);
        put.map(|_| true).map_err(Failure::running)
    })
}

const AFTER_DISABLE: &str = "\
Within about a second a server that runs ends what they have registered, published and subscribed
to, and answers them 403 (Account Disabled). Calls that last go on until somebody hangs up. Passwords,
mailboxes and hints stay as they are: `busyhour device enable` undoes it.

Exit codes: 0 all disabled, 1 one was not there, 2 wrong usage.";
const AFTER_ENABLE: &str = "\
Their devices register again by themselves, at their next try.

Exit codes: 0 all enabled, 1 one was not there, 2 wrong usage.";
