use super::{
    Failure,
    device::{AccountLocation, AccountStore, Creation},
};
use crate::{
    console,
    web::{Scope, Token},
};
use busyhour_store::SettingKind;
use clap::{Args, Subcommand, ValueEnum};
use std::collections::BTreeMap;

/// Make a token with which a program can use the HTTP interface
#[derive(Debug, Args)]
#[command(name = "token", after_help = AFTER_HELP)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct MakeToken {
    #[command(subcommand)]
    action: Option<TokenAction>,

    /// The name of the token: the program or person that uses it
    #[arg(value_name = "NAME", required = true)]
    name: Option<String>,

    #[command(flatten)]
    form: Form,
}

#[derive(Debug, Subcommand)]
enum TokenAction {
    Add(AddToken),
    List(ListTokens),
    Remove(RemoveToken),
}

/// Make a token and keep its hash in the store; a running server accepts it
#[derive(Debug, Args)]
struct AddToken {
    /// The name of the token: the program or person that uses it
    #[arg(value_name = "NAME")]
    name: String,

    /// Replace the token of this name if it exists
    #[arg(long)]
    replace: bool,

    #[command(flatten)]
    form: Form,

    #[command(flatten)]
    creation: Creation,

    #[command(flatten)]
    place: AccountLocation,
}

/// List the names and scopes of the tokens in the store
#[derive(Debug, Args)]
struct ListTokens {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

/// Remove a token from the store
#[derive(Debug, Args)]
struct RemoveToken {
    /// The name of the token
    #[arg(value_name = "NAME")]
    name: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

#[derive(Debug, Args)]
struct Form {
    /// What the token allows
    #[arg(long, value_enum, default_value = "read")]
    scope: ScopeName,

    /// The only domain that it sees and changes, one with accounts of its own
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    /// Read everything
    Read,
    /// Read everything, and change accounts, mailboxes and hints
    Write,
}

impl MakeToken {
    /// Prints a new token and the lines for the configuration; or runs the subcommand
    /// on the store.
    ///
    /// # Errors
    ///
    /// When the name is invalid, the system has no random numbers, or the store cannot
    /// be read or written.
    pub fn run(self) -> Result<(), Failure> {
        match self.action {
            Some(TokenAction::Add(command)) => command.run(),
            Some(TokenAction::List(command)) => command.run(),
            Some(TokenAction::Remove(command)) => command.run(),
            None => print(self.name.unwrap_or_default(), &self.form),
        }
    }
}

fn print(name: String, form: &Form) -> Result<(), Failure> {
    let (token, text) = make(name, form)?;
    let (name, sha256) = (&token.name, hex(&token.sha256));
    let scope = word(token.scope);
    if form.json {
        return say(serde_json::json!({
            "token": text, "name": name, "scope": scope, "sha256": sha256,
        }));
    }
    let name = toml::Value::from(name.as_str());
    let domain = token.domain.as_ref();
    let domain = domain.map_or(String::new(), |domain| format!("\ndomain = \"{domain}\""));
    let entry =
        format!("[[token]]\nname = {name}\nscope = \"{scope}\"\nsha256 = \"{sha256}\"{domain}");
    let words = "The token is shown only once and is not stored. Add this to the configuration:";
    say(format_args!("{text}\n\n{words}\n\n{entry}"))
}

impl AddToken {
    fn run(self) -> Result<(), Failure> {
        let (token, text) = make(self.name, &self.form)?;
        let mut target = self.place.open_or_create(&self.creation)?;
        let (name, store) = (&token.name, target.store.clone());
        if !self.replace && tokens(&mut target)?.contains_key(name) {
            return Err(Failure::running(format!(
                "token `{name}` already exists in database {store}; --replace makes a new one"
            )));
        }
        let row = token.row();
        let put = target.admin.put_setting(SettingKind::Token, name, &row);
        put.map_err(Failure::running)?;
        let scope = word(token.scope);
        if self.form.json {
            return say(serde_json::json!({
                "token": text, "name": name, "scope": scope, "store": store,
            }));
        }
        say(format_args!(
            "{text}\n\nThis is shown once. Token `{name}` of scope {scope} is good for the \
             server of database {store} from now on; one that runs knows it within a second."
        ))
    }
}

impl ListTokens {
    fn run(self) -> Result<(), Failure> {
        let mut target = self.place.open()?;
        let tokens = tokens(&mut target)?;
        let store = &target.store;
        if self.json {
            let tokens: Vec<_> = tokens
                .values()
                .map(|token| serde_json::json!({"name": token.name, "scope": word(token.scope)}))
                .collect();
            return say(serde_json::json!({"store": store, "tokens": tokens}));
        }
        for token in tokens.values() {
            let domain = token.domain.as_ref();
            let domain = domain.map_or(String::new(), |domain| format!("  ({domain} alone)"));
            say(format_args!(
                "{}  {}{domain}",
                word(token.scope),
                token.name
            ))?;
        }
        let count = tokens.len();
        say(format_args!("{count} tokens in database {store}"))
    }
}

impl RemoveToken {
    fn run(self) -> Result<(), Failure> {
        let mut target = self.place.open()?;
        let (name, store) = (&self.name, target.store.clone());
        let removed = target.admin.remove_setting(SettingKind::Token, name);
        match removed.map_err(Failure::running)? {
            false => Err(Failure::running(format!(
                "there is no token `{name}` in database {store}; those of the configuration are \
                 not there"
            ))),
            true if self.json => say(serde_json::json!({"removed": name, "store": store})),
            true => confirm(format_args!(
                "token `{name}` is removed from database {store}"
            )),
        }
    }
}

impl ScopeName {
    fn scope(self) -> Scope {
        match self {
            Self::Read => Scope::Read,
            Self::Write => Scope::Write,
        }
    }
}

/// Makes a token, and the text that its bearer must send.
fn make(name: String, form: &Form) -> Result<(Token, String), Failure> {
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let message = format!("name: give 1 to {NAME_LEN_MAX} characters");
        return Err(Failure::usage(message));
    }
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(Failure::running)?;
    let text = format!("bh_{}", hex(&random));
    let token = Token::new(name, form.scope.scope(), &text);
    Ok((token.in_domain(form.domain.clone()), text))
}

/// The tokens that this version can read, by name.
fn tokens(target: &mut AccountStore) -> Result<BTreeMap<String, Token>, Failure> {
    let rows = target.admin.settings(SettingKind::Token);
    let rows = rows.map_err(Failure::running)?;
    let token = |(name, row): (String, String)| {
        let token = Token::of_row(&name, &row)?;
        Some((name, token))
    };
    Ok(rows.into_iter().filter_map(token).collect())
}

fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Write => "write",
    }
}

fn say(text: impl std::fmt::Display) -> Result<(), Failure> {
    console::print(text).map_err(Failure::running)
}

fn confirm(text: impl std::fmt::Display) -> Result<(), Failure> {
    console::confirm(text).map_err(Failure::running)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const NAME_LEN_MAX: usize = 64;
const AFTER_HELP: &str = "\
From other machines every request needs a token; changes always need one:

  busyhour token add shop --scope write
  curl -X PUT -H \"Authorization: Bearer $TOKEN\" -d '{\"password\": \"…\"}' \\
      http://127.0.0.1:8080/api/v1/accounts/alice

A server notices the tokens of its store within about a second. It reads the tokens of its
configuration, which `busyhour token NAME` prints, at its start and at SIGHUP.

Exit codes: 0 done, 1 failed, 2 wrong usage.";
