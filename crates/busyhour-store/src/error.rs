//! What can go wrong between the server and its disk, in words for an operator.

use std::{path::PathBuf, sync::Arc};
use thiserror::Error;

/// Why a store cannot be opened or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another server holds the database.
    #[error("database {} is in use by process {}; stop that server or choose another database", path.display(), shown(*pid))]
    InUse {
        /// The database.
        path: PathBuf,
        /// The process that holds it, when it said so.
        pid: Option<u32>,
    },
    /// There is no store, and none was to be made.
    #[error("there is no database of busyhour at {}", path.display())]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// The file or its folder cannot be used.
    #[error("database {} cannot be opened for writing: {source}", path.display())]
    Path {
        /// The database or its lock file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Another server took the database over while this one had no connection.
    #[error("database {}: another server has taken it over, so this one may not write any more", path.display())]
    TakenOver {
        /// The database.
        path: PathBuf,
    },
    /// SQLite refused.
    #[error("database {}: {source}", path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// PostgreSQL refused, or is not there.
    #[error("database {url}: {reason}")]
    Postgres {
        /// The database, without the password.
        url: String,
        /// What PostgreSQL or the network said.
        reason: String,
    },
    /// There is a file already, and none is overwritten.
    #[error("{} is there already, and is not overwritten", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A copy cannot be used.
    #[error("backup {} is damaged: {reason}", path.display())]
    Damaged {
        /// The copy.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal of a database cannot be used.
    #[error("journal {}: {reason}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What is wrong, and what can be done.
        reason: String,
    },
    /// A newer program wrote the database.
    #[error("database {} has schema version {found}, but this program knows only up to {known}; use a newer busyhour", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Newest version known.
        known: u32,
    },
    /// A stored row makes no sense.
    #[error("database {}: {table} row {row}: {reason}", path.display())]
    Row {
        /// The database.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// Which row.
        row: i64,
        /// What is wrong with it.
        reason: String,
    },
    /// A simulated disk said no.
    #[error("simulated disk: {0}")]
    Simulated(&'static str),
}

/// Why a transaction failed; shared by every batch that was in it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct CommitError {
    reason: Arc<str>,
}

impl CommitError {
    /// An error with this reason.
    pub fn new(reason: impl Into<Arc<str>>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

/// Why a batch was not even queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Refused {
    /// Too many changes wait already.
    #[error("the store's queue is full")]
    Full,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// What was read of a setting is older than a change of it that is on its way.
    #[error("a later change of this setting is on its way")]
    Overtaken,
}

fn shown(pid: Option<u32>) -> String {
    pid.map_or_else(|| "(unknown)".to_owned(), |pid| pid.to_string())
}
