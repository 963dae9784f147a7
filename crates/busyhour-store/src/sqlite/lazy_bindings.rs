//! Bindings that are read while the server serves.

use super::{connect_to_read, load, queue::Queue, sqlite_error};
use crate::{AddressHash, BindingReader, BindingRows, CommitError, StoreError};
use busyhour_registrar::BindingId;
use rusqlite::{Connection, OpenFlags, params};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// Reads them by connections of its own, each used by one thread at a time.
pub(super) struct LazyBindings {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    queue: Arc<Queue>,
}

impl LazyBindings {
    pub(super) fn new(path: PathBuf, queue: Arc<Queue>) -> Self {
        Self {
            path,
            idle: Mutex::default(),
            queue,
        }
    }

    fn with<R>(
        &self,
        read: impl FnOnce(&Connection, &Path) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let known = idle().pop();
        let connection = known.map_or_else(|| connect_to_read(&self.path), Ok)?;
        let read = read(&connection, &self.path);
        idle().push(connection);
        read
    }
}

impl BindingReader for LazyBindings {
    /// By two threads, each half of the ids: one that reads is busy with finding columns.
    fn keys(&self, hash: &AddressHash<'_>) -> Result<Vec<(u64, BindingId)>, StoreError> {
        let last = self.with(|connection, path| {
            let wrap = |source| sqlite_error(path, source);
            load::last_binding(connection).map_err(wrap)
        })?;
        let middle = last / 2;
        thread::scope(|scope| {
            let half = scope.spawn(|| keys_between(&self.path, (i64::MIN, middle), hash));
            let other = keys_between(&self.path, (middle, i64::MAX), hash);
            let half = half
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let mut keys = half?;
            keys.extend(other?);
            Ok(keys)
        })
    }

    fn read(&self, ids: &[BindingId]) -> Result<BindingRows, StoreError> {
        self.with(|connection, path| load::bindings_of(connection, path, ids))
    }

    fn read_behind(
        &self,
        after: Option<BindingId>,
        count_max: usize,
    ) -> Result<BindingRows, StoreError> {
        let after = after.map_or(i64::MIN, |id| id.0.cast_signed());
        let limit = i64::try_from(count_max).unwrap_or(i64::MAX);
        self.with(|connection, path| load::bindings_behind(connection, path, (after, limit)))
    }

    fn give_up(&self, error: &StoreError) {
        self.queue.tell_end(&CommitError::new(error.to_string()));
    }
}

/// The keys of the rows with ids above the first and up to the second one.
fn keys_between(
    path: &Path,
    (above, to): (i64, i64),
    hash: &AddressHash<'_>,
) -> Result<Vec<(u64, BindingId)>, StoreError> {
    let wrap = |source| sqlite_error(path, source);
    // Only this thread has the connection.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(wrap)?;
    let mut statement = connection.prepare(KEYS).map_err(wrap)?;
    let mut rows = statement.query(params![above, to]).map_err(wrap)?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next().map_err(wrap)? {
        let id: i64 = row.get(0).map_err(wrap)?;
        let aor = row.get_ref(1).map_err(wrap)?.as_str();
        let aor = aor.map_err(|error| load::row_error(path, id, error.to_string()))?;
        keys.push((hash(aor), BindingId(id.cast_unsigned())));
    }
    Ok(keys)
}

const KEYS: &str = "SELECT id, aor FROM contact WHERE id > ?1 AND id <= ?2";
