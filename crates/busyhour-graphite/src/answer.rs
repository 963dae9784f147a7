//! The answer to a request.

use super::Digested;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// As in HTTP's header `Content-Type`.
    pub content_type: &'static str,
    /// The content.
    pub body: Vec<u8>,
    /// What the series of a view were made of; `None` for other answers.
    pub digested: Option<Digested>,
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
