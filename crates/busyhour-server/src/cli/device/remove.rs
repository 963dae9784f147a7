use super::{Failure, named_accounts::NamedAccounts};
use clap::Args;

/// Remove accounts: their devices can no longer register
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct RemoveDevices {
    #[command(flatten)]
    accounts: NamedAccounts,
}

impl RemoveDevices {
    pub(super) fn run(self) -> Result<(), Failure> {
        let done = ("removed", "from");
        self.accounts.change_each(done, |accounts, placed| {
            let removed = accounts.admin.remove(&placed.user, &placed.realm);
            removed.map_err(Failure::running)
        })
    }
}

const AFTER_HELP: &str = "\
What they have registered, published and subscribed to ends within about a second in a server
that runs. To end a registration and keep the account, use `busyhour device unregister`.

Exit codes: 0 all removed, 1 one was not there, 2 wrong usage.";
