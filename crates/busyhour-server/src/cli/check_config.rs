use super::{Failure, service::read_certificate};
use crate::config::{Config, KEYS, Overrides};
use clap::Args;
use std::path::PathBuf;

/// Check a configuration and report every mistake with file, line and column
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CheckConfig {
    /// The file to check; without one, the environment and the defaults are
    #[arg(value_name = "FILE", env = "BUSYHOUR_CONFIG")]
    file: Option<PathBuf>,

    #[command(flatten)]
    overrides: Overrides,
}

impl CheckConfig {
    /// Prints one line when all is well.
    ///
    /// # Errors
    ///
    /// Every problem of the configuration, a line each.
    pub fn run(self) -> Result<(), Failure> {
        let loaded = Config::load(self.file.as_deref(), &self.overrides)?;
        read_certificate(&loaded.config.sip).map_err(Failure::usage)?;
        let name = self.file.map_or("environment and defaults".into(), |file| {
            file.display().to_string()
        });
        println!(
            "{name}: good: {} of {} settings given, {} accounts",
            loaded.origins.len(),
            KEYS.len(),
            loaded.config.accounts.len()
        );
        Ok(())
    }
}

const AFTER_HELP: &str = "\
Examples:
  busyhour check-config /etc/busyhour/busyhour.toml
  BUSYHOUR_LOG_LEVEL=loud busyhour check-config     checks the environment

Exit codes: 0 good, 2 with mistakes.";
