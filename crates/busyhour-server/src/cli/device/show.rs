use super::{
    Failure, Place, say,
    server::{Failed, Server},
};
use crate::store::AccountView;
use clap::Args;
use serde_json::Value;

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
    server: Server,

    #[command(flatten)]
    place: Place,
}

impl Show {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut accounts = self.place.open()?;
        let account = accounts.find(&self.user)?;
        let view = account.ok_or_else(|| accounts.missing(&self.user))?.view();
        let failures = self.server.failures(&self.user, accounts.http);
        if self.json {
            return self.show_json(&view, &accounts.store, failures.ok());
        }
        let failures = match &failures {
            Ok(failures) => told(&Failed::list(failures)),
            Err(reason) => format!("unknown: {reason}"),
        };
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
            ("failures", failures),
        ];
        let lines = rows.map(|(name, value)| format!("{name:<12}{value}"));
        say(lines.join("\n"))
    }

    /// Without a server that answers, the failures are null.
    fn show_json(
        &self,
        view: &AccountView,
        store: &str,
        failures: Option<Value>,
    ) -> Result<(), Failure> {
        let mut object = serde_json::to_value(view).map_err(Failure::running)?;
        object["store"] = store.into();
        object["failures"] = failures.unwrap_or(Value::Null);
        say(serde_json::to_string_pretty(&object).map_err(Failure::running)?)
    }
}

/// Each on a line of its own, below the first.
fn told(failures: &[Failed]) -> String {
    let lines: Vec<String> = failures.iter().map(Failed::line).collect();
    match lines.is_empty() {
        true => "none that the server remembers".to_owned(),
        false => lines.join("\n            "),
    }
}
