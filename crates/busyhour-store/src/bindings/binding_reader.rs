//! Bindings that are read while a server serves, and not before.

use crate::{StoreError, StoredBinding};
use busyhour_registrar::BindingId;

/// Reads the bindings of a store after its other contents, an address of record at a time or many rows in their order.
///
/// The rows of an address stay as they were at the start until they have been read: a server changes none of an address
/// that it has not read, and nobody else changes rows of bindings.
pub trait BindingReader: Send + Sync {
    /// Of each row, in any order: what `hash` makes of its address of record, and its id.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    fn keys(&self, hash: &AddressHash<'_>) -> Result<Vec<(u64, BindingId)>, StoreError>;

    /// These rows, in the order of `ids`; those that are not there are left out.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or holds something it cannot have written.
    fn read(&self, ids: &[BindingId]) -> Result<Vec<StoredBinding>, StoreError>;

    /// The next rows behind this one, in the order of their ids; no rows at the end.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    fn read_behind(
        &self,
        after: Option<BindingId>,
        count_max: usize,
    ) -> Result<Vec<StoredBinding>, StoreError>;

    /// What was not read cannot be read: who waits for the [end](crate::Store::watch_end) of the store is told why.
    fn give_up(&self, error: &StoreError);
}

/// By which rows of one address of record are found.
pub type AddressHash<'h> = dyn Fn(&str) -> u64 + Sync + 'h;
