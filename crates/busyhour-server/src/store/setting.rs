//! What people and programs set while the server runs, as one text each.

/// What a setting is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SettingKind {
    /// What waits in a mailbox, by the mailbox's name.
    Mailbox,
    /// The devices of a hint, by its extension.
    Hint,
}

impl SettingKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Mailbox, Self::Hint];

    /// As it stands in a row.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mailbox => "mailbox",
            Self::Hint => "hint",
        }
    }

    /// The kind of a row; `None` for what this version does not know.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}
