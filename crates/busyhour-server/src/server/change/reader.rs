//! One reader of changes: a stream that any async runtime polls.

use super::{
    changes::{Changes, complete, is_notice},
    filter::ChangeFilter,
    history::Change,
};
use busyhour::{
    bus::{Event, EventStream, Message, RecordKey},
    task::Overflow,
};
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    vec,
};
use tokio_stream::Stream;

/// What a reader of changes wants.
#[derive(Debug, Clone, Default)]
pub struct ChangeRequest {
    /// Who it is, for the list of subscriptions.
    pub name: String,
    /// Which changes it wants.
    pub filter: ChangeFilter,
    /// Whether it wants the last value of each subject first.
    pub wants_snapshot: bool,
    /// The id of the last event that it has, if it goes on.
    pub last_id: Option<String>,
}

/// What a reader of changes receives.
#[derive(Debug, Clone)]
pub enum ChangeEvent {
    /// It cannot go on from where it stopped; the last value of each subject follows.
    Reset,
    /// What is so at this moment.
    State(Change),
    /// From here on it receives each change.
    Live(ChangeId),
    /// A change.
    Changed(ChangeId, Change),
    /// It was too slow: so many changes are lost to it.
    Lost(u64),
}

/// The place of a change in the order of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeId {
    run: u64,
    number: u64,
}

/// A stream of changes; dropping it ends the subscription.
pub struct ChangeReader {
    changes: Arc<Changes>,
    request: ChangeRequest,
    /// What is sent before anything else.
    first: VecDeque<ChangeEvent>,
    states: vec::IntoIter<Change>,
    phase: ReaderPhase,
    /// The last change that it has, or from before it began.
    seen: u64,
    /// Changes that it was told from what is kept, and that its queue has not passed yet.
    told_early: u64,
    /// The changes without a number that it has been told of, or from before it began.
    missed: u64,
    /// The states that were told to those who read before its last loss.
    states_told: u64,
    /// Subjects whose states were sent as they are after a change that may still come.
    newer: HashMap<RecordKey, u64>,
}

enum ReaderPhase {
    /// Until the cache has everything.
    Waiting(EventStream<Change>),
    Live(EventStream<Change>),
}

impl Changes {
    /// Begins to read.
    pub(in crate::server) fn read(self: &Arc<Self>, request: ChangeRequest) -> ChangeReader {
        let is_heard = self.begin_to_read();
        let mut reader = ChangeReader {
            phase: ReaderPhase::Waiting(self.wait_until_complete()),
            changes: self.clone(),
            first: VecDeque::new(),
            states: Vec::new().into_iter(),
            seen: 0,
            told_early: 0,
            missed: self.missed(),
            states_told: self.states_told(),
            newer: HashMap::new(),
            request,
        };
        match reader.request.last_id.take() {
            Some(last) => reader.go_on(ChangeId::read(&last)),
            None if is_heard && !reader.request.wants_snapshot => reader.begin_live(),
            None => {}
        }
        reader
    }

    /// Hears the notice that everything has been told; at once if that was so before.
    fn wait_until_complete(&self) -> EventStream<Change> {
        self.told().subscribe().key(complete()).replay().stream()
    }
}

impl ChangeReader {
    fn go_on(&mut self, last: Option<ChangeId>) {
        let of_this_run = last.filter(|last| last.run == self.changes.run());
        // Before what was missed is looked up, so that nothing falls in between.
        let live = self.subscribe();
        let missed = of_this_run.and_then(|last| {
            self.seen = last.number;
            self.changes.since(last.number)
        });
        match missed {
            Some(missed) => {
                self.changes.counters.resumed.increment();
                self.catch_up(missed);
                self.first.push_back(ChangeEvent::Live(self.id(self.seen)));
                self.phase = ReaderPhase::Live(live);
            }
            None => {
                self.changes.counters.reset.increment();
                self.request.wants_snapshot = true;
                self.first.push_back(ChangeEvent::Reset);
            }
        }
    }

    fn begin_live(&mut self) {
        let live = self.subscribe();
        self.seen = self.changes.published();
        self.first.push_back(ChangeEvent::Live(self.id(self.seen)));
        self.phase = ReaderPhase::Live(live);
    }

    /// The subscription comes first, so what changes meanwhile is in the snapshot, or comes
    /// later, or both; then it is told once.
    ///
    /// When changes are missed, first the notice that everything has been told is removed,
    /// then they are counted, then the cache is emptied. So with the notice there, and with
    /// the same count before it was looked for and after the snapshot, the snapshot is whole.
    fn begin_with_states(&mut self) {
        let missed = self.changes.missed();
        let live = self.subscribe();
        self.seen = self.changes.published();
        let is_complete = self.changes.told().get(&complete()).is_some();
        let mut states = self.changes.told().snapshot();
        if !is_complete || self.changes.missed() != missed {
            self.phase = ReaderPhase::Waiting(self.changes.wait_until_complete());
            return;
        }
        self.missed = missed;
        self.states_told = self.changes.states_told();
        states.retain(|state| self.wants(state));
        let newer = states.iter().filter(|state| state.number() > self.seen);
        self.newer = newer
            .map(|state| (state.record().key().clone(), state.number()))
            .collect();
        self.states = states.into_iter();
        self.first.push_back(ChangeEvent::Live(self.id(self.seen)));
        self.phase = ReaderPhase::Live(live);
    }

    fn subscribe(&self) -> EventStream<Change> {
        let filter = self.request.filter.clone();
        let wants = move |change: &Change| {
            let record = change.record();
            is_notice(record) || filter.wants(record)
        };
        let live = self.changes.told().subscribe().capacity(WAITING_MAX);
        let live = live.name(self.request.name.as_str()).matching(wants);
        // A loss is then announced before all that came after it.
        let live = live.overflow(Overflow::DropOldest);
        live.stream()
    }

    /// What was missed comes before everything else.
    fn catch_up(&mut self, missed: Vec<Change>) {
        let last = missed.last().map_or(self.seen, Change::number);
        let wanted = missed.into_iter().filter(|change| self.wants(change));
        let run = self.changes.run();
        let id = |number| ChangeId { run, number };
        let changed = wanted.map(|change| ChangeEvent::Changed(id(change.number()), change));
        self.first = changed.collect();
        self.seen = last;
    }

    fn wants(&self, change: &Change) -> bool {
        let record = change.record();
        !is_notice(record) && self.request.filter.wants(record)
    }

    fn id(&self, number: u64) -> ChangeId {
        let run = self.changes.run();
        ChangeId { run, number }
    }

    /// What a message means for this reader; `None` is nothing.
    fn hear(&mut self, message: Message<Change>) -> Option<ChangeEvent> {
        match message {
            Message::Event(change, _) => self.hear_change(change),
            Message::Lost(count) => self.lose(count),
            Message::Removed(..) | Message::Replayed => None,
        }
    }

    fn hear_change(&mut self, change: Change) -> Option<ChangeEvent> {
        if is_notice(change.record()) {
            let missed = self.miss();
            return (missed > 0).then_some(ChangeEvent::Lost(missed));
        }
        if !change.is_event() {
            let is_wanted = self.request.wants_snapshot;
            return is_wanted.then_some(ChangeEvent::State(change));
        }
        let number = change.number();
        let newer = self.newer.get(change.record().key());
        if number <= self.seen {
            self.told_early = self.told_early.saturating_sub(1);
            return None;
        }
        if newer.is_some_and(|newer| number <= *newer) {
            return None;
        }
        self.seen = number;
        Some(ChangeEvent::Changed(self.id(number), change))
    }

    /// It was too slow for its queue, which passes every wanted change in order, or drops it.
    /// What was told early is not lost; of the rest, what is still kept is told.
    fn lose(&mut self, dropped: u64) -> Option<ChangeEvent> {
        let count = dropped.saturating_sub(self.told_early);
        self.told_early = self.told_early.saturating_sub(dropped);
        if count == 0 {
            return None;
        }
        let states_told = self.changes.states_told();
        let had_states = std::mem::replace(&mut self.states_told, states_told) != states_told;
        // States that were told again are not kept: they may be among what is lost.
        let is_changes_only = !had_states || !self.request.wants_snapshot;
        match self.changes.since(self.seen).filter(|_| is_changes_only) {
            Some(missed) => {
                self.catch_up(missed);
                // The queue still holds those behind the dropped ones.
                self.told_early = (self.first.len() as u64).saturating_sub(count);
                None
            }
            None => {
                self.changes.counters.lost.add(count);
                Some(ChangeEvent::Lost(count + self.miss()))
            }
        }
    }

    /// How many changes got no number since it was told of that.
    fn miss(&mut self) -> u64 {
        let missed = self.changes.missed();
        missed - std::mem::replace(&mut self.missed, missed)
    }

    /// What is ready without waiting: what comes first, then the states, and then that they
    /// are complete.
    fn next_prepared(&mut self) -> Option<ChangeEvent> {
        let is_live = matches!(self.first.front(), Some(ChangeEvent::Live(_)));
        if is_live && let Some(state) = self.states.next() {
            return Some(ChangeEvent::State(state));
        }
        self.first.pop_front()
    }
}

impl Stream for ChangeReader {
    type Item = ChangeEvent;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ChangeEvent>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.next_prepared() {
                return Poll::Ready(Some(event));
            }
            let message = match &mut this.phase {
                ReaderPhase::Waiting(complete) => {
                    let message = ready!(Pin::new(complete).poll_next(context));
                    match message {
                        None => return Poll::Ready(None),
                        Some(Message::Event(..)) if this.request.wants_snapshot => {
                            this.begin_with_states();
                        }
                        Some(Message::Event(..)) => this.begin_live(),
                        Some(_) => {}
                    }
                    continue;
                }
                ReaderPhase::Live(live) => ready!(Pin::new(live).poll_next(context)),
            };
            let Some(message) = message else {
                return Poll::Ready(None);
            };
            if let Some(event) = this.hear(message) {
                return Poll::Ready(Some(event));
            }
        }
    }
}

impl Drop for ChangeReader {
    fn drop(&mut self) {
        self.changes.end_reading();
    }
}

impl ChangeId {
    pub(super) fn new(run: u64, number: u64) -> Self {
        Self { run, number }
    }

    /// `None` for what no server has written.
    fn read(text: &str) -> Option<Self> {
        let (run, number) = text.split_once('-')?;
        Some(Self {
            run: u64::from_str_radix(run, 16).ok()?,
            number: number.parse().ok()?,
        })
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}-{}", self.run, self.number)
    }
}

impl fmt::Debug for ChangeReader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ChangeReader")
            .field("request", &self.request)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

/// Changes that wait for one reader.
const WAITING_MAX: usize = 1024;
