use super::{Failure, which_server::AskedServer};
use crate::console;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::time::Duration;

/// Try the webhooks of a running server
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct WebhookCommand {
    #[command(subcommand)]
    what: WebhookAction,
}

#[derive(Debug, Subcommand)]
enum WebhookAction {
    Test(WebhookTest),
}

/// Post a test event to the receiver of a webhook, and tell what it answered
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
struct WebhookTest {
    /// The name of the webhook, as `busyhour show webhooks` lists it
    #[arg(value_name = "NAME")]
    name: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    which: AskedServer,
}

impl WebhookCommand {
    /// Asks the server and prints its answer.
    ///
    /// # Errors
    ///
    /// If no server answers, if there is no such webhook, or if its receiver does not take the
    /// test.
    pub fn run(self) -> Result<(), Failure> {
        match self.what {
            WebhookAction::Test(test) => test.run(),
        }
    }
}

impl WebhookTest {
    fn run(self) -> Result<(), Failure> {
        let server = self.which.find()?;
        let name: String = form_urlencoded::byte_serialize(self.name.as_bytes()).collect();
        let answer = server.post(&format!(
            "/api/v1/webhooks/{}/test",
            name.replace('+', "%20")
        ));
        let answer = answer.map_err(Failure::running)?;
        let result: Value = serde_json::from_str(&answer).map_err(Failure::running)?;
        let round_trip = Duration::from_nanos(result["round_trip_ns"].as_u64().unwrap_or(0));
        let milliseconds = round_trip.as_secs_f64() * 1000.0;
        match result["is_taken"].as_bool() {
            Some(true) if self.json => console::print(result).map_err(Failure::running),
            Some(true) => console::print(format_args!(
                "{}: taken with {} after {milliseconds:.1} ms\n",
                self.name, result["status"],
            ))
            .map_err(Failure::running),
            _ => {
                let error = result["error"].as_str().unwrap_or("no answer");
                Err(Failure::running(format!(
                    "webhook {}: {error} after {milliseconds:.1} ms",
                    self.name
                )))
            }
        }
    }
}

const AFTER_HELP: &str = "\
The server posts one event of type `test` at once, signed as all others are, beside what waits.

Exit codes: 0 the receiver answered 2xx, 1 it did not or no server answers, 2 wrong usage.";
