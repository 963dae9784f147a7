use super::{
    Accounts, Failure, Place, say,
    server::{Failed, Registered, Server},
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
        let failures = self.server.failures(&self.user, accounts.http);
        let Some(account) = account else {
            return Err(self.missing(&accounts, failures.ok()));
        };
        let view = account.view();
        let bindings = self.server.bindings(&self.user, accounts.http);
        if self.json {
            return self.show_json(&view, &accounts.store, failures.ok(), bindings.ok());
        }
        let failures = match &failures {
            Ok(failures) => lines(Failed::list(failures).iter().map(Failed::line))
                .unwrap_or("none that the server remembers".to_owned()),
            Err(reason) => format!("unknown: {reason}"),
        };
        let registered = match &bindings {
            Ok(bindings) => lines(Registered::list(bindings).iter().map(Registered::line))
                .unwrap_or("not now".to_owned()),
            Err(_) => "unknown, as the failures".to_owned(),
        };
        let hints = match view.hints.is_empty() {
            true => "none".to_owned(),
            false => view.hints.join(", "),
        };
        let contacts = view.max_contacts.map(|count| count.to_string());
        let rows = [
            ("user", view.user),
            ("realm", view.realm),
            ("algorithms", view.algorithms.join(", ")),
            ("iax2", if view.iax2 { "yes" } else { "no" }.into()),
            ("registered", registered),
            (
                "contacts",
                contacts.map_or("at most sip.max_contacts".into(), |most| {
                    format!("at most {most}")
                }),
            ),
            ("mailbox", view.mailbox.unwrap_or("none".into())),
            ("hints", hints),
            ("store", accounts.store),
            ("failures", failures),
        ];
        let lines = rows.map(|(name, value)| format!("{name:<12}{value}"));
        say(lines.join("\n"))
    }

    /// There is no account; but the server may know who tried under this name.
    fn missing(&self, accounts: &Accounts, failures: Option<Value>) -> Failure {
        let failed = failures.map_or(Vec::new(), |failures| Failed::list(&failures));
        match lines(failed.iter().map(Failed::line)) {
            Some(failed) => accounts
                .missing(&self.user)
                .and(format_args!("failures    {failed}")),
            None => accounts.missing(&self.user),
        }
    }

    /// Without a server that answers, failures and bindings are null.
    fn show_json(
        &self,
        view: &AccountView,
        store: &str,
        failures: Option<Value>,
        bindings: Option<Value>,
    ) -> Result<(), Failure> {
        let mut object = serde_json::to_value(view).map_err(Failure::running)?;
        object["store"] = store.into();
        object["failures"] = failures.unwrap_or(Value::Null);
        object["bindings"] = bindings.unwrap_or(Value::Null);
        say(serde_json::to_string_pretty(&object).map_err(Failure::running)?)
    }
}

/// Each on a line of its own, below the first; `None` without any.
fn lines(all: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| all.join("\n            "))
}
