//! Copies of the store: `busyhour backup` and `busyhour restore`.

mod backup;
mod restore;

pub use backup::BackupCommand;
pub use restore::RestoreCommand;

use super::{
    Failure,
    device::AccountLocation,
    service::{database, store_name},
};
use crate::console;
use busyhour_store::{Backup, masked};
use std::path::PathBuf;

/// The database file of the store; or what to do where it is none.
fn sqlite_file(
    place: &AccountLocation,
    advice: impl Fn(&str) -> String,
) -> Result<PathBuf, Failure> {
    let store = place.store()?;
    match store.database_url().map_err(Failure::usage)? {
        Some(url) => Err(Failure::usage(format!(
            "the store is the PostgreSQL database {}; {}",
            store_name(&store),
            advice(&masked(&url))
        ))),
        None => Ok(database(&store)),
    }
}

/// Says what is in a copy: as JSON if that is wanted.
fn tell(said: String, json: Option<serde_json::Value>) -> Result<(), Failure> {
    match json {
        Some(json) => console::print(json),
        None => console::confirm(said),
    }
    .map_err(Failure::running)
}

fn contents(backup: &Backup) -> String {
    let Backup {
        schema,
        accounts,
        bindings,
        bytes,
        ..
    } = backup;
    format!("{accounts} accounts and {bindings} bindings, {bytes} bytes, schema version {schema}")
}
