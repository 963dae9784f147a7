//! The body of one request: events in their order, as one JSON object.

use crate::server::{ChangeEvent, ChangeId, HttpUrl};
use hyper::body::Bytes;
use std::fmt::Write;

/// Events that leave together, under an id of their own.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) id: String,
    /// Up to where the changes are told with it; `None` if it has none.
    pub(super) position: Option<ChangeId>,
    pub(super) body: Bytes,
    pub(super) event_count: u64,
}

/// A batch that is being gathered.
pub(super) struct BatchBuilder {
    body: String,
    position: Option<ChangeId>,
    event_count: u64,
}

impl BatchBuilder {
    pub(super) fn new(webhook: &str) -> Self {
        // A name needs no escape.
        Self {
            body: format!("{{\"webhook\":\"{webhook}\",\"events\":["),
            position: None,
            event_count: 0,
        }
    }

    pub(super) fn push(&mut self, event: &ChangeEvent) {
        let written = match event {
            ChangeEvent::Changed(id, change) => {
                format!(
                    "{{\"type\":\"change\",\"id\":\"{id}\",\"data\":{}}}",
                    change.json()
                )
            }
            ChangeEvent::State(change) => {
                format!("{{\"type\":\"state\",\"data\":{}}}", change.state_json())
            }
            ChangeEvent::Live(id) => format!("{{\"type\":\"live\",\"id\":\"{id}\"}}"),
            ChangeEvent::Reset => "{\"type\":\"reset\"}".to_owned(),
            ChangeEvent::Lost(count) => format!("{{\"type\":\"lost\",\"count\":{count}}}"),
        };
        self.push_text(&written);
        if let ChangeEvent::Live(id) | ChangeEvent::Changed(id, _) = event {
            self.position = Some(*id);
        }
    }

    fn push_text(&mut self, event: &str) {
        if self.event_count > 0 {
            self.body.push(',');
        }
        self.event_count += 1;
        self.body.push_str(event);
    }

    pub(super) fn len(&self) -> usize {
        self.event_count as usize
    }

    pub(super) fn is_full(&self, len_max: usize) -> bool {
        self.len() >= len_max || self.body.len() >= BYTES_MAX
    }

    pub(super) fn finish(mut self, id: String) -> Batch {
        let _ = write!(self.body, "]}}");
        Batch {
            id,
            position: self.position,
            body: self.body.into(),
            event_count: self.event_count,
        }
    }

    /// What an operator sends to see whether it arrives.
    pub(super) fn test(webhook: &str, url: &HttpUrl, id: String) -> Batch {
        let mut batch = Self::new(webhook);
        let url = serde_json::Value::from(url.to_string());
        batch.push_text(&format!("{{\"type\":\"test\",\"url\":{url}}}"));
        batch.finish(id)
    }
}

/// A batch is sent when its body is so long; one event may make it longer.
const BYTES_MAX: usize = 512 << 10;
