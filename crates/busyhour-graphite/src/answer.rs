//! What goes back to the one who asked.

/// What goes back to the one who asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// As in HTTP's header `Content-Type`.
    pub content_type: &'static str,
    /// The content.
    pub body: Vec<u8>,
}

impl Answer {
    pub(super) fn json(value: &serde_json::Value) -> Self {
        Self {
            content_type: JSON,
            body: value.to_string().into_bytes(),
        }
    }
}

pub(super) const JSON: &str = "application/json";
