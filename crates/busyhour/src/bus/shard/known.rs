use crate::{
    bus::{
        Event,
        cache::{Seen, SharedEvent},
        delivery::Answers,
        nodes::{Basis, Folded, Folding, NodeId},
        panics::Panics,
    },
    sync::runtime::thread_local,
};
use std::{cell::Cell, mem};

/// What was found out with no lock held, for a try under the lock.
///
/// A try that needs to know more leaves a note here and the lock; then the
/// user's code says it, and the next try looks whether it is still right.
pub(in crate::bus) struct Known<E: Event> {
    /// Where the key is in the table.
    pub(in crate::bus) seen: Seen,
    pub(in crate::bus) answers: Answers<E>,
    fold: FoldStep<E>,
    matched: Option<Matched<E>>,
    /// What is no longer right, until no lock is held.
    outdated: Option<Box<Outdated<E>>>,
    /// How often the user's code changed the topic while it was asked.
    disturbed: u32,
}

enum FoldStep<E: Event> {
    Nothing,
    Wanted(Basis<E>),
    Done(Folded<E>),
}

/// Whether an event that is cached is one of those to be cleared.
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
    /// Most changes have asked nothing of what runs the user's code when it is
    /// dropped, but for answers, which drop themselves one by one.
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

/// What a node does to its part of a fold.
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

    /// What was folded from this; `None` when it is to be folded first.
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

    /// Forgets what was folded, and what was said of that, since nothing is to
    /// be folded any more; `false` when nothing was.
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

    /// Hands out what was folded.
    pub(in crate::bus) fn take_folded(&mut self) -> Option<Folded<E>> {
        match mem::replace(&mut self.fold, FoldStep::Nothing) {
            FoldStep::Done(folded) => Some(folded),
            FoldStep::Nothing | FoldStep::Wanted(_) => None,
        }
    }

    /// Whether this event, the last of its key, is to be cleared; `None` when
    /// that is to be asked first.
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

    /// Runs the user's code for whatever the last try wanted to know. No lock
    /// may be held.
    pub(in crate::bus) fn find_out(
        &mut self,
        folding: Option<&Folding<E>>,
        (key, event): (&E::Key, Option<&E>),
        part: Option<Part<'_, E>>,
        is_wanted: Option<&dyn Fn(&E) -> bool>,
    ) {
        if let (Some(matched), Some(is_wanted)) = (&mut self.matched, is_wanted)
            && matched.is_wanted.is_none()
        {
            matched.is_wanted = Some(is_wanted(&matched.event));
        }
        self.fold_as_wanted(folding, part);
        let folded = match &self.fold {
            FoldStep::Done(folded) => folded.event.as_deref(),
            FoldStep::Nothing | FoldStep::Wanted(_) => None,
        };
        self.answers.answer(key, folded.or(event));
    }

    /// Runs `ask`, which runs the user's code after a try in vain. Panics where
    /// that code changes this topic every time: the answer would never be right.
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
        // What was said of an earlier state is not said of this one.
        self.answers = Answers::new();
    }
}

/// Takes note that this thread has changed the topic. Where it does so within
/// the user's code, what that code is asked about may change with every question.
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

/// A question that the user's code of a topic answers, perhaps within one of
/// another topic.
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

    /// Whether this thread has changed the topic meanwhile. Nobody knows of
    /// questions within too many others, so they count as disturbed.
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

/// Questions within each other that are told apart.
const DEPTH_MAX: usize = 8;

thread_local! {
    /// How many questions this thread is about to answer, each within the one
    /// before.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The topic of each, and whether it was changed meanwhile.
    static ASKED: [Cell<(u64, bool)>; DEPTH_MAX] = const { [const { Cell::new((0, false)) }; DEPTH_MAX] };
}

/// The changes of other threads are no reason to give up, only a thread's own.
const DISTURBED_MAX: u32 = 16;
