use crate::cli::{
    Failure,
    service::{store_name, unread_store},
};
use crate::{
    config::{Config, Durability, KEYS, Loaded, Overrides, Problems, Store},
    console,
};
use clap::Args;
use std::path::PathBuf;

/// Check a configuration and report every mistake with file, line and column
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CheckConfig {
    /// The file to check; without it, the environment and the defaults are checked
    #[arg(value_name = "FILE", env = "BUSYHOUR_CONFIG")]
    file: Option<PathBuf>,

    /// Print one JSON object, also of mistakes
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    overrides: Overrides,
}

impl CheckConfig {
    /// Prints one line if the configuration is valid.
    ///
    /// # Errors
    ///
    /// All problems of the configuration, one on each line.
    pub fn run(self) -> Result<(), Failure> {
        let checked = Config::check(self.file.as_deref(), &self.overrides);
        if self.json {
            return as_json(checked);
        }
        let loaded = checked?;
        let unread = unread_store(&loaded.config.store);
        for warning in loaded.warnings.iter().chain(&unread) {
            console::print_error(format_args!("busyhour: warning: {warning}"));
        }
        let name = self.file.map_or("environment and defaults".into(), |file| {
            file.display().to_string()
        });
        let said = format!(
            "{name}: good: {} of {} settings given; {}\n{}",
            loaded.origins.len(),
            KEYS.len(),
            tables(&loaded.config),
            stored(&loaded.config.store),
        );
        console::confirm(said).map_err(Failure::running)
    }
}

/// The mistakes are on standard output; on standard error is how many there are.
fn as_json(checked: Result<Loaded, Problems>) -> Result<(), Failure> {
    let (warnings, mistakes) = match &checked {
        Ok(loaded) => (loaded.warnings.clone(), Vec::new()),
        Err(problems) => {
            let told = problems.to_string();
            (Vec::new(), told.lines().map(str::to_owned).collect())
        }
    };
    let object = serde_json::json!({
        "good": mistakes.is_empty(), "mistakes": mistakes, "warnings": warnings,
    });
    console::print(object).map_err(Failure::running)?;
    match mistakes.len() {
        0 => Ok(()),
        1 => Err(Failure::usage("one mistake")),
        count => Err(Failure::usage(format!("{count} mistakes"))),
    }
}

/// How many entries the tables have, without those of the store.
fn tables(config: &Config) -> String {
    let counts = [
        ("account", config.accounts.len()),
        ("peer", config.peers.len() as u64),
        ("registrar", config.registrars.len() as u64),
        ("domain", config.tenants.len() as u64),
        ("hint", config.hints.len() as u64),
        ("list", config.lists.len() as u64),
        ("certificate", config.certificates.len() as u64),
        ("token", config.tokens.len() as u64),
        ("webhook", config.webhooks.len() as u64),
    ];
    let given = counts.iter().filter(|(_, count)| *count > 0);
    let given: Vec<_> = given
        .map(|(table, count)| match count {
            1 => format!("1 {table}"),
            _ => format!("{count} {table}s"),
        })
        .collect();
    match given.is_empty() {
        true => "no accounts and no peers".to_owned(),
        false => given.join(", "),
    }
}

/// Names the store, whose accounts are not counted: it need not exist, and this machine
/// need not reach it.
fn stored(store: &Store) -> String {
    let what = "bindings and accounts by command or HTTP";
    match store.durability {
        Durability::Memory => format!("{what} (not counted): only in memory"),
        _ => format!(
            "{what} (not counted; `busyhour device list` lists them): database {}",
            store_name(store)
        ),
    }
}

const AFTER_HELP: &str = "\
Examples:
  busyhour check-config /etc/busyhour/busyhour.toml
  BUSYHOUR_LOG_LEVEL=loud busyhour check-config     checks the environment

Exit codes: 0 good, 2 with mistakes.";
