use super::{
    AccountLocation, Failure,
    list::{state, view},
    say,
    server::{ApiServer, FailedRegistration, Registered},
};
use busyhour_store::AccountView;
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Show one account, its bindings and its failed registrations
#[derive(Debug, Args)]
pub(super) struct ShowAccount {
    /// Its user name
    #[arg(value_name = "USER")]
    user: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ApiServer,

    #[command(flatten)]
    place: AccountLocation,
}

impl ShowAccount {
    pub(super) fn run(self) -> Result<(), Failure> {
        let mut accounts = self.place.open()?;
        let placed = accounts.place(&self.user)?;
        let account = accounts.find(&placed)?;
        let failures = self.server.failures(&self.user, &accounts.http);
        // If the server did not answer, it is not asked again.
        let bindings = (failures.as_ref().ok())
            .and_then(|_| self.server.bindings(&self.user, &accounts.http).ok());
        let is_configured = accounts.configured.secret(&self.user).is_some();
        let Some(account) = account else {
            return match is_configured {
                true => self.show_configured(failures.ok(), bindings),
                false => Err(missing(accounts.missing(&placed), failures.ok())),
            };
        };
        let view = view(&accounts, &account);
        if self.json {
            return self.show_json(&view, &accounts.store, failures.ok(), bindings);
        }
        let failures = match &failures {
            Ok(list) => lines(list, FailedRegistration::line)
                .unwrap_or("none that the server remembers".into()),
            Err(reason) => format!("unknown: {reason}"),
        };
        let registered = match &bindings {
            Some(list) => lines(list, Registered::line).unwrap_or("not now".into()),
            None => "unknown".into(),
        };
        let hints = match view.hints.is_empty() {
            true => "none".to_owned(),
            false => view.hints.join(", "),
        };
        let state = state(&view);
        let contacts = view.max_contacts.map(|count| count.to_string());
        let rows = [
            ("user", view.user),
            ("state", state.to_owned()),
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

    /// The account stands in the configuration, which says the rest.
    fn show_configured(
        &self,
        failures: Option<Value>,
        bindings: Option<Value>,
    ) -> Result<(), Failure> {
        if self.json {
            let object = serde_json::json!({
                "user": self.user, "store": null, "failures": failures, "bindings": bindings,
            });
            return say(serde_json::to_string_pretty(&object).map_err(Failure::running)?);
        }
        let unknown = || "unknown".to_owned();
        let registered = bindings.map(|list| lines(&list, Registered::line));
        let failed = failures.map(|list| lines(&list, FailedRegistration::line));
        let rows = [
            ("user", self.user.clone()),
            ("account", "an [[account]] of the configuration".to_owned()),
            (
                "registered",
                registered.map_or_else(unknown, |it| it.unwrap_or("not now".into())),
            ),
            (
                "failures",
                failed.map_or_else(unknown, |it| {
                    it.unwrap_or("none that the server remembers".into())
                }),
            ),
        ];
        say(rows
            .map(|(name, value)| format!("{name:<12}{value}"))
            .join("\n"))
    }

    /// If no server answers, failures and bindings are null.
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

/// There is no account, but the server may know of failed registrations under this name.
fn missing(missing: Failure, failures: Option<Value>) -> Failure {
    match failures.and_then(|list| lines(&list, FailedRegistration::line)) {
        Some(failed) => missing.and(format_args!("failures    {failed}")),
        None => missing,
    }
}

/// A list from the server. Each element is on its own line below the first; `None` if
/// the list is empty.
fn lines<T: DeserializeOwned>(list: &Value, line: fn(&T) -> String) -> Option<String> {
    let list: Vec<T> = serde_json::from_value(list.clone()).unwrap_or_default();
    let lines: Vec<String> = list.iter().map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n            "))
}
