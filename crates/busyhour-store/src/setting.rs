//! Settings that people, programs and the server itself make while it runs, each as one
//! text.

use std::collections::BTreeMap;

/// What is set, by its kind and name.
pub(crate) type Settings = BTreeMap<(SettingKind, String), String>;

/// What a setting is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingKind {
    /// The message counts of a mailbox, by the mailbox's name.
    Mailbox,
    /// The devices of a hint, by its extension.
    Hint,
    /// What a registrar behind the server may have, by the registrar's name, `|` and the address
    /// of record.
    Registration,
    /// Where changes are posted to, by its name.
    Webhook,
    /// The entries of a list of resources, by its name.
    List,
    /// A token for the HTTP interface, by its name.
    Token,
    /// A domain with accounts of its own, by its name.
    Domain,
    /// State that the server needs from its earlier runs, under names of its own.
    Server,
}

impl SettingKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Mailbox,
        Self::Hint,
        Self::Webhook,
        Self::Registration,
        Self::List,
        Self::Token,
        Self::Domain,
        Self::Server,
    ];

    /// Whether PostgreSQL counts its changes, since others may make them while a server runs.
    pub(crate) fn is_counted(self) -> bool {
        match self {
            Self::Mailbox | Self::Hint | Self::List | Self::Token | Self::Domain => true,
            Self::Registration | Self::Webhook | Self::Server => false,
        }
    }

    /// As it stands in a row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mailbox => "mailbox",
            Self::Hint => "hint",
            Self::Webhook => "webhook",
            Self::Registration => "registration",
            Self::List => "list",
            Self::Token => "token",
            Self::Domain => "domain",
            Self::Server => "server",
        }
    }

    /// The kind of a row; `None` if this version does not know it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
