//! What people, programs and the server itself set while it runs, as one text each.

use std::collections::BTreeMap;

/// What is set, by its kind and name.
pub(crate) type Settings = BTreeMap<(SettingKind, String), String>;

/// What a setting is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingKind {
    /// What waits in a mailbox, by the mailbox's name.
    Mailbox,
    /// The devices of a hint, by its extension.
    Hint,
    /// What lets a program ask over HTTP, by the name of the token.
    Token,
    /// What the server has to know of its earlier lives, by its own names.
    Server,
}

impl SettingKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Mailbox, Self::Hint, Self::Token, Self::Server];

    /// As it stands in a row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mailbox => "mailbox",
            Self::Hint => "hint",
            Self::Token => "token",
            Self::Server => "server",
        }
    }

    /// The kind of a row; `None` for what this version does not know.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
