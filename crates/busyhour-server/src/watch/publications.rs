//! What one presentity's devices have published (RFC 3903): soft state, each
//! with an entity-tag and an end.

use super::{Document, MessageSummary, Package, Publish};
use crate::registrar::Refusal;
use busyhour::clock::Instant;
use std::{sync::Arc, time::Duration};

/// The publications of one address of record.
#[derive(Debug, Default)]
pub struct Publications {
    list: Vec<Publication>,
}

/// A published state as watchers are told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Tells publications of one presentity apart, over all of their changes.
    pub number: u64,
    /// The state.
    pub document: Arc<Document>,
}

/// What a PUBLISH led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The new entity-tag.
    pub etag: String,
    /// The life that is left, in seconds.
    pub expires_s: u32,
    /// What happened.
    pub step: PublishStep,
}

/// What a PUBLISH did (RFC 3903 §4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishStep {
    /// Began a publication.
    Created,
    /// Prolonged one.
    Refreshed,
    /// Replaced the state of one.
    Modified,
    /// Took one back.
    Removed,
    /// Nothing: what is begun and ended at once was never there.
    Nothing,
}

#[derive(Debug)]
struct Publication {
    etag: Box<str>,
    expires_at: Instant,
    published: Published,
}

impl Publications {
    /// Takes in a PUBLISH. `new` gives a number and an entity-tag that were
    /// never given before; at most `count_max` publications may live.
    ///
    /// # Errors
    ///
    /// [`Refusal::ConditionFailed`] when the entity-tag is not the last one of
    /// a publication that lives; [`Refusal::TooManyPublications`];
    /// [`Refusal::TooLarge`] when a NOTIFY would not have room for all of them.
    pub fn publish(
        &mut self,
        publish: Publish<'_>,
        count_max: usize,
        now: Instant,
        new: &mut dyn FnMut() -> (u64, String),
    ) -> Result<Granted, Refusal> {
        let Some(tag) = publish.if_match else {
            return self.begin(publish, count_max, now, new);
        };
        let is_it = |publication: &Publication| {
            *publication.etag == *tag
                && publication.package() == publish.package
                && publication.expires_at > now
        };
        let found = self.list.iter().position(is_it);
        let index = found.ok_or(Refusal::ConditionFailed)?;
        if let Some(document) = &publish.document {
            self.check_room(document, Some(index))?;
        }
        let (_, etag) = new();
        let granted = |step| Granted {
            etag: etag.clone(),
            expires_s: publish.granted_s,
            step,
        };
        if publish.granted_s == 0 {
            self.list.remove(index);
            return Ok(granted(PublishStep::Removed));
        }
        let publication = &mut self.list[index];
        publication.etag = etag.as_str().into();
        publication.expires_at = end(now, publish.granted_s);
        let Some(document) = publish.document else {
            return Ok(granted(PublishStep::Refreshed));
        };
        publication.published.document = Arc::new(document);
        Ok(granted(PublishStep::Modified))
    }

    /// Drops what has ended at `now`, and says of which packages, once each.
    pub fn expire(&mut self, now: Instant) -> Vec<Package> {
        let mut ended = Vec::new();
        self.list.retain(|publication| {
            let lives = publication.expires_at > now;
            if !lives {
                ended.push(publication.package());
            }
            lives
        });
        ended
    }

    /// When the next one ends.
    pub fn next_expiry(&self) -> Option<Instant> {
        self.list
            .iter()
            .map(|publication| publication.expires_at)
            .min()
    }

    /// What watchers of the device are told, in the order in which it began;
    /// `None` when that is nothing.
    pub fn told(&self) -> Option<Arc<[Published]>> {
        let is_told =
            |published: &&Published| !matches!(*published.document, Document::Messages(_));
        let told = self.list.iter().map(|publication| &publication.published);
        let told: Vec<_> = told.filter(is_told).cloned().collect();
        (!told.is_empty()).then(|| told.into())
    }

    /// What waits in the mailbox by the publication begun last; `None` without one.
    pub fn messages(&self) -> Option<Arc<MessageSummary>> {
        let mut documents = self
            .list
            .iter()
            .rev()
            .map(|publication| &*publication.published.document);
        documents.find_map(|document| match document {
            Document::Messages(summary) => Some(summary.clone()),
            Document::Presence(_) | Document::Dialog { .. } => None,
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether there is room for a document beside all but the one it replaces.
    fn check_room(&self, document: &Document, replaced: Option<usize>) -> Result<(), Refusal> {
        let others = self.list.iter().enumerate();
        let others = others.filter(|(index, _)| Some(*index) != replaced);
        let lens = others.map(|(_, other)| other.published.document.written_len_max());
        match lens.sum::<usize>() + document.written_len_max() <= WRITTEN_SUM_MAX {
            true => Ok(()),
            false => Err(Refusal::TooLarge),
        }
    }

    fn begin(
        &mut self,
        publish: Publish<'_>,
        count_max: usize,
        now: Instant,
        new: &mut dyn FnMut() -> (u64, String),
    ) -> Result<Granted, Refusal> {
        let (number, etag) = new();
        let granted = |etag, step| Granted {
            etag,
            expires_s: publish.granted_s,
            step,
        };
        let document = publish.document.filter(|_| publish.granted_s > 0);
        let Some(document) = document else {
            return Ok(granted(etag, PublishStep::Nothing));
        };
        if self.list.len() >= count_max {
            return Err(Refusal::TooManyPublications);
        }
        self.check_room(&document, None)?;
        self.list.push(Publication {
            etag: etag.as_str().into(),
            expires_at: end(now, publish.granted_s),
            published: Published {
                number,
                document: Arc::new(document),
            },
        });
        Ok(granted(etag, PublishStep::Created))
    }
}

impl Publication {
    fn package(&self) -> Package {
        self.published.document.package()
    }
}

fn end(now: Instant, granted_s: u32) -> Instant {
    now + Duration::from_secs(granted_s.into())
}

/// All that is told of one address of record goes into one NOTIFY, with its
/// contacts beside it, and that into one datagram of 64 KiB at most.
const WRITTEN_SUM_MAX: usize = 48 << 10;
