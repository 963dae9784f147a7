//! What one presentity's devices have published (RFC 3903): soft state, each
//! with an entity-tag and an end.

use super::{
    ended_dialogs::{EndedDialogs, SaidOver},
    removed_publications::{REMEMBERED_FOR, RemovedPublication, RemovedPublications},
};
use crate::registrar::{BindingId, EndedBinding, Refusal, seconds};
use crate::watch::{
    Document, MessageSummary, NotRestored, Package, Publish, Published,
    stored::{StoredDocument, StoredPublication, StoredRemoval},
};
use busyhour::clock::Instant;
use std::{sync::Arc, time::Duration};

/// The publications of one address of record.
#[derive(Debug, Default)]
pub struct Publications {
    list: Vec<Publication>,
    ended: EndedDialogs,
    removed: RemovedPublications,
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
    /// Nothing: a publication that begins and ends at once never exists.
    Nothing,
    /// Nothing: the request came before, as from another owner of the device, or from an earlier run of the server.
    Repeated,
}

/// What a PUBLISH leads to once it is [applied](Publications::apply).
#[derive(Debug)]
pub struct Plan {
    /// The answer to it.
    pub granted: Granted,
    /// The index of the publication; `None` for a new one.
    index: Option<usize>,
    /// What is there then.
    publication: Option<Publication>,
    /// The dialogs that it says are over.
    over: SaidOver,
    /// What is remembered of the publication that it takes back.
    removed: Option<RemovedPublication>,
}

#[derive(Debug)]
struct Publication {
    etag: Box<str>,
    expires_at: Instant,
    published: Published,
    /// The contact that published it, with whose registration it ends.
    publisher: Option<BindingId>,
    /// The request that led to this; none in a row of an earlier version.
    request: Option<u64>,
    /// The request that began it, and until when copies of that may come. By then its publisher has the answer.
    begun_by: Option<u64>,
    begun_until: Instant,
    /// Its row in a store.
    row: Option<EndedBinding>,
}

/// What the store has to keep of a PUBLISH before it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// This text; in the row that it has, or a new one.
    Put(Option<EndedBinding>, String),
    /// Nothing: this row goes.
    Remove(EndedBinding),
}

/// What has ended.
#[derive(Debug, Default)]
pub struct EndedPublications {
    /// The package of each.
    pub packages: Vec<Package>,
    /// What the store has to forget.
    pub rows: Vec<EndedBinding>,
    /// How many that were taken back before are not remembered any more.
    pub forgotten_count: usize,
}

impl Publications {
    /// Plans a PUBLISH. `publisher` is the registered contact that sent it, if one did;
    /// `new` gives a number and an entity-tag that were never used before; at most
    /// `count_max` publications may live.
    ///
    /// # Errors
    ///
    /// [`Refusal::ConditionFailed`] when the entity-tag is not the last one of
    /// a publication that lives; [`Refusal::TooManyPublications`];
    /// [`Refusal::TooLarge`] when a NOTIFY would not have room for all of them.
    pub fn plan(
        &self,
        publish: Publish<'_>,
        publisher: Option<BindingId>,
        count_max: usize,
        now: Instant,
        new: &mut dyn FnMut() -> (u64, String),
    ) -> Result<Plan, Refusal> {
        if let Some(repeated) = self.repeated(&publish, now) {
            return Ok(repeated);
        }
        let request = publish.request;
        let Some(tag) = publish.if_match else {
            let plan = self.begin(publish, count_max, now, new)?;
            return Ok(plan.published_by(publisher, request, (request, now + REMEMBERED_FOR)));
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
        // A telephone may have another address by now.
        let publisher = publisher.or(self.list[index].publisher);
        let begun_by = self.list[index].begun_by(now);
        let begun = (begun_by, self.list[index].begun_until);
        let known = &self.list[index].published;
        let document = publish.document.map(|document| {
            let filtered = self.ended.filtered(&document, Some(known.number));
            filtered.unwrap_or(document)
        });
        let over = SaidOver::of(document.as_ref(), known.number, now);
        let (step, document) = match document {
            _ if publish.granted_s == 0 => (PublishStep::Removed, None),
            Some(document) => (PublishStep::Modified, Some(Arc::new(document))),
            None => (PublishStep::Refreshed, Some(known.document.clone())),
        };
        let published = document.map(|document| Published {
            number: known.number,
            document,
        });
        let (_, etag) = new();
        let index = Some(index);
        let plan = Plan::new(step, etag, publish.granted_s, now, index, published);
        let mut plan = plan.with_over(over).published_by(publisher, request, begun);
        if step == PublishStep::Removed && self.removed.has_room() {
            plan.removed = request.map(|request| RemovedPublication {
                etag: plan.granted.etag.as_str().into(),
                request,
                begun_by,
                package: publish.package,
                until: now + REMEMBERED_FOR,
                row: None,
            });
        }
        Ok(plan)
    }

    /// What the store has to keep of a plan for the publications of `device`; `None`
    /// is nothing.
    pub fn keep(&self, device: &str, plan: &Plan) -> Option<Keep> {
        let row = plan.index.and_then(|index| self.list.get(index)?.row);
        if let Some(removed) = &plan.removed {
            let stored = StoredRemoval {
                device: device.to_owned(),
                removed: removed.etag.to_string(),
                request: removed.request,
                begun_by: removed.begun_by,
                package: removed.package.name().to_owned(),
            };
            // Texts and numbers can always be written.
            let text = serde_json::to_string(&stored).unwrap_or_default();
            return Some(Keep::Put(row, text));
        }
        let Some(publication) = &plan.publication else {
            return row.map(Keep::Remove);
        };
        let stored = StoredPublication {
            device: device.to_owned(),
            etag: publication.etag.to_string(),
            number: publication.published.number,
            publisher: publication.publisher.map(|BindingId(id)| id),
            request: publication.request,
            begun_by: publication.begun_by,
            document: StoredDocument::from(&*publication.published.document),
        };
        // Texts and numbers can always be written.
        let text = serde_json::to_string(&stored).unwrap_or_default();
        Some(Keep::Put(row, text))
    }

    /// Restores a stored publication, with its row and its new deadline, or what is remembered of one that was taken back.
    pub fn put_back(
        &mut self,
        stored: Restorable,
        row: EndedBinding,
        expires_at: Instant,
        now: Instant,
    ) {
        let Restorable { kept, package } = stored;
        let stored = match kept {
            Kept::Publication(stored) => stored,
            Kept::Removal(removal) => {
                return self.removed.remember(RemovedPublication {
                    etag: removal.removed.into(),
                    request: removal.request,
                    begun_by: removal.begun_by,
                    package,
                    until: expires_at,
                    row: Some(row),
                });
            }
        };
        let number = stored.number;
        let document = Document::from(stored.document);
        let filtered = self.ended.filtered(&document, Some(number));
        let document = filtered.unwrap_or(document);
        self.end_dialogs(SaidOver::of(Some(&document), number, now));
        self.list.push(Publication {
            etag: stored.etag.into(),
            expires_at,
            published: Published {
                number,
                document: Arc::new(document),
            },
            publisher: stored.publisher.map(BindingId),
            request: stored.request,
            begun_by: stored.begun_by,
            begun_until: now + REMEMBERED_FOR,
            row: Some(row),
        });
    }

    /// Does what was planned, if nothing else was done since.
    pub fn apply(&mut self, plan: Plan) {
        self.end_dialogs(plan.over);
        match (plan.index, plan.publication) {
            (None, None) => {}
            (None, Some(new)) => self.list.push(new),
            (Some(index), None) => drop(self.list.remove(index)),
            (Some(index), Some(next)) => self.list[index] = next,
        }
        if let Some(removed) = plan.removed {
            self.removed.remember(removed);
        }
    }

    /// What one publication says is over is over in all of them.
    fn end_dialogs(&mut self, over: SaidOver) {
        if over.is_empty() {
            return;
        }
        self.ended.remember(over);
        for publication in &mut self.list {
            let published = &mut publication.published;
            let filtered = self
                .ended
                .filtered(&published.document, Some(published.number));
            if let Some(document) = filtered {
                published.document = Arc::new(document);
            }
        }
    }

    /// Drops what has ended at `now`, and says what it was.
    pub fn expire(&mut self, now: Instant) -> EndedPublications {
        self.ended.expire(now);
        let mut ended = self.retain(|publication| publication.expires_at > now);
        ended.forgotten_count = self.removed.expire(now, &mut ended.rows);
        ended
    }

    /// Drops what was published by contacts that are not registered any more, and says
    /// what it was. Telephones seldom take back what they have published; without this, what
    /// one said before it left would be told for as long as it was granted. The counts of a
    /// mailbox stay: they are not the telephone's own state.
    pub fn end_unregistered(
        &mut self,
        is_registered: impl Fn(BindingId) -> bool,
    ) -> EndedPublications {
        self.retain(|publication| {
            publication.package() == Package::MessageSummary
                || publication.publisher.is_none_or(&is_registered)
        })
    }

    fn retain(&mut self, lives: impl Fn(&Publication) -> bool) -> EndedPublications {
        let mut ended = EndedPublications::default();
        self.list.retain(|publication| {
            let lives = lives(publication);
            if !lives {
                ended.packages.push(publication.package());
                ended.rows.extend(publication.row);
            }
            lives
        });
        ended
    }

    /// When the next one ends, or what is known of a dialog or of one that was taken back.
    pub fn next_expiry(&self) -> Option<Instant> {
        let ends = self.list.iter().map(|publication| publication.expires_at);
        let forgotten = [self.ended.next_expiry(), self.removed.next_expiry()];
        ends.chain(forgotten.into_iter().flatten()).min()
    }

    /// The documents for watchers of the device, in the order in which the publications
    /// began; `None` if there are none.
    pub fn told(&self) -> Option<Arc<[Published]>> {
        let is_told =
            |published: &&Published| !matches!(*published.document, Document::Messages(_));
        let told = self.list.iter().map(|publication| &publication.published);
        let told: Vec<_> = told.filter(is_told).cloned().collect();
        (!told.is_empty()).then(|| told.into())
    }

    /// The message counts of the publication that began last; `None` without one.
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

    /// How many that were taken back lately are remembered.
    pub fn removed_len(&self) -> usize {
        self.removed.len()
    }

    /// Whether nothing is known: there are none, none was taken back lately, and no dialog has ended lately.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.ended.is_empty() && self.removed.len() == 0
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

    /// The same answer again to the last request of a publication. Its sender did not get the first one, and does not
    /// know the entity-tag that was in it. A late copy of the first request is answered, too: it would begin another
    /// publication, which nobody takes back.
    fn repeated(&self, publish: &Publish<'_>, now: Instant) -> Option<Plan> {
        let is_its = |publication: &&Publication| {
            publish.is_one_of([publication.request, publication.begun_by(now)])
                && publication.package() == publish.package
                && publication.expires_at > now
        };
        let living = self.list.iter().find(is_its);
        let living = living.map(|it| (&it.etag, seconds(it.expires_at - now)));
        let removed = || Some((&self.removed.by(publish, now)?.etag, 0));
        let (etag, left_s) = living.or_else(removed)?;
        let step = PublishStep::Repeated;
        Some(Plan::new(step, etag.to_string(), left_s, now, None, None))
    }

    fn begin(
        &self,
        publish: Publish<'_>,
        count_max: usize,
        now: Instant,
        new: &mut dyn FnMut() -> (u64, String),
    ) -> Result<Plan, Refusal> {
        let (number, etag) = new();
        let over = SaidOver::of(publish.document.as_ref(), number, now);
        let plan = |step, published| {
            let plan = Plan::new(step, etag, publish.granted_s, now, None, published);
            plan.with_over(over)
        };
        let document = publish.document.filter(|_| publish.granted_s > 0);
        let Some(document) = document else {
            return Ok(plan(PublishStep::Nothing, None));
        };
        let document = self.ended.filtered(&document, None).unwrap_or(document);
        if self.list.len() >= count_max {
            return Err(Refusal::TooManyPublications);
        }
        self.check_room(&document, None)?;
        let document = Arc::new(document);
        let published = Some(Published { number, document });
        Ok(plan(PublishStep::Created, published))
    }
}

impl Plan {
    /// The store keeps it in this row.
    pub fn set_row(&mut self, row: EndedBinding) {
        if let Some(publication) = &mut self.publication {
            publication.row = Some(row);
        }
        if let Some(removed) = &mut self.removed {
            removed.row = Some(row);
        }
    }

    /// Whether it takes a publication back, and the request that does it is remembered.
    pub fn remembers_removal(&self) -> bool {
        self.removed.is_some()
    }

    /// There is no need to remember what it takes back, or no room.
    pub fn forget_removal(&mut self) {
        self.removed = None;
    }

    /// How long the store has to keep what [`Publications::keep`] wrote, in seconds.
    pub fn kept_s(&self) -> u32 {
        match self.removed {
            Some(_) => REMEMBERED_FOR.as_secs() as u32,
            None => self.granted.expires_s,
        }
    }

    fn new(
        step: PublishStep,
        etag: String,
        granted_s: u32,
        now: Instant,
        index: Option<usize>,
        published: Option<Published>,
    ) -> Self {
        let publication = published.map(|published| Publication {
            etag: etag.as_str().into(),
            expires_at: now + Duration::from_secs(granted_s.into()),
            published,
            publisher: None,
            request: None,
            begun_by: None,
            begun_until: now,
            row: None,
        });
        let granted = Granted {
            etag,
            expires_s: granted_s,
            step,
        };
        Self {
            granted,
            index,
            publication,
            over: SaidOver::of(None, 0, now),
            removed: None,
        }
    }

    fn with_over(self, over: SaidOver) -> Self {
        Self { over, ..self }
    }

    fn published_by(
        mut self,
        publisher: Option<BindingId>,
        request: Option<u64>,
        begun: (Option<u64>, Instant),
    ) -> Self {
        if let Some(publication) = &mut self.publication {
            publication.publisher = publisher;
            publication.request = request;
            (publication.begun_by, publication.begun_until) = begun;
        }
        self
    }
}

/// What was kept: a publication, or that one was taken back.
#[derive(Debug)]
pub struct Restorable {
    kept: Kept,
    package: Package,
}

#[derive(Debug)]
enum Kept {
    Publication(StoredPublication),
    Removal(StoredRemoval),
}

impl Restorable {
    /// Reads what [`Publications::keep`] wrote.
    ///
    /// # Errors
    ///
    /// See [`NotRestored`].
    pub fn read(stored: &str) -> Result<Self, NotRestored> {
        let publication: StoredPublication = match serde_json::from_str(stored) {
            Ok(publication) => publication,
            Err(error) => return Self::read_removal(stored).unwrap_or(Err(error.into())),
        };
        Ok(Self {
            package: match &publication.document {
                StoredDocument::Presence(_) => Package::Presence,
                StoredDocument::Dialog { .. } => Package::Dialog,
                StoredDocument::Messages(_) => Package::MessageSummary,
            },
            kept: Kept::Publication(publication),
        })
    }

    fn read_removal(stored: &str) -> Option<Result<Self, NotRestored>> {
        let removal: StoredRemoval = serde_json::from_str(stored).ok()?;
        let Some(package) = Package::from_name(&removal.package) else {
            return Some(Err(NotRestored::Package(removal.package)));
        };
        let kept = Kept::Removal(removal);
        Some(Ok(Self { kept, package }))
    }

    /// The address of record that publishes it.
    pub fn device(&self) -> &str {
        match &self.kept {
            Kept::Publication(publication) => &publication.device,
            Kept::Removal(removal) => &removal.device,
        }
    }

    /// The highest number in the entity-tag, so that none is given twice.
    pub fn last_number(&self) -> u64 {
        let (etag, number) = match &self.kept {
            Kept::Publication(publication) => (&publication.etag, publication.number),
            Kept::Removal(removal) => (&removal.removed, 0),
        };
        let (in_tag, _) = etag.split_once('-').unwrap_or_default();
        u64::from_str_radix(in_tag, 16).unwrap_or(0).max(number)
    }

    /// Its package.
    pub fn package(&self) -> Package {
        self.package
    }

    /// Whether the publication was taken back.
    pub fn is_removal(&self) -> bool {
        matches!(self.kept, Kept::Removal(_))
    }
}

impl Publication {
    /// The request that began it, while a copy of that may still come.
    fn begun_by(&self, now: Instant) -> Option<u64> {
        self.begun_by.filter(|_| self.begun_until > now)
    }

    fn package(&self) -> Package {
        self.published.document.package()
    }
}

/// All that is told of one address of record goes into one NOTIFY, with its
/// contacts beside it, and that into one datagram of 64 KiB at most.
const WRITTEN_SUM_MAX: usize = 48 << 10;
