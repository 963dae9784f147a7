use super::{AccountLocation, Failure, confirm, say};
use clap::Args;

/// Remove accounts: their devices can no longer register
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RemoveDevices {
    /// Their user names
    #[arg(value_name = "USER", required = true)]
    users: Vec<String>,

    /// Print one JSON object a line, for each account
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

impl RemoveDevices {
    /// Removes the accounts that exist, even if others do not exist.
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut accounts = self.place.open()?;
        let mut outcome = Ok(());
        for user in &self.users {
            let placed = accounts.place(user)?;
            let removed = accounts.admin.remove(&placed.user, &placed.realm);
            match removed.map_err(Failure::running)? {
                true if self.json => say(serde_json::json!({
                    "removed": user, "store": accounts.store,
                }))?,
                true => confirm(format_args!(
                    "{user}: removed from database {}",
                    accounts.store
                ))?,
                false => outcome = outcome.and(Err(accounts.missing(&placed))),
            }
        }
        outcome
    }
}

const AFTER_HELP: &str = "\
What they have registered, published and subscribed to ends within about a second in a server
that runs. To end a registration and keep the account, use `busyhour device unregister`.

Exit codes: 0 all removed, 1 one was not there, 2 wrong usage.";
