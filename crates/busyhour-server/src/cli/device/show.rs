use super::{Failure, Place, say};
use crate::store::AccountView;
use clap::Args;

/// Show one device
#[derive(Debug, Args)]
pub(super) struct Show {
    /// Its user name
    #[arg(value_name = "USER")]
    user: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

impl Show {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut accounts = self.place.open()?;
        let account = accounts.find(&self.user)?;
        let view = account.ok_or_else(|| accounts.missing(&self.user))?.view();
        if self.json {
            return self.show_json(&view, &accounts.store);
        }
        let contacts = view.max_contacts.map(|count| count.to_string());
        let rows = [
            ("user", view.user),
            ("realm", view.realm),
            ("algorithms", view.algorithms.join(", ")),
            ("iax2", if view.iax2 { "yes" } else { "no" }.into()),
            ("contacts", contacts.unwrap_or("sip.max_contacts".into())),
            ("mailbox", view.mailbox.unwrap_or("none".into())),
            ("hints", view.hints.join(", ")),
            ("store", accounts.store),
        ];
        let lines = rows.map(|(name, value)| format!("{name:<12}{value}"));
        say(lines.join("\n"))
    }

    fn show_json(&self, view: &AccountView, store: &str) -> Result<(), Failure> {
        let mut object = serde_json::to_value(view).map_err(Failure::running)?;
        object["store"] = store.into();
        say(serde_json::to_string_pretty(&object).map_err(Failure::running)?)
    }
}
