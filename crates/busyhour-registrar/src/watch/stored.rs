//! Subscriptions and publications as they are stored, so that they go on after a
//! crash.
//!
//! The dialog of a subscription goes on with it, and so must the CSeq numbers of the
//! NOTIFYs in it: the watcher accepts only numbers that are higher than the last (RFC
//! 3261 §12.2.2). After a crash it is unknown how many were sent since the row was
//! written. So each run has its own range: whoever restores a subscription counts the
//! runs (a server alone its starts, a cluster the owners of the device's partition), a
//! row tells in which run it was written, and a restored subscription begins
//! [`CSEQS_PER_RUN`] higher for each run since. Within a run the row is written again
//! before the range is used up ([`is_row_old`]). The numbers do not depend on the
//! clock, which may be wrong in one run and right in the next.
//!
//! The two counts say nothing of each other. A row of the other count was written before the first run of this one, as
//! far as anybody knows, so all runs of this count are since; and it is written again at once, so that the next run of
//! whichever count finds what was used in this one.

use super::{Document, Elements, LineState, ListEntry, ListForm, MessageSummary, NotifyRates};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The texts of a subscription and its dialog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredSubscription {
    pub(super) device: String,
    /// The account that opened it; none where no credentials were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) account: Option<String>,
    pub(super) package: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) event_id: Option<String>,
    #[serde(default)]
    pub(super) rates: NotifyRates,
    /// None if it watches one resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) list: Option<StoredList>,
    pub(super) dialog: StoredDialog,
}

/// The list of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredList {
    /// The entries that the SUBSCRIBE brought; none if the list is known by its URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recipients: Option<Vec<ListEntry>>,
    #[serde(default, skip_serializing_if = "ListForm::is_standard")]
    pub(super) form: ListForm,
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
    /// The run that wrote this, of the server or the partition. Versions before the epochs know this number only.
    pub(super) run: u64,
    /// The same number if it is the partition's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) epoch: Option<u64>,
    /// See [`Flow::local_text`](busyhour_sip::Flow::local_text).
    pub(super) local: String,
    pub(super) remote: String,
    /// The number of the connection; 0 for datagrams, and in rows of earlier versions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) connection: u32,
}

/// The run that continues a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunNumber {
    /// A server alone has started so often.
    OfServer(u64),
    /// The partition of the device has had so many owners.
    OfPartition(u64),
}

impl RunNumber {
    fn number(self) -> u64 {
        match self {
            Self::OfServer(number) | Self::OfPartition(number) => number,
        }
    }

    fn epoch(self) -> Option<u64> {
        match self {
            Self::OfServer(_) => None,
            Self::OfPartition(epoch) => Some(epoch),
        }
    }

    /// As it is stored.
    pub(super) fn stored(self) -> (u64, Option<u64>) {
        (self.number(), self.epoch())
    }

    /// Whether a row was written in a run of the other count.
    pub(super) fn counts_otherwise(self, stored: &StoredDialog) -> bool {
        self.epoch().is_some() != stored.epoch.is_some()
    }

    /// How many runs there were since a row was written, at most.
    pub(super) fn since(self, stored: &StoredDialog) -> u64 {
        match self.counts_otherwise(stored) {
            true => self.number(),
            // A lower one than the row's cannot be; it would have to begin higher all the same.
            false => self.number().checked_sub(stored.run).unwrap_or(1),
        }
    }
}

/// A publication.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredPublication {
    /// The address of record that publishes it.
    pub(super) device: String,
    pub(super) etag: String,
    pub(super) number: u64,
    /// The binding that published it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) publisher: Option<u64>,
    /// The request that wrote this; earlier versions did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<u64>,
    /// The request that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) begun_by: Option<u64>,
    pub(super) document: StoredDocument,
}

/// That a publication was taken back, in the row that it had, until its publisher does not ask again. A version that does
/// not know it finds no document in it, and removes the row.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredRemoval {
    /// The address of record that has published it.
    pub(super) device: String,
    /// The entity-tag that was answered.
    pub(super) removed: String,
    /// The request that took it back.
    pub(super) request: u64,
    /// The request that had begun the publication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) begun_by: Option<u64>,
    pub(super) package: String,
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
    /// This version cannot read the text.
    #[error("{0}")]
    Unreadable(#[from] serde_json::Error),
    /// It is of an event package that this version does not have.
    #[error("there is no event package {0}")]
    Package(String),
    /// Its addresses are malformed.
    #[error("{0} and {1} are not two addresses with ports")]
    Flow(String, String),
    /// There are no higher numbers for its NOTIFYs.
    #[error("the CSeq numbers of its dialog are used up")]
    CSeq,
}

/// The last number that may have been used, for a row with `local_cseq` of an earlier
/// run; `None` if no higher numbers are left.
pub(super) fn last_cseq_used(local_cseq: u32, runs_since: u64) -> Option<u32> {
    let gap = u32::try_from(runs_since).ok()?.checked_mul(CSEQS_PER_RUN)?;
    let last = local_cseq.checked_add(gap)?;
    (last <= CSEQ_MAX - CSEQS_PER_RUN).then_some(last)
}

/// Whether a row with `stored` has to be written again after number `last`: when half
/// of its range is used.
pub(super) fn is_row_old(stored: u32, last: u32) -> bool {
    last - stored >= CSEQS_PER_RUN / 2
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A watcher answers each NOTIFY before it is sent the next, so the second half lasts
/// for longer than a row takes to be written.
const CSEQS_PER_RUN: u32 = 1 << 14;
/// RFC 3261 §8.1.1.5.
const CSEQ_MAX: u32 = i32::MAX as u32;
