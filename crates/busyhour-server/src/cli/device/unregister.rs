use super::{Failure, confirm, say};
use crate::cli::which_server::AskedServer;
use clap::Args;
use serde_json::Value;

/// End registrations of a device in the running server
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Unregister {
    /// Its address of record, or its user name in the first domain
    #[arg(value_name = "ADDRESS")]
    address: String,

    /// Only the contact with this URI, as `busyhour show device USER` lists it
    #[arg(long, value_name = "URI")]
    contact: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    which: AskedServer,
}

impl Unregister {
    pub(super) fn run(self) -> Result<(), Failure> {
        let server = self.which.find()?;
        let answer = server.delete(&self.path()).map_err(Failure::running)?;
        let answer: Value = serde_json::from_str(&answer).map_err(Failure::running)?;
        let removed = &answer["removed"];
        if self.json {
            return say(serde_json::json!({
                "address": self.address, "removed": removed, "server": server.name(),
            }));
        }
        let contacts = if *removed == 1 { "contact" } else { "contacts" };
        confirm(format_args!(
            "{}: {removed} {contacts} removed in the server at {}",
            self.address,
            server.name()
        ))
    }

    fn path(&self) -> String {
        let escaped = |text: &str| -> String {
            let form: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
            // In a path `+` is no space.
            form.replace('+', "%20")
        };
        let contact = self.contact.as_deref().map(escaped);
        let query = contact.map_or(String::new(), |contact| format!("?contact={contact}"));
        format!("/api/v1/bindings/{}{query}", escaped(&self.address))
    }
}

const AFTER_HELP: &str = "\
Watchers are told at once. The account stays: a device that registers again is registered. To
keep it out, remove its account with `busyhour device remove`.

Examples:
  busyhour device unregister alice
  busyhour device unregister sip:alice@example.com --contact sip:alice@192.0.2.7:5060

Exit codes: 0 removed, 1 nothing is registered there or no server answers, 2 wrong usage.";
