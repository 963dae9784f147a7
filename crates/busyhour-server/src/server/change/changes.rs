//! The part of the server that numbers changes and keeps the last ones.

use super::{
    element::{ChangeKind, EVENT},
    history::{Change, ChangeHistory},
    reader::ChangeId,
    record::{is_gone, tells_the_same},
    source::ChangeSource,
};
use crate::server::{
    server_clock::ServerClock,
    stats::{
        ChangeStats,
        counters::Counter,
        queues::SerializerListing,
        serializer_kind::{KindOptions, SerializerKind},
    },
};
use busyhour::{
    bus::{Delivery, Event, Forward, Name, Record, RecordKey, Subscription, Topic},
    clock::UnixTime,
    runtime::Runtime,
    serializer::Serializer,
    task::{Executor, Task},
    timer::{TimerHandle, Timers},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// What changes: the sources, their order, and the last value of each subject.
pub(in crate::server) struct Changes {
    pub(in crate::server) devices: ChangeSource,
    pub(in crate::server) mailboxes: ChangeSource,
    pub(in crate::server) hints: ChangeSource,
    pub(in crate::server) calls: ChangeSource,
    pub(in crate::server) kind: SerializerKind,
    pub(super) counters: ChangeCounters,
    /// What all sources tell, while somebody reads.
    joined: Topic<Record>,
    /// The same in one order, for readers; cached.
    told: Topic<Change>,
    /// Where records are numbered, and where the parts tell their states.
    serializer: Serializer,
    is_heard: Arc<AtomicBool>,
    /// Tells everything that there is, in steps.
    tell_states: OnceLock<TellStates>,
    states_told: Counter,
    state: Mutex<ChangesInner>,
    clock: Arc<ServerClock>,
    timers: Timers,
    /// Tells the numbers of this process from those of others.
    run: u64,
}

/// Tells the states of a portion of what there is, and returns the next portion; `None`
/// behind the last one.
pub(in crate::server) type TellStates =
    Box<dyn Fn(StatePortion) -> Option<StatePortion> + Send + Sync>;

/// Some of what there is. Each is less than what may wait for its number.
pub(in crate::server) enum StatePortion {
    /// Those behind this name.
    Mailboxes(Option<Name>),
    /// Those behind this extension.
    Hints(Option<Name>),
    /// Of one shard.
    Calls(usize),
    /// Of one shard.
    Devices(usize),
}

struct ChangesInner {
    history: ChangeHistory,
    /// The last change that readers have been given.
    published: u64,
    reader_count: usize,
    /// Ends the telling when nobody has read for a while.
    linger: Option<TimerHandle>,
    /// While changes are told.
    heard: Option<Numbering>,
    /// What was told is being forgotten: nothing is told until that is done.
    is_ending: bool,
    /// While the parts tell their states: whether they have to do so again.
    telling: Option<Again>,
}

/// Whether the states are to be told once more, from the first one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

/// What is there while somebody reads; dropping it ends that.
struct Numbering {
    _forwards: Vec<Forward<Record>>,
    _numbering: Subscription<Record>,
}

#[derive(Default)]
pub(super) struct ChangeCounters {
    pub(super) opened: Counter,
    pub(super) resumed: Counter,
    pub(super) reset: Counter,
    pub(super) lost: Counter,
    told: Counter,
    not_numbered: Counter,
}

impl Changes {
    pub(in crate::server) fn new(runtime: &Runtime, clock: Arc<ServerClock>) -> Self {
        let is_heard = Arc::default();
        let source = |name| ChangeSource::new(runtime, name, &is_heard);
        let kind = SerializerKind::new(runtime, OPTIONS);
        Self {
            devices: source("changes.devices"),
            mailboxes: source("changes.mailboxes"),
            hints: source("changes.hints"),
            calls: source("changes.calls"),
            serializer: kind.ephemeral(),
            kind,
            counters: ChangeCounters::default(),
            joined: runtime.topic("changes.joined").build(),
            told: runtime.topic("changes").cached().build(),
            tell_states: OnceLock::new(),
            states_told: Counter::default(),
            state: Mutex::new(ChangesInner {
                history: ChangeHistory::new(KEPT_MAX),
                published: 0,
                reader_count: 0,
                linger: None,
                heard: None,
                is_ending: false,
                telling: None,
            }),
            run: clock.unix_time().as_nanos(),
            clock,
            timers: runtime.timers().clone(),
            is_heard,
        }
    }

    /// Who tells what there is when somebody begins to read. It is set once.
    pub(in crate::server) fn tell_states_with(&self, tell_states: TellStates) {
        let _ = self.tell_states.set(tell_states);
    }

    pub(super) fn told(&self) -> &Topic<Change> {
        &self.told
    }

    pub(in crate::server) fn run(&self) -> u64 {
        self.run
    }

    /// What waits for the numbering.
    pub(in crate::server) fn queues(&self) -> SerializerListing {
        let mut listing = self.kind.listing();
        listing.add(self.serializer.stats(), || "numbering".to_owned());
        listing
    }

    pub(in crate::server) fn stats(&self) -> ChangeStats {
        let state = self.lock();
        ChangeStats {
            reader_count: state.reader_count as u64,
            kept_len: state.history.len() as u64,
            told: self.counters.told.get(),
            opened: self.counters.opened.get(),
            resumed: self.counters.resumed.get(),
            reset: self.counters.reset.get(),
            lost: self.counters.lost.get(),
            not_numbered: self.counters.not_numbered.get(),
        }
    }

    /// One reader more. The first one makes everything be told from now on, which this
    /// returns: while what was told is being forgotten, it will be so later.
    pub(super) fn begin_to_read(self: &Arc<Self>) -> bool {
        self.counters.opened.increment();
        let mut state = self.lock();
        state.reader_count += 1;
        if let Some(linger) = state.linger.take() {
            // One that runs already looks whether somebody reads.
            let _ = self.timers.cancel(&linger);
        }
        if state.heard.is_none() && !state.is_ending {
            self.begin_to_hear(&mut state);
        }
        state.heard.is_some()
    }

    /// One reader less. After the last one everything is kept for a while, for one that
    /// comes back.
    pub(super) fn end_reading(self: &Arc<Self>) {
        let mut state = self.lock();
        state.reader_count -= 1;
        if state.reader_count > 0 {
            return;
        }
        let changes = Arc::downgrade(self);
        let timer = self.timers.timer().label("changes").after(LINGER);
        let set = timer.on(&self.serializer).run(move || {
            if let Some(changes) = changes.upgrade() {
                changes.end_if_quiet();
            }
        });
        match set {
            Ok(linger) => state.linger = Some(linger),
            Err(_) => {
                drop(state);
                self.end_if_quiet();
            }
        }
    }

    fn begin_to_hear(self: &Arc<Self>, state: &mut ChangesInner) {
        state.heard = Some(self.hear());
        // Before any part tells its state: what changes later is told.
        self.is_heard.store(true, Ordering::Release);
        self.tell_all(state);
    }

    /// The changes after the one of this number; `None` if not all are kept.
    pub(super) fn since(&self, number: u64) -> Option<Vec<Change>> {
        let state = self.lock();
        let changes = state.history.since(number)?;
        Some(changes.cloned().collect())
    }

    /// How many states were told so far to those who read already.
    pub(super) fn states_told(&self) -> u64 {
        self.states_told.get()
    }

    /// How many changes got no number so far.
    pub(super) fn missed(&self) -> u64 {
        self.counters.not_numbered.get()
    }

    /// The place of the last change.
    pub(in crate::server) fn position(&self) -> ChangeId {
        ChangeId::new(self.run(), self.published())
    }

    /// The number of the last change that is in the cache; later ones may be there, too.
    pub(in crate::server) fn published(&self) -> u64 {
        self.lock().published
    }

    /// Nobody waits for the serializer here, and the topics of the parts have no cache: so
    /// nothing else runs under the lock.
    fn hear(self: &Arc<Self>) -> Numbering {
        let changes = Arc::downgrade(self);
        let numbering = self.joined.subscribe().name("the numbering of changes");
        let numbering = numbering.capacity(WAITING_MAX).on(&self.serializer);
        let numbering = numbering.start(move |delivery| {
            let Some(changes) = changes.upgrade() else {
                return;
            };
            match delivery {
                Delivery::Event(record, _) => changes.take(record),
                Delivery::Lost(count) => changes.miss(count),
                Delivery::Removed(..) | Delivery::Replayed => {}
            }
        });
        let sources = [&self.devices, &self.mailboxes, &self.hints, &self.calls];
        let forwards = sources.map(|source| source.topic().forward_to(&self.joined));
        Numbering {
            // Each is forwarded once, and to a topic that is not forwarded.
            _forwards: forwards.into_iter().flatten().collect(),
            _numbering: numbering,
        }
    }

    fn end_if_quiet(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.reader_count > 0 || state.heard.is_none() || state.is_ending {
            return;
        }
        state.linger = None;
        self.is_heard.store(false, Ordering::Release);
        let heard = state.heard.take();
        // Nobody can go on from a change before the silence.
        state.history.skip(1);
        state.published = state.history.last();
        state.is_ending = true;
        // A reader that comes from now on waits until everything has been told again.
        let _ = self.told.remove(&complete());
        drop(state);
        // Waits for the numbering, which takes the lock.
        drop(heard);
        let _ = self.told.remove_matching(|_| true);
        let mut state = self.lock();
        state.is_ending = false;
        if state.reader_count > 0 {
            self.begin_to_hear(&mut state);
        }
    }

    /// Has the parts tell their states, from the first one on.
    fn tell_all(self: &Arc<Self>, state: &mut ChangesInner) {
        match state.telling {
            Some(_) => state.telling = Some(Again::Yes),
            None => {
                state.telling = Some(Again::No);
                self.tell_portion(StatePortion::FIRST);
            }
        }
    }

    /// The next portion waits behind the records of this one, so that there is room for
    /// them.
    fn tell_portion(self: &Arc<Self>, portion: StatePortion) {
        let changes = Arc::downgrade(self);
        let task = Task::labelled(&"states of everything", move || {
            let Some(changes) = changes.upgrade() else {
                return;
            };
            let tell_states = changes.tell_states.get();
            match tell_states.and_then(|tell_states| tell_states(portion)) {
                Some(next) => changes.tell_portion(next),
                None => changes.finish_telling(),
            }
        });
        // There is one at a time; one that takes no more is shut down.
        let _ = self.serializer.execute_unbounded(task);
    }

    fn finish_telling(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.telling.take() == Some(Again::Yes) {
            return self.tell_all(&mut state);
        }
        drop(state);
        let _ = self.joined.publish(Record::new(NOTICE, COMPLETE));
    }

    /// Numbers a record and gives it to the readers. Runs on the serializer, one at a time.
    fn take(&self, record: &Record) {
        if record.sort() == NOTICE {
            let _ = self.told.publish(self.notice(record.clone()));
            return;
        }
        let known = self.told.get(record.key());
        let is_known = |known: &Change| tells_the_same(known.record(), record);
        let is_event = record.get(EVENT).is_some();
        let is_state = ChangeKind::of_sort(record.sort()).is_some_and(ChangeKind::is_state);
        let is_nothing = match &known {
            Some(known) => (!is_event || is_state) && is_known(known),
            None => is_gone(record) && (!is_event || is_state),
        };
        if is_nothing {
            return;
        }
        let change = match is_event {
            true => self.number(record),
            false => {
                self.states_told.increment();
                self.notice(record.clone())
            }
        };
        let number = change.number();
        // A reader that is too slow learns what it has lost.
        let _ = self.told.publish(change);
        if is_gone(record) {
            let _ = self.told.remove(record.key());
        }
        self.lock().published = number;
    }

    fn number(&self, record: &Record) -> Change {
        self.counters.told.increment();
        self.lock().history.push(self.now(), record.clone())
    }

    /// What is told without a number of its own.
    fn notice(&self, record: Record) -> Change {
        Change::new(self.lock().history.last(), self.now(), record)
    }

    /// The numbering had no room for so many records: nobody knows what they were. What is
    /// in the cache may be gone, so it is emptied; readers are told, and the states are told
    /// again. Until that is done a snapshot waits: see `ChangeReader::begin_with_states`.
    fn miss(self: &Arc<Self>, count: u64) {
        let _ = self.told.remove(&complete());
        self.counters.not_numbered.add(count);
        let _ = self.told.remove_matching(|_| true);
        let mut state = self.lock();
        state.history.skip(count);
        state.published = state.history.last();
        self.tell_all(&mut state);
        drop(state);
        // A reader that has no room for the notice learns that from its own loss.
        let _ = self.told.publish(self.notice(Record::new(NOTICE, MISSED)));
    }

    fn now(&self) -> UnixTime {
        self.clock.unix_time()
    }

    fn lock(&self) -> MutexGuard<'_, ChangesInner> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl StatePortion {
    const FIRST: Self = Self::Mailboxes(None);
}

/// The key of the notice that everything has been told.
pub(super) fn complete() -> RecordKey {
    RecordKey::new(NOTICE, COMPLETE)
}

/// Whether a record is for readers themselves, and about no part of the server.
pub(super) fn is_notice(record: &Record) -> bool {
    record.sort() == NOTICE
}

const OPTIONS: KindOptions = KindOptions {
    name: "changes",
    low: 2,
    high: 16,
    unlabelled: "records",
};
/// The sort of notices; no kind of change has it.
const NOTICE: u16 = 0;
const COMPLETE: &str = "complete";
const MISSED: &str = "missed";
/// Changes that a reader can go on from: at most some megabytes.
const KEPT_MAX: usize = 16_384;
/// Records that wait for their number. A portion of the states is less.
const WAITING_MAX: usize = 65_536;
/// How long changes are told for nobody after the last reader has left.
pub(super) const LINGER: Duration = Duration::from_secs(300);
