use super::{Failure, Place};
use crate::store::{Account, AccountView};
use clap::Args;
use comfy_table::{Table, presets};

/// List the devices that may register
#[derive(Debug, Args)]
pub(super) struct List {
    /// Print one JSON array
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

impl List {
    pub(super) fn run(self) -> Result<(), Failure> {
        let accounts = self.place.open()?.all()?;
        let views: Vec<AccountView> = accounts.iter().map(Account::view).collect();
        match self.json {
            true => {
                let text = serde_json::to_string_pretty(&views).map_err(Failure::running)?;
                println!("{text}");
            }
            false => println!("{}", table(&views)),
        }
        Ok(())
    }
}

fn table(views: &[AccountView]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["USER", "ALGORITHMS", "IAX2", "CONTACTS", "MAILBOX", "HINTS"]);
    for view in views {
        table.add_row([
            view.user.clone(),
            view.algorithms.join(","),
            if view.iax2 { "yes" } else { "no" }.to_owned(),
            view.max_contacts
                .map_or("-".into(), |count| count.to_string()),
            view.mailbox.clone().unwrap_or("-".into()),
            view.hints.join(","),
        ]);
    }
    table
}
