//! Subscriptions and publications as they are stored, so that they go on after a
//! crash.
//!
//! The dialog of a subscription goes on with it, and so must the CSeq numbers of the NOTIFYs in it:
//! the watcher takes none that is not higher than the last (RFC 3261 §12.2.2).
//! How many were sent since the row was written nobody knows any more, and the row
//! may have been brought back before. So numbers go by the age of the row: each
//! life of the server begins higher than the one before can have come.

use super::{Document, Elements, LineState, MessageSummary};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// The texts of a subscription and its dialog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredSubscription {
    pub(super) device: String,
    pub(super) package: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) event_id: Option<String>,
    pub(super) dialog: StoredDialog,
}

/// The texts of a dialog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredDialog {
    pub(super) call_id: String,
    pub(super) local_uri: String,
    pub(super) local_tag: String,
    pub(super) remote_uri: String,
    pub(super) remote_tag: String,
    pub(super) target: String,
    pub(super) routes: Vec<String>,
    pub(super) local_cseq: u32,
    pub(super) remote_cseq: u32,
    /// See [`Flow::local_text`](crate::registrar::Flow::local_text).
    pub(super) local: String,
    pub(super) remote: String,
}

/// A publication.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredPublication {
    /// The address of record that publishes it.
    pub(super) device: String,
    pub(super) etag: String,
    pub(super) number: u64,
    pub(super) document: StoredDocument,
}

/// A document as it was read, so that it is not read anew by other rules.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum StoredDocument {
    Presence(Elements),
    Dialog { dialogs: Elements, line: LineState },
    Messages(MessageSummary),
}

impl From<&Document> for StoredDocument {
    fn from(document: &Document) -> Self {
        match document.clone() {
            Document::Presence(elements) => Self::Presence(elements),
            Document::Dialog { dialogs, line } => Self::Dialog { dialogs, line },
            Document::Messages(summary) => Self::Messages((*summary).clone()),
        }
    }
}

impl From<StoredDocument> for Document {
    fn from(stored: StoredDocument) -> Self {
        match stored {
            StoredDocument::Presence(elements) => Self::Presence(elements),
            StoredDocument::Dialog { dialogs, line } => Self::Dialog { dialogs, line },
            StoredDocument::Messages(summary) => Self::Messages(Arc::new(summary)),
        }
    }
}

/// Why something stored cannot be brought back.
#[derive(Debug, thiserror::Error)]
pub enum NotRestored {
    /// The text is none that this version writes.
    #[error("{0}")]
    Unreadable(#[from] serde_json::Error),
    /// It is of an event package that this version does not have.
    #[error("there is no event package {0}")]
    Package(String),
    /// Its addresses are none.
    #[error("{0} and {1} are not two addresses with ports")]
    Flow(String, String),
    /// There are no higher numbers for its NOTIFYs.
    #[error("the CSeq numbers of its dialog are used up")]
    CSeq,
}

/// How much higher than in the row the numbers are in a subscription brought back at
/// this age of the row.
pub(super) fn cseq_gap(age: Duration) -> u32 {
    let by_age = u32::try_from(age.as_millis()).unwrap_or(CSEQ_MAX);
    by_age
        .saturating_mul(CSEQ_PER_MS)
        .saturating_add(CSEQ_MARGIN)
}

/// A watcher answers each NOTIFY before it is sent the next, so it is sent fewer.
const CSEQ_PER_MS: u32 = 4;
/// For the first moments, and a clock that goes a little wrong.
const CSEQ_MARGIN: u32 = 1 << 16;
/// RFC 3261 §8.1.1.5.
pub(super) const CSEQ_MAX: u32 = i32::MAX as u32;
