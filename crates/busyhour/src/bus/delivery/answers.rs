use super::{attribute::Probe, consumer::Subscriber, item::Item};
use crate::bus::{Event, panics::Panics};
use foldhash::fast::FixedState;
use std::{collections::HashMap, sync::Arc};

/// The answers of user code for one change: which keys are equal, which
/// subscribers want the event.
///
/// The holder of a lock asks questions, leaves the lock, has them answered, and
/// tries again. An answer stays right over any number of repetitions, since
/// each question names its objects by identity.
pub(in crate::bus) struct Answers<E: Event> {
    /// Most changes ask one question, which needs no list.
    first: Option<AskedQuestion<E>>,
    /// `None` until there is a second question: most changes ask nothing, and
    /// should not pay for empty lists.
    others: Option<Box<MoreQuestions<E>>>,
    open_count: usize,
}

struct MoreQuestions<E: Event> {
    /// In the order in which they were asked.
    list: Vec<AskedQuestion<E>>,
    /// The index of each of them, once there are more than a few.
    index: HashMap<Id, usize, FixedState>,
}

struct AskedQuestion<E: Event> {
    question: Question<E>,
    answer: Option<u64>,
}

pub(in crate::bus) enum Question<E: Event> {
    /// Is this key equal to the change's key?
    Key(Arc<E::Key>),
    /// Does this subscriber's predicate or value accept the event?
    Wanted(Arc<Subscriber<E>>),
    /// What is the hash of the event's value of this attribute?
    Value(Arc<dyn Probe<E>>),
    /// Does the item that waits under this number for this subscriber have the
    /// change's key?
    Waiting(Arc<Subscriber<E>>, usize, Item<E>),
}

/// Identifies a question.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    Key(usize),
    Wanted(usize),
    Value(usize),
    Waiting(usize, usize),
}

impl<E: Event> Question<E> {
    fn id(&self) -> Id {
        match self {
            Self::Key(key) => Id::Key(address(key)),
            Self::Wanted(subscriber) => Id::Wanted(address(subscriber)),
            Self::Value(probe) => Id::Value(address(probe)),
            Self::Waiting(subscriber, number, _) => Id::Waiting(address(subscriber), *number),
        }
    }

    /// Runs user code. No lock may be held.
    fn ask(&self, key: &E::Key, event: Option<&E>) -> u64 {
        match self {
            Self::Key(other) => u64::from(**other == *key),
            Self::Wanted(subscriber) => u64::from(event.is_some_and(|it| subscriber.wants(it))),
            Self::Value(probe) => event.map_or(0, |event| probe.hash_of(event)),
            Self::Waiting(_, _, item) => u64::from(item.key() == Some(key)),
        }
    }
}

impl<E: Event> Answers<E> {
    /// Of a change that asks nothing.
    pub(in crate::bus) const NONE: &'static Self = &Self::new();

    pub(in crate::bus) const fn new() -> Self {
        Self {
            first: None,
            others: None,
            open_count: 0,
        }
    }

    /// Whether some question has no answer yet.
    pub(in crate::bus) fn has_open_questions(&self) -> bool {
        self.open_count > 0
    }

    /// Whether this is the change's key; `None` if user code has to compare it
    /// first.
    pub(in crate::bus) fn is_key(&mut self, key: &Arc<E::Key>) -> Option<bool> {
        let answer = self.of_or_ask(Id::Key(address(key)), || Question::Key(Arc::clone(key)));
        answer.map(|answer| answer != 0)
    }

    pub(in crate::bus) fn is_wanted(&mut self, by: &Arc<Subscriber<E>>) -> Option<bool> {
        let answer = self.of_or_ask(Id::Wanted(address(by)), || Question::Wanted(Arc::clone(by)));
        answer.map(|answer| answer != 0)
    }

    pub(in crate::bus) fn value_of(&mut self, probe: &Arc<dyn Probe<E>>) -> Option<u64> {
        self.of_or_ask(Id::Value(address(probe)), || {
            Question::Value(Arc::clone(probe))
        })
    }

    pub(in crate::bus) fn ask_waiting(
        &mut self,
        of: &Arc<Subscriber<E>>,
        number: usize,
        item: &Item<E>,
    ) {
        self.of_or_ask(Id::Waiting(address(of), number), || {
            Question::Waiting(Arc::clone(of), number, item.clone())
        });
    }

    /// Whether the answer is known to be yes.
    pub(in crate::bus) fn has_key(&self, key: &Arc<E::Key>) -> bool {
        self.of(Id::Key(address(key))) == Some(1)
    }

    /// As [`Self::has_key`].
    pub(in crate::bus) fn has_wanted(&self, of: &Arc<Subscriber<E>>) -> bool {
        self.of(Id::Wanted(address(of))) == Some(1)
    }

    /// As [`Self::has_key`].
    pub(in crate::bus) fn has_waiting(&self, of: &Arc<Subscriber<E>>, number: usize) -> bool {
        self.of(Id::Waiting(address(of), number)) == Some(1)
    }

    /// The hash of the event's value, if it is known.
    pub(in crate::bus) fn known_value(&self, probe: &Arc<dyn Probe<E>>) -> Option<u64> {
        self.of(Id::Value(address(probe)))
    }

    fn of_or_ask(&mut self, id: Id, question: impl FnOnce() -> Question<E>) -> Option<u64> {
        if let Some(asked) = self.find(id) {
            return asked.answer;
        }
        let asked = AskedQuestion {
            question: question(),
            answer: None,
        };
        self.open_count += 1;
        match self.first {
            None => self.first = Some(asked),
            Some(_) => self.others.get_or_insert_default().add(id, asked),
        }
        None
    }

    fn of(&self, id: Id) -> Option<u64> {
        self.find(id)?.answer
    }

    #[inline]
    fn find(&self, id: Id) -> Option<&AskedQuestion<E>> {
        let first = self.first.as_ref()?;
        if first.question.id() == id {
            return Some(first);
        }
        self.others.as_ref()?.find(id)
    }

    /// Runs user code for every open question. No lock may be held.
    pub(in crate::bus) fn answer(&mut self, key: &E::Key, event: Option<&E>) {
        let others = self.others.iter_mut().flat_map(|others| &mut others.list);
        for asked in self.first.iter_mut().chain(others) {
            if asked.answer.is_none() {
                asked.answer = Some(asked.question.ask(key, event));
                self.open_count -= 1;
            }
        }
    }
}

impl<E: Event> MoreQuestions<E> {
    fn add(&mut self, id: Id, asked: AskedQuestion<E>) {
        self.list.push(asked);
        if self.list.len() == SCANNED_MAX + 1 {
            let all = self.list.iter().enumerate();
            self.index = all.map(|(at, asked)| (asked.question.id(), at)).collect();
        } else if self.list.len() > SCANNED_MAX {
            self.index.insert(id, self.list.len() - 1);
        }
    }

    fn find(&self, id: Id) -> Option<&AskedQuestion<E>> {
        if self.list.len() > SCANNED_MAX {
            return Some(&self.list[*self.index.get(&id)?]);
        }
        self.list.iter().find(|asked| asked.question.id() == id)
    }
}

impl<E: Event> Default for MoreQuestions<E> {
    fn default() -> Self {
        let (list, index) = (Vec::new(), HashMap::default());
        Self { list, index }
    }
}

impl<E: Event> Drop for Answers<E> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.first.is_some() {
            self.drop_all();
        }
    }
}

impl<E: Event> Answers<E> {
    #[cold]
    fn drop_all(&mut self) {
        let mut panics = Panics::default();
        panics.drop(self.first.take());
        for asked in self
            .others
            .iter_mut()
            .flat_map(|others| others.list.drain(..))
        {
            panics.drop(asked);
        }
    }
}

fn address<T: ?Sized>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

/// Up to this many questions are searched linearly.
const SCANNED_MAX: usize = 8;
