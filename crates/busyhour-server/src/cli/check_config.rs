use super::{
    Failure,
    service::{store_name, unread_store},
};
use crate::{
    config::{Config, Durability, KEYS, Overrides, Store},
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
        let loaded = Config::check(self.file.as_deref(), &self.overrides)?;
        let unread = unread_store(&loaded.config.store);
        for warning in loaded.warnings.iter().chain(&unread) {
            console::print_error(format_args!("busyhour: warning: {warning}"));
        }
        let name = self.file.map_or("environment and defaults".into(), |file| {
            file.display().to_string()
        });
        let said = format!(
            "{name}: good: {} of {} settings given, accounts among them: {}\n{}",
            loaded.origins.len(),
            KEYS.len(),
            loaded.config.accounts.len(),
            stored(&loaded.config.store),
        );
        console::print(said).map_err(Failure::running)
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
