use super::{AccountLocation, AccountStore, Failure, say};
use busyhour_store::{Account, AccountView};
use clap::Args;
use comfy_table::{Table, presets};

/// List the accounts of devices
#[derive(Debug, Args)]
pub(super) struct ListDevices {
    /// Print one JSON object: store, realm and devices
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

impl ListDevices {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut accounts = self.place.open()?;
        let all = accounts.all()?;
        let views: Vec<AccountView> = all.iter().map(|account| view(&accounts, account)).collect();
        let AccountStore { realm, store, .. } = accounts;
        if self.json {
            let object = serde_json::json!({ "store": store, "realm": realm, "devices": views });
            let text = serde_json::to_string_pretty(&object).map_err(Failure::running)?;
            return say(text);
        }
        let count = views.len();
        let devices = if count == 1 { "device" } else { "devices" };
        if count > 0 {
            say(table(&views))?;
        }
        say(format_args!(
            "{count} {devices} in the realm {realm} of database {store}"
        ))
    }
}

/// An account of a domain with accounts of its own has that behind its name.
pub(super) fn view(accounts: &AccountStore, account: &Account) -> AccountView {
    let mut view = account.view();
    if let Some(domain) = accounts.domain_of(account) {
        view.user = format!("{}@{domain}", view.user);
    }
    view
}

/// In a word.
pub(super) fn state(view: &AccountView) -> &'static str {
    match view.disabled {
        true => "disabled",
        false => "enabled",
    }
}

fn table(views: &[AccountView]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "USER",
        "STATE",
        "ALGORITHMS",
        "IAX2",
        "CONTACTS",
        "MAILBOX",
        "HINTS",
    ]);
    for view in views {
        table.add_row([
            view.user.clone(),
            state(view).to_owned(),
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
