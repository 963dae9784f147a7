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
    /// When the store cannot be read.
    fn read(&self, ids: &[BindingId]) -> Result<BindingRows, StoreError>;

    /// The next rows behind this one, in the order of their ids; no rows at the end.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    fn read_behind(
        &self,
        after: Option<BindingId>,
        count_max: usize,
    ) -> Result<BindingRows, StoreError>;

    /// What was not read cannot be read: who waits for the [end](crate::Store::watch_end) of the store is told why.
    fn give_up(&self, error: &StoreError);
}

/// Rows of bindings that were read.
#[derive(Debug, Default)]
pub struct BindingRows {
    /// Those that make sense.
    pub bindings: Vec<StoredBinding>,
    /// Those that the store cannot have written, by their ids, and what is wrong with them.
    pub unreadable: Vec<(BindingId, StoreError)>,
    /// The last one of either kind.
    pub last_id: Option<BindingId>,
}

impl BindingRows {
    /// Adds a row.
    pub fn push(&mut self, id: BindingId, row: Result<StoredBinding, StoreError>) {
        self.last_id = Some(id);
        match row {
            Ok(binding) => self.bindings.push(binding),
            Err(error) => self.unreadable.push((id, error)),
        }
    }

    /// Adds rows that follow.
    pub fn append(&mut self, rows: Self) {
        self.last_id = rows.last_id.or(self.last_id);
        self.bindings.extend(rows.bindings);
        self.unreadable.extend(rows.unreadable);
    }

    /// All of them.
    ///
    /// # Errors
    ///
    /// What is wrong with the first one that makes no sense.
    pub fn all(self) -> Result<Vec<StoredBinding>, StoreError> {
        match self.unreadable.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self.bindings),
        }
    }
}

/// By which rows of one address of record are found.
pub type AddressHash<'h> = dyn Fn(&str) -> u64 + Sync + 'h;
