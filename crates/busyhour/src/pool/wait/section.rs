//! Futures that keep an entity for themselves while they wait, and what they
//! wait for. See README.md, "Who waits for whom".
#![allow(
    clippy::missing_const_for_thread_local,
    reason = "the models' thread-locals have no constant initialisers"
)]

use std::{
    cell::RefCell,
    sync::{Arc, Weak},
};

use super::wait_graph::{Waiting, section_waits_for};
use crate::{
    pool::{Cycle, context::current_entity, entity::Entity},
    sync::{
        runtime::atomic::{AtomicBool, Ordering},
        thread_local,
    },
};

thread_local! {
    /// The innermost section that this thread polls.
    static POLLED: RefCell<Option<Arc<Section>>> = RefCell::new(None);
}

/// A future that keeps an entity for itself, in the view of the wait graph.
pub(crate) struct Section {
    entity: Weak<dyn Entity>,
    /// Its first poll is over, and it waits.
    has_begun: AtomicBool,
}

impl Section {
    pub(crate) fn new(entity: &Arc<dyn Entity>) -> Arc<Self> {
        Arc::new(Self {
            entity: Arc::downgrade(entity),
            has_begun: AtomicBool::new(false),
        })
    }

    /// Its first poll is over; returns whether that was known.
    pub(crate) fn begin(&self) -> bool {
        self.has_begun.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Runs `poll`, whose waits are those of this section.
    pub(crate) fn polling<R>(self: &Arc<Self>, poll: impl FnOnce() -> R) -> R {
        let outer = POLLED.with(|polled| polled.replace(Some(Arc::clone(self))));
        let _outer = Outer(outer);
        poll()
    }

    /// The section that this thread polls, unless it runs another entity's task
    /// meanwhile.
    pub(crate) fn current() -> Option<Arc<Self>> {
        let section = POLLED.with(|polled| polled.borrow().clone())?;
        section.is_of(&current_entity()?).then_some(section)
    }

    /// Whether it keeps `entity`.
    pub(crate) fn is_of(&self, entity: &Arc<dyn Entity>) -> bool {
        self.entity.as_ptr().addr() == Arc::as_ptr(entity).addr()
    }

    pub(super) fn entity(&self) -> Option<Arc<dyn Entity>> {
        self.entity.upgrade()
    }
}

/// Restores the outer section, also when a poll unwinds.
struct Outer(Option<Arc<Section>>);

impl Drop for Outer {
    fn drop(&mut self) {
        let outer = self.0.take();
        POLLED.with(|polled| *polled.borrow_mut() = outer);
    }
}

/// While this lives, a section waits for an entity.
pub(crate) struct SectionWait {
    section: Weak<Section>,
    _waiting: Waiting,
}

impl SectionWait {
    /// Records in `noted` that the section which this thread polls waits for
    /// the entity, once for each section; or returns the cycle that this closes.
    /// Outside of sections nothing is recorded.
    pub(crate) fn note(
        noted: &mut Option<Self>,
        awaited: impl FnOnce() -> Option<Arc<dyn Entity>>,
    ) -> Result<(), Cycle> {
        let Some(section) = Section::current() else {
            *noted = None;
            return Ok(());
        };
        if (noted.as_ref()).is_some_and(|noted| noted.section.as_ptr() == Arc::as_ptr(&section)) {
            return Ok(());
        }
        *noted = None;
        let (Some(awaited), Some(waiter)) = (awaited(), section.entity()) else {
            return Ok(());
        };
        *noted = Some(Self {
            _waiting: section_waits_for(&section, waiter, &awaited)?,
            section: Arc::downgrade(&section),
        });
        Ok(())
    }
}
