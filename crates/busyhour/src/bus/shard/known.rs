use crate::{
    bus::{
        Event,
        cache::{Seen, SharedEvent},
        delivery::Answers,
        nodes::{Basis, Folded, Folding, NodeId},
        panics::Panics,
    },
    sync::zeroed_thread_local,
};
use std::{cell::Cell, mem};

/// What an attempt under the lock needs to know and was found out without it.
///
/// An attempt that needs to know more records its question here and leaves the
/// lock. Then user code answers it, and the next attempt checks whether the
/// answer is still right.
pub(in crate::bus) struct Known<E: Event> {
    /// Where the key is in the table.
    pub(in crate::bus) seen: Seen,
    pub(in crate::bus) answers: Answers<E>,
    fold: FoldStep<E>,
    matched: Option<Matched<E>>,
    /// Outdated values, kept until no lock is held.
    outdated: Option<Box<Outdated<E>>>,
    /// How often user code changed the topic while it was asked.
    disturbed: u32,
}

enum FoldStep<E: Event> {
    Nothing,
    Wanted(Basis<E>),
    Done(Folded<E>),
}

/// Whether a cached event satisfies the condition of a removal.
struct Matched<E: Event> {
    event: SharedEvent<E>,
    is_wanted: Option<bool>,
}

struct Outdated<E: Event> {
    folds: Vec<FoldStep<E>>,
    answers: Vec<Answers<E>>,
    events: Vec<SharedEvent<E>>,
}

impl<E: Event> Drop for Known<E> {
    /// Most changes hold nothing whose drop runs user code except answers,
    /// which drop themselves one by one.
    #[inline(always)]
    fn drop(&mut self) {
        let has_fold = !matches!(self.fold, FoldStep::Nothing);
        if has_fold || self.matched.is_some() || self.outdated.is_some() {
            self.drop_all();
        }
    }
}

impl<E: Event> Known<E> {
    #[cold]
    fn drop_all(&mut self) {
        let mut panics = Panics::default();
        panics.drop(mem::replace(&mut self.fold, FoldStep::Nothing));
        panics.drop(self.matched.take());
        if let Some(mut outdated) = self.outdated.take() {
            outdated.drop_all(&mut panics);
        }
        panics.drop(mem::replace(&mut self.answers, Answers::new()));
    }

    fn outdated(&mut self) -> &mut Outdated<E> {
        self.outdated.get_or_insert_default()
    }
}

impl<E: Event> Default for Outdated<E> {
    fn default() -> Self {
        Self {
            folds: Vec::new(),
            answers: Vec::new(),
            events: Vec::new(),
        }
    }
}

impl<E: Event> Outdated<E> {
    fn drop_all(&mut self, panics: &mut Panics) {
        for fold in self.folds.drain(..) {
            panics.drop(fold);
        }
        for answers in self.answers.drain(..) {
            panics.drop(answers);
        }
        for event in self.events.drain(..) {
            panics.drop(event);
        }
    }
}

/// How a node changes its part of a fold.
pub(in crate::bus) enum Part<'a, E> {
    Says(NodeId, &'a E),
    Withdraws(NodeId),
}

impl<E: Event> Known<E> {
    #[inline(always)]
    pub(in crate::bus) const fn new() -> Self {
        Self {
            seen: Seen::NOTHING,
            answers: Answers::new(),
            fold: FoldStep::Nothing,
            matched: None,
            outdated: None,
            disturbed: 0,
        }
    }

    /// The fold of this basis; `None` if it must be computed first.
    pub(in crate::bus) fn folded(&mut self, basis: Basis<E>) -> Option<&Folded<E>> {
        let is_done = matches!(&self.fold, FoldStep::Done(folded) if folded.is_from(&basis));
        if !is_done {
            let wanted = FoldStep::Wanted(basis);
            let outdated = mem::replace(&mut self.fold, wanted);
            if !matches!(outdated, FoldStep::Nothing) {
                self.outdated().folds.push(outdated);
            }
            return None;
        }
        self.last_folded()
    }

    /// Forgets the fold and its answers, since nothing is to be folded any
    /// more; `false` if there was no fold.
    #[inline(always)]
    pub(in crate::bus) fn unfold(&mut self) -> bool {
        let is_folded = !matches!(self.fold, FoldStep::Nothing);
        if is_folded {
            self.unfold_apart();
        }
        is_folded
    }

    #[cold]
    fn unfold_apart(&mut self) {
        let fold = mem::replace(&mut self.fold, FoldStep::Nothing);
        let answers = mem::replace(&mut self.answers, Answers::new());
        let outdated = self.outdated();
        outdated.folds.push(fold);
        outdated.answers.push(answers);
    }

    fn last_folded(&self) -> Option<&Folded<E>> {
        match &self.fold {
            FoldStep::Done(folded) => Some(folded),
            FoldStep::Nothing | FoldStep::Wanted(_) => None,
        }
    }

    /// Takes the fold.
    pub(in crate::bus) fn take_folded(&mut self) -> Option<Folded<E>> {
        match mem::replace(&mut self.fold, FoldStep::Nothing) {
            FoldStep::Done(folded) => Some(folded),
            FoldStep::Nothing | FoldStep::Wanted(_) => None,
        }
    }

    /// Whether this last event of its key satisfies the predicate of the
    /// removal; `None` if the predicate must run first.
    pub(in crate::bus) fn matches(&mut self, event: SharedEvent<E>) -> Option<bool> {
        let known = self.matched.as_ref();
        let known = known.filter(|it| SharedEvent::is_same(&it.event, &event));
        let is_wanted = known.and_then(|matched| matched.is_wanted);
        let matched = Matched { event, is_wanted };
        if let Some(outdated) = self.matched.replace(matched) {
            self.outdated().events.push(outdated.event);
        }
        is_wanted
    }

    /// Runs the user code that the last attempt needs. No lock may be held.
    pub(in crate::bus) fn find_out(
        &mut self,
        folding: Option<&Folding<E>>,
        (key, event): (&E::Key, Option<&E>),
        part: Option<Part<'_, E>>,
        is_wanted: Option<&dyn Fn(&E) -> bool>,
    ) {
        if let (Some(matched), Some(is_wanted)) = (&mut self.matched, is_wanted) {
            if matched.is_wanted.is_none() {
                matched.is_wanted = Some(is_wanted(&matched.event));
            }
        }
        self.fold_as_wanted(folding, part);
        let folded = match &self.fold {
            FoldStep::Done(folded) => folded.event.as_deref(),
            FoldStep::Nothing | FoldStep::Wanted(_) => None,
        };
        self.answers.answer(key, folded.or(event));
    }

    /// Runs `ask`, which runs user code after a failed attempt. Panics if that
    /// code changes this topic each time: the answer would never be up to date.
    pub(in crate::bus) fn ask(&mut self, topic: u64, ask: impl FnOnce(&mut Self)) {
        let asking = Asking::begin(topic);
        ask(self);
        self.disturbed += u32::from(asking.is_disturbed());
        assert!(
            self.disturbed < DISTURBED_MAX,
            "a key, a filter or a fold that changes its topic whenever it is asked can never be answered"
        );
    }

    fn fold_as_wanted(&mut self, folding: Option<&Folding<E>>, part: Option<Part<'_, E>>) {
        let Some((folding, part)) = folding.zip(part) else {
            return;
        };
        let basis = match mem::replace(&mut self.fold, FoldStep::Nothing) {
            FoldStep::Wanted(basis) => basis,
            other => {
                self.fold = other;
                return;
            }
        };
        self.fold = FoldStep::Done(match part {
            Part::Says(origin, event) => folding.join(basis, (origin, event)),
            Part::Withdraws(origin) => folding.part(basis, origin),
        });
        // Answers about an earlier state do not hold for this one.
        self.answers = Answers::new();
    }
}

/// Records that this thread has changed the topic. If it does so within user
/// code, every question to that code may change the answer again.
#[inline(always)]
pub(in crate::bus) fn note_change(topic: u64) {
    let depth = DEPTH.with(Cell::get);
    if depth > 0 {
        note_disturbed(topic, depth);
    }
}

#[cold]
fn note_disturbed(topic: u64, depth: usize) {
    ASKED.with(|asked| {
        for question in asked.iter().take(depth) {
            let (about, is_disturbed) = question.get();
            question.set((about, is_disturbed || about == topic));
        }
    });
}

/// A question that user code of a topic is answering, perhaps within a question
/// of another topic.
struct Asking {
    depth: usize,
}

impl Asking {
    fn begin(topic: u64) -> Self {
        let depth = DEPTH.with(Cell::get);
        DEPTH.with(|cell| cell.set(depth + 1));
        ASKED.with(|asked| {
            if let Some(question) = asked.get(depth) {
                question.set((topic, false));
            }
        });
        Self { depth }
    }

    /// Whether this thread has changed the topic meanwhile. Questions nested
    /// too deeply are not tracked, so they count as disturbed.
    fn is_disturbed(&self) -> bool {
        ASKED.with(|asked| {
            asked
                .get(self.depth)
                .is_none_or(|question| question.get().1)
        })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        DEPTH.with(|cell| cell.set(self.depth));
    }
}

/// The depth to which nested questions are tracked.
const DEPTH_MAX: usize = 8;

zeroed_thread_local! {
    /// The number of nested questions that this thread is answering.
    static DEPTH: Cell<usize>;
    /// The topic of each, and whether it was changed meanwhile.
    static ASKED: [Cell<(u64, bool)>; DEPTH_MAX];
}

/// Only changes by the same thread count; those of other threads are no reason
/// to give up.
const DISTURBED_MAX: u32 = 16;
