use std::sync::{Arc, Weak};

use crate::{
    clock::Instant,
    pool::{Entity, Joinable, Section, Shared},
    serializer::{
        core::Core,
        state::{Admission, SerializerState},
    },
    sync::{Mutex, lock},
    task::{Reason, Rejected, Task},
};

/// A future that keeps the serializer for itself, in the serializer's state.
pub(in crate::serializer) struct WaitingSection {
    /// The next poll, once the future was woken.
    pub(in crate::serializer) poll: Option<Task>,
    pub(in crate::serializer) woken_since: Instant,
    future: Option<Weak<dyn Joinable>>,
}

/// The section of one future. It is kept by the future and by what wakes it.
pub(super) struct ExclusiveSection {
    core: Arc<Core>,
    section: Arc<Section>,
    /// Set before the first poll.
    future: Mutex<Option<Weak<dyn Joinable>>>,
}

impl ExclusiveSection {
    pub(super) fn new(core: &Arc<Core>) -> Arc<Self> {
        Arc::new(Self {
            core: Arc::clone(core),
            section: Section::new(&core.as_entity()),
            future: Mutex::new(None),
        })
    }

    pub(super) fn set_future(&self, future: &Weak<dyn Joinable>) {
        *lock(&self.future) = Some(Weak::clone(future));
    }

    pub(super) fn has_begun(&self) -> bool {
        self.section.has_begun()
    }

    pub(super) fn polling<R>(&self, poll: impl FnOnce() -> R) -> R {
        self.section.polling(poll)
    }

    /// Keeps the serializer from now on; inside a poll that will be pending.
    /// `false` if no poll will follow.
    pub(super) fn keep(&self) -> bool {
        if self.section.begin() {
            return true;
        }
        let future = lock(&self.future).clone();
        self.core.begin_section(future)
    }

    /// Queues the next poll, ahead of all that waits.
    pub(super) fn push_poll(&self, task: Task) -> Result<(), Rejected> {
        self.core.push_poll(task)
    }

    /// Lets the other tasks run again.
    pub(super) fn leave(&self) {
        if self.has_begun() {
            self.core.end_section();
        }
    }
}

impl Core {
    fn begin_section(self: &Arc<Self>, future: Option<Weak<dyn Joinable>>) -> bool {
        self.pool().lifecycle.begin_section();
        let mut state = self.state.lock();
        debug_assert!(state.section().is_none() && state.is_running);
        state.rare().section = Some(WaitingSection {
            poll: None,
            woken_since: Instant::ZERO,
            future,
        });
        let mut is_sealed = state.admission == Admission::Sealed;
        drop(state);
        if !self.is_listed() {
            self.pool().registry.suspend(&self.as_entity());
            // The shutdown may have passed this serializer already.
            is_sealed |= self.pool().is_sealed();
        }
        if is_sealed {
            self.abandon();
        }
        !is_sealed
    }

    /// Unlike a push, it is accepted until the pool is sealed: the section was
    /// accepted before.
    fn push_poll(self: &Arc<Self>, task: Task) -> Result<(), Rejected> {
        let pushing = self.begin_push();
        if self.pool().is_sealed() {
            return Err(self.refuse(task, Reason::ShutDown));
        }
        let context = self.pool().thread_context();
        let now = context.now();
        let mut state = self.state.lock();
        let is_sealed = state.admission == Admission::Sealed;
        let Some(section) = state.section_mut().filter(|_| !is_sealed) else {
            drop(state);
            return Err(self.refuse(task, Reason::ShutDown));
        };
        section.woken_since = now;
        let replaced = section.poll.replace(task);
        debug_assert!(replaced.is_none(), "a future has one poll at a time");
        context.count_pushed();
        drop(pushing);
        self.after_change(state, context);
        Ok(())
    }

    fn end_section(self: &Arc<Self>) {
        if !self.is_listed() {
            self.pool().registry.resume(&self.as_entity());
        }
        let mut state = self.state.lock();
        let section = state.rare().section.take();
        let context = self.pool().thread_context();
        let poll = section.and_then(|section| section.poll);
        if poll.is_some() {
            // Aborted after its wake: the poll would do nothing.
            context.count_dropped(1);
        }
        self.after_change(state, context);
        self.pool().isolate(|| drop(poll));
        self.pool().lifecycle.end_section();
    }
}

/// What a serializer that is sealed has taken from its section.
pub(in crate::serializer) struct EndedSection {
    poll: Option<Task>,
    future: Option<Weak<dyn Joinable>>,
}

impl EndedSection {
    pub(in crate::serializer) fn of(state: &mut SerializerState) -> Self {
        let section = state.section_mut();
        section.map_or(
            Self {
                poll: None,
                future: None,
            },
            |section| Self {
                poll: section.poll.take(),
                future: section.future.clone(),
            },
        )
    }

    /// How many polls were accepted and will not run.
    pub(in crate::serializer) fn poll_count(&self) -> u64 {
        u64::from(self.poll.is_some())
    }

    /// Drops the future, with no lock held: the poll it would have had does so,
    /// or a wake, whose poll is refused. While the future is polled, it is
    /// dropped after that.
    pub(in crate::serializer) fn end(self, pool: &Shared) {
        pool.isolate(|| drop(self.poll));
        let future = self.future.and_then(|future| future.upgrade());
        if let Some(future) = future {
            pool.isolate(|| future.wake_now());
        }
    }
}
