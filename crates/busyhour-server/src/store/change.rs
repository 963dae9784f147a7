//! What a store is asked to keep: bindings, accounts, secrets.

use super::Account;
use crate::registrar::{BindingChange, BindingId, Contact, Lease};
use std::sync::Arc;

/// One durable change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Changes a binding.
    Binding(BindingChange),
    /// Stores an account, replacing the one of the same user and realm.
    PutAccount(Account),
    /// Forgets an account; an unknown one changes nothing.
    RemoveAccount {
        /// User name as it stands in the digest.
        username: String,
        /// Realm as it stands in the digest.
        realm: String,
    },
    /// Stores a secret of the server, replacing the one of the same name.
    PutSecret {
        /// What it is for, such as `nonce-key`.
        name: String,
        /// Its bytes.
        value: Vec<u8>,
    },
}

impl From<BindingChange> for Change {
    fn from(change: BindingChange) -> Self {
        Self::Binding(change)
    }
}

/// A binding as the store gives it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBinding {
    /// Its id.
    pub id: BindingId,
    /// Its lasting part.
    pub contact: Arc<Contact>,
    /// Its current lease.
    pub lease: Lease,
}

impl Change {
    /// Whether it changes who may register.
    pub(super) fn is_of_account(&self) -> bool {
        matches!(self, Self::PutAccount(_) | Self::RemoveAccount { .. })
    }
}
