//! What a store is asked to keep: contacts, their leases, accounts, secrets.

use busyhour::clock::UnixTime;
use std::{net::SocketAddr, sync::Arc};

/// Identifies one binding for its whole life, across refreshes and restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingId(pub u64);

/// One durable change.
///
/// A refresh touches only the narrow [`Lease`], so that a storm of refreshes
/// rewrites few pages; the wide [`Contact`] is written once.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Stores a binding, replacing whatever had its id.
    Put {
        /// The binding's id.
        id: BindingId,
        /// The part that a refresh leaves alone.
        contact: Arc<Contact>,
        /// The part that a refresh replaces.
        lease: Lease,
    },
    /// Replaces the lease of a stored binding.
    Renew {
        /// The binding's id.
        id: BindingId,
        /// Its new lease.
        lease: Lease,
    },
    /// Forgets a binding; an unknown id changes nothing.
    Remove {
        /// The binding's id.
        id: BindingId,
    },
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

/// The part of a binding that a refresh leaves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// Canonical address of record, such as `sip:alice@example.com`.
    pub aor: Arc<str>,
    /// The contact URI as the device wrote it.
    pub uri: Box<str>,
    /// Contact parameters other than `q` and `expires`, each with its leading semicolon.
    pub parameters: Box<str>,
    /// Preference in thousandths, 0 to 1000.
    pub q_milli: u16,
    /// Call-ID of the registration that made the binding.
    pub call_id: Box<str>,
    /// The Path header values, comma separated; empty when there was none (RFC 3327).
    pub path: Box<str>,
    /// The User-Agent header, empty when there was none.
    pub user_agent: Box<str>,
    /// Where the registration came from.
    pub source: SocketAddr,
    /// Our own address on which it arrived, so that requests leave from there.
    pub local: SocketAddr,
}

/// The part of a binding that each refresh replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// CSeq number of the registration that granted it.
    pub cseq: u32,
    /// Lifetime granted, in seconds: bounds the remaining life after a clock step.
    pub granted_s: u32,
    /// When it ends.
    pub expires_at: UnixTime,
    /// The device took the binding back. It stays until `expires_at` only so
    /// that a late duplicate of an older registration cannot revive it.
    pub removed: bool,
}

/// A binding as the store gives it back.
#[derive(Debug, Clone, PartialEq)]
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
