//! The connection over which partitions are read.

use super::{PostgresOptions, load};
use crate::{Contents, StoreError};
use busyhour_cluster::Grant;
use postgres::Client;
use std::sync::{Mutex, MutexGuard};

/// Partitions come in portions, one soon after the other, and a connection costs the database more than a portion. So it is kept
/// for the next one.
#[derive(Default)]
pub(super) struct PartitionReader {
    /// Nobody else reads meanwhile.
    kept: Mutex<Option<Client>>,
}

impl PartitionReader {
    /// The database may have closed what was kept, as when it was started anew, or another one may be the primary now; then it is read over
    /// another connection.
    pub(super) fn read(
        &self,
        options: &PostgresOptions,
        grants: &[Grant],
    ) -> Result<Contents, StoreError> {
        let mut kept = self.lock();
        let earlier = kept.take().filter(|client| !client.is_closed());
        if let Some(mut client) = earlier
            && let Ok(contents) = load::partitions(&mut client, options, grants)
        {
            *kept = Some(client);
            return Ok(contents);
        }
        let mut client = options.connect()?;
        let contents = load::partitions(&mut client, options, grants)?;
        *kept = Some(client);
        Ok(contents)
    }

    pub(super) fn rest(&self) {
        let client = self.lock().take();
        // It says goodbye to the database.
        drop(client);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Client>> {
        self.kept
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
