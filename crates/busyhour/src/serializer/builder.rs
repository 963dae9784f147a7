use std::sync::Arc;

use super::{
    Serializer, ShutdownGroup, Water, WaterHook,
    core::{Bound, Core},
    overload::Marks,
};
use crate::{pool::TaskPool, run_queue::Priority, task::Overflow};

/// Why a serializer could not be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Another living serializer of the pool has the name.
    #[error("a serializer named {0:?} exists already")]
    NameTaken(String),
    /// The empty name is for ephemeral serializers.
    #[error("a serializer needs a name; use TaskPool::ephemeral for one without")]
    NameEmpty,
    /// A queue needs room for one task at least.
    #[error("the capacity of serializer {0:?} is 0")]
    CapacityZero(String),
    /// The marks must satisfy low < high ≤ capacity.
    #[error("the marks of serializer {0:?} must satisfy low < high ≤ capacity")]
    WaterMarks(String),
}

/// Options of a [`Serializer`].
#[must_use]
pub struct Builder {
    pool: TaskPool,
    name: Arc<str>,
    bound: Bound,
    priority: Priority,
    group: Option<ShutdownGroup>,
    marks: Option<Marks>,
}

impl Builder {
    pub(super) fn new(pool: &TaskPool, name: Option<&str>) -> Self {
        Self {
            pool: pool.clone(),
            name: name.unwrap_or_default().into(),
            bound: Bound {
                capacity: DEFAULT_CAPACITY,
                overflow: Overflow::Reject,
            },
            priority: Priority::default(),
            group: None,
            marks: None,
        }
    }

    /// Tasks that may wait; default 65,536.
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.bound.capacity = tasks;
        self
    }

    /// What happens to one task more; default [`Overflow::Reject`].
    pub fn overflow(mut self, policy: Overflow) -> Self {
        self.bound.overflow = policy;
        self
    }

    /// Its share of the workers beside other serializers.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Shuts it down together with the group.
    pub fn group(mut self, group: &ShutdownGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Tells `hook` when `high` tasks wait, and then when it fell back to
    /// `low`; each once until the other was told.
    pub fn water(
        mut self,
        low: usize,
        high: usize,
        hook: impl Fn(&Water) + Send + Sync + 'static,
    ) -> Self {
        let hook: WaterHook = Arc::new(hook);
        self.marks = Some(Marks {
            low,
            high,
            hook,
            is_high: false,
        });
        self
    }

    /// Creates the serializer.
    ///
    /// # Errors
    ///
    /// See [`BuildError`].
    pub fn build(self) -> Result<Serializer, BuildError> {
        self.check()?;
        let (pool, name) = (self.pool.clone(), Arc::clone(&self.name));
        let registry = &pool.shared().registry;
        let built = registry.claim(&name, || self.create());
        built
            .ok_or_else(|| BuildError::NameTaken(name.to_string()))
            .map(|core| Serializer { core })
    }

    pub(super) fn build_ephemeral(self) -> Serializer {
        Serializer {
            core: self.create(),
        }
    }

    fn check(&self) -> Result<(), BuildError> {
        let name = || self.name.to_string();
        let capacity = self.bound.capacity;
        let fits = |marks: &Marks| marks.low < marks.high && marks.high <= capacity;
        if self.name.is_empty() {
            Err(BuildError::NameEmpty)
        } else if capacity == 0 {
            Err(BuildError::CapacityZero(name()))
        } else if !self.marks.as_ref().is_none_or(fits) {
            Err(BuildError::WaterMarks(name()))
        } else {
            Ok(())
        }
    }

    fn create(self) -> Arc<Core> {
        let core = Core::new(self.pool, self.name, self.bound, self.priority, self.marks);
        if let Some(group) = self.group {
            group.join(&core);
        }
        core
    }
}

/// 4 MiB of task slots when full.
const DEFAULT_CAPACITY: usize = 1 << 16;
