use super::Failure;
use crate::{
    console,
    web::{Scope, Token},
};
use clap::{Args, ValueEnum};

/// Make a token that lets a program ask over HTTP
#[derive(Debug, Args)]
#[command(name = "token", after_help = AFTER_HELP)]
pub struct MakeToken {
    /// What to call it: the program or the person it is for
    #[arg(value_name = "NAME")]
    name: String,

    /// What it lets its bearer do
    #[arg(long, value_enum, default_value = "read")]
    scope: ScopeName,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    /// Look at everything
    Read,
    /// Change accounts, and look
    Write,
}

impl MakeToken {
    /// Prints a new token, and what belongs into the configuration.
    ///
    /// # Errors
    ///
    /// When the name is no name, or there are no random numbers.
    pub fn run(self) -> Result<(), Failure> {
        if self.name.is_empty() || self.name.len() > NAME_LEN_MAX {
            let message = format!("name: give 1 to {NAME_LEN_MAX} characters");
            return Err(Failure::usage(message));
        }
        let mut random = [0; 32];
        getrandom::fill(&mut random).map_err(Failure::running)?;
        let text = format!("bh_{}", hex(&random));
        let (scope, word) = match self.scope {
            ScopeName::Read => (Scope::Read, "read"),
            ScopeName::Write => (Scope::Write, "write"),
        };
        let token = Token::new(self.name, scope, &text);
        let (name, sha256) = (&token.name, hex(&token.sha256));
        if self.json {
            let object = serde_json::json!({
                "token": text, "name": name, "scope": word, "sha256": sha256,
            });
            return console::print(object).map_err(Failure::running);
        }
        let name = toml::Value::from(name.as_str());
        let entry = format!("[[token]]\nname = {name}\nscope = \"{word}\"\nsha256 = \"{sha256}\"");
        let words = "This is shown once and kept nowhere. Into the configuration belongs:";
        console::print(format_args!("{text}\n\n{words}\n\n{entry}")).map_err(Failure::running)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const NAME_LEN_MAX: usize = 64;
const AFTER_HELP: &str = "\
Reading over HTTP needs a token from other machines, changing something always does:

  busyhour token shop --scope write
  curl -X PUT -H \"Authorization: Bearer $TOKEN\" -d '{\"password\": \"…\"}' \\
      http://127.0.0.1:8080/api/accounts/alice

The server takes new tokens at its start and at SIGHUP.

Exit codes: 0 done, 1 failed, 2 wrong usage.";
