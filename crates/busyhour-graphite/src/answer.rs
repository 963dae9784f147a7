//! What goes back to the one who asked.

/// What goes back to the one who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// As in HTTP's header `Content-Type`.
    pub content_type: &'static str,
    /// The content.
    pub body: Vec<u8>,
    /// What the series of a view were made of; `None` for other answers.
    pub digested: Option<Digested>,
}

/// What a view was made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digested {
    /// Series that sources gave, before any function.
    pub metrics: u64,
    /// Values in them, missing ones included.
    pub values: u64,
}

impl Answer {
    pub(super) fn json(value: &serde_json::Value) -> Self {
        Self {
            content_type: JSON,
            body: value.to_string().into_bytes(),
            digested: None,
        }
    }
}

pub(super) const JSON: &str = "application/json";
