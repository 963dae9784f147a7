use super::{contents, sqlite_file, tell};
use crate::cli::{Failure, device::AccountLocation};
use busyhour_store::{BackupFor, back_up};
use clap::Args;
use std::path::PathBuf;

/// Copy the database into a file, consistently, while the server runs
#[derive(Debug, Args)]
#[command(name = "backup", after_help = AFTER_HELP)]
pub struct BackupCommand {
    /// The file to write, which must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Write it as the version before this one reads it, so that you can go back to that
    #[arg(long)]
    for_previous: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: AccountLocation,
}

impl BackupCommand {
    /// Writes the copy.
    ///
    /// # Errors
    ///
    /// Without a database, with a file that exists, for PostgreSQL, and what cannot be written.
    pub fn run(self) -> Result<(), Failure> {
        let file = self.file.display();
        let database = sqlite_file(&self.place, |url| {
            format!(
                "its own tool copies it while the server runs:\npg_dump --format=custom --file={file} '{url}'"
            )
        })?;
        let backup_for = match self.for_previous {
            true => BackupFor::Previous,
            false => BackupFor::This,
        };
        let backup = back_up(&database, &self.file, backup_for).map_err(Failure::running)?;
        for left_out in &backup.left_out {
            crate::console::print_error(format_args!(
                "busyhour: warning: the version before has no place for {left_out}"
            ));
        }
        let said = format!(
            "{file}: {} of database {}",
            contents(&backup),
            database.display()
        );
        let json = self.json.then(
            || serde_json::json!({ "file": self.file, "database": database, "backup": backup }),
        );
        tell(said, json)
    }
}

const AFTER_HELP: &str = "\
The file has accounts, settings, bindings, subscriptions and call records as they were at one
moment. It holds hashes of passwords: only you can read it. It is checked before it gets its name.

Examples:
  busyhour backup monday.db --config /etc/busyhour/busyhour.toml
  busyhour backup back.db --for-previous      before you install the version before
  pg_dump --format=custom --file=monday.dump postgres://…      if the store is PostgreSQL

Exit codes: 0 done, 1 failed, 2 wrong usage, or the store is PostgreSQL.";
