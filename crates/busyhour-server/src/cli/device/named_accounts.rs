//! The accounts that a command is given by their names.

use super::{AccountLocation, AccountPlace, AccountStore, Failure, confirm, say};
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct NamedAccounts {
    /// Their user names
    #[arg(value_name = "USER", required = true)]
    users: Vec<String>,

    /// Print one JSON object a line, for each account
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

impl NamedAccounts {
    /// Changes the accounts that exist, even if others do not exist, and says what was done, such
    /// as `removed` and `from`. `change` returns whether there is such an account.
    pub(super) fn change_each(
        self,
        (done, preposition): (&str, &str),
        change: impl Fn(&mut AccountStore, &AccountPlace) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut accounts = self.place.open()?;
        let mut outcome = Ok(());
        for user in &self.users {
            let placed = accounts.place(user)?;
            match change(&mut accounts, &placed)? {
                true if self.json => {
                    say(serde_json::json!({ done: user, "store": accounts.store }))?;
                }
                true => confirm(format_args!(
                    "{user}: {done} {preposition} database {}",
                    accounts.store
                ))?,
                false => outcome = outcome.and(Err(accounts.missing(&placed))),
            }
        }
        outcome
    }
}
