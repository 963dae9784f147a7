//! The dialogs that a publication has said are over, so that none comes back.
//!
//! A server that publishes the calls it carries may have several PUBLISH requests under way
//! for one dialog, each of them an initial one, as it does not know the entity-tag before the
//! first answer. They overtake each other, and the one that says `early` may come after the
//! one that says `terminated`. A dialog that is terminated stays so (RFC 4235 §3.7.1):
//! whatever another publication says of the same Call-ID is old. Within one publication the
//! entity-tags give the order, and its last word counts.

use crate::watch::Document;
use busyhour::clock::Instant;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// The last dialogs that ended, in the order in which they are forgotten.
#[derive(Debug, Default)]
pub(super) struct EndedDialogs(VecDeque<EndedDialog>);

#[derive(Debug)]
struct EndedDialog {
    call_id: Arc<str>,
    /// The number of the publication that said so.
    by: u64,
    /// When it is forgotten.
    until: Instant,
}

/// What one publication says is over.
#[derive(Debug)]
pub(super) struct SaidOver {
    call_ids: Vec<Arc<str>>,
    by: u64,
    at: Instant,
}

impl SaidOver {
    /// The dialogs that a document of the publication with this number says are over.
    pub fn of(document: Option<&Document>, publication: u64, now: Instant) -> Self {
        Self {
            call_ids: document.map(Document::ended_call_ids).unwrap_or_default(),
            by: publication,
            at: now,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.call_ids.is_empty()
    }
}

impl EndedDialogs {
    pub fn remember(&mut self, said: SaidOver) {
        let until = said.at + KNOWN_FOR;
        for call_id in said.call_ids {
            self.0.retain(|known| known.call_id != call_id);
            if self.0.len() >= ENDED_MAX {
                self.0.pop_front();
            }
            self.0.push_back(EndedDialog {
                call_id,
                by: said.by,
                until,
            });
        }
    }

    /// The document without what is known to be over; `None` if all of it stays. A new
    /// publication has no number yet.
    pub fn filtered(&self, document: &Document, publication: Option<u64>) -> Option<Document> {
        if self.0.is_empty() {
            return None;
        }
        document.with_dialogs(|call_id, is_over| {
            let is_it = |known: &EndedDialog| {
                call_id == Some(&*known.call_id) && publication != Some(known.by)
            };
            is_over || !self.0.iter().any(is_it)
        })
    }

    /// Forgets those whose time is over.
    pub fn expire(&mut self, now: Instant) {
        self.0.retain(|known| known.until > now);
    }

    /// When the next one is forgotten.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.0.iter().map(|known| known.until).min()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Twice the longest time that a PUBLISH may be under way (64 × T1, RFC 3261 §17.1.2.2): one
/// that is refused may be sent again as an initial one.
const KNOWN_FOR: Duration = Duration::from_secs(64);
/// Of one address of record: a PBX has many calls for one number.
const ENDED_MAX: usize = 64;
