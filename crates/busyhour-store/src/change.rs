//! The changes that a store makes durable: bindings, accounts, settings, records of calls.

use super::{Account, CallRecordRow, SettingKind, SoftState};
use busyhour_registrar::{BindingChange, BindingId, Contact, Lease};

/// One durable change. Most are of bindings, so what is longer than these is behind a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Changes a binding.
    Binding(BindingChange),
    /// Stores a subscription or publication, replacing the one of the same id.
    PutSoftState(SoftState),
    /// Forgets one; an unknown id changes nothing.
    RemoveSoftState(BindingId),
    /// Stores an account, replacing the one of the same user and realm.
    PutAccount(Box<Account>),
    /// Deletes an account; an unknown one changes nothing.
    RemoveAccount {
        /// User name as it stands in the digest.
        username: String,
        /// Realm as it stands in the digest.
        realm: String,
    },
    /// Stores a setting, replacing the one of the same kind and name.
    PutSetting {
        /// What it is of.
        kind: SettingKind,
        /// Whose it is.
        name: String,
        /// The setting.
        value: String,
    },
    /// Deletes a setting; an unknown one changes nothing.
    RemoveSetting {
        /// What it is of.
        kind: SettingKind,
        /// Whose it is.
        name: String,
    },
    /// Stores the record of a call; one that is there stays as it is.
    PutCallRecord(Box<CallRecordRow>),
}

impl From<Account> for Change {
    fn from(account: Account) -> Self {
        Self::PutAccount(Box::new(account))
    }
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
    /// Canonical address of record.
    pub aor: Box<str>,
    /// Its lasting part.
    pub contact: Contact,
    /// Its current lease.
    pub lease: Lease,
}

impl Change {
    /// The setting that it changes.
    pub(super) fn setting(&self) -> Option<(SettingKind, &str)> {
        match self {
            Self::PutSetting { kind, name, .. } | Self::RemoveSetting { kind, name } => {
                Some((*kind, name))
            }
            _ => None,
        }
    }

    /// Whether it changes who may register.
    pub(super) fn is_of_account(&self) -> bool {
        matches!(self, Self::PutAccount(_) | Self::RemoveAccount { .. })
    }
}
