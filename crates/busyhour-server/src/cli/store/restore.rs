use super::{contents, sqlite_file, tell};
use crate::cli::{Failure, device::AccountLocation, service::make_folder};
use busyhour_store::{StoreError, restore};
use clap::Args;
use std::path::PathBuf;

/// Put a backup in the place of the database of a server that does not run
#[derive(Debug, Args)]
#[command(name = "restore", after_help = AFTER_HELP)]
pub struct RestoreCommand {
    /// The backup, which stays as it is
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace the database that is there; it is kept under a name that ends in .replaced
    #[arg(long)]
    replace: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

impl RestoreCommand {
    /// Puts the copy in place.
    ///
    /// # Errors
    ///
    /// While a server runs, with a database that is not to be replaced, and with a copy
    /// that cannot be used.
    pub fn run(self) -> Result<(), Failure> {
        let file = self.file.display();
        let database = sqlite_file(&self.place, |url| {
            format!(
                "stop the servers, and put it back by its own tool:\npg_restore --clean --if-exists --dbname='{url}' {file}"
            )
        })?;
        make_folder(&database)?;
        let backup = restore(&self.file, &database, self.replace).map_err(refused)?;
        let said = format!(
            "database {} is now {file}: {}",
            database.display(),
            contents(&backup)
        );
        let json = self.json.then(
            || serde_json::json!({ "file": self.file, "database": database, "backup": backup }),
        );
        tell(said, json)
    }
}

fn refused(error: StoreError) -> Failure {
    match error {
        StoreError::Exists { .. } => Failure::running(format!(
            "{error}; --replace puts the backup there and keeps the old one beside it"
        )),
        _ => Failure::running(error),
    }
}

const AFTER_HELP: &str = "\
The server must not run. It brings the tables up to date at its next start, whatever version made
the backup; telephones that registered after the backup register again by themselves.

Examples:
  systemctl stop busyhour
  busyhour restore monday.db --replace --config /etc/busyhour/busyhour.toml
  systemctl start busyhour

Exit codes: 0 done, 1 failed, 2 wrong usage, or the store is PostgreSQL.";
