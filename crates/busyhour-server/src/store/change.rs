//! What a store is asked to keep: bindings, accounts, secrets.

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

/// Who may register: a user of a realm, known by hashes and not by a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// User name as it stands in the digest.
    pub username: String,
    /// Realm as it stands in the digest.
    pub realm: String,
    /// One hash for each digest algorithm the account may use.
    pub hashes: Vec<AccountHash>,
}

/// H(username ":" realm ":" password) under one digest algorithm (RFC 7616 §3.4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountHash {
    /// Algorithm token as it stands in the digest, such as `SHA-256`.
    pub algorithm: String,
    /// The hash in lower-case hexadecimal.
    pub hex: String,
}
