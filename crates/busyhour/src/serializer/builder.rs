use std::{fmt, sync::Arc};

use super::{
    AlertGroup, QueueAlert, QueueAlertHook, Serializer, SerializerTemplate, ShutdownGroup,
    core::Core, named_state::NamedState, overload::SharedMarks, state::Bound, template::Template,
};
use crate::{
    pool::TaskPool,
    run_queue::{Class, Priority, RealTimePriority},
    task::Overflow,
};

/// Why a serializer could not be built.
///
/// ```
/// use busyhour::{pool::TaskPool, serializer::SerializerBuildError};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let _calls = pool.serializer("calls").build().unwrap();
/// let again = pool.serializer("calls").build().unwrap_err();
/// assert_eq!(again, SerializerBuildError::NameTaken("calls".into()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SerializerBuildError {
    /// Another living serializer of the pool has the name.
    NameTaken(String),
    /// The name is empty; only ephemeral serializers have no name.
    NameEmpty,
    /// The capacity is zero; a queue needs room for at least one task.
    CapacityZero(String),
    /// The watermarks do not satisfy low < high ≤ capacity.
    Watermarks(String),
}

impl fmt::Display for SerializerBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken(name) => write!(f, "a serializer named {name:?} exists already"),
            Self::NameEmpty => {
                f.write_str("a serializer needs a name; use TaskPool::ephemeral for one without")
            }
            Self::CapacityZero(name) => write!(f, "the capacity of serializer {name:?} is 0"),
            Self::Watermarks(name) => write!(
                f,
                "the watermarks of serializer {name:?} must satisfy low < high ≤ capacity"
            ),
        }
    }
}

impl std::error::Error for SerializerBuildError {}

/// Options of a [`Serializer`].
///
/// ```
/// use busyhour::{pool::TaskPool, run_queue::Priority, serializer::ShutdownGroup, task::Overflow};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = TaskPool::builder().workers(1).build()?;
/// let group = ShutdownGroup::named("calls");
/// let calls = pool.serializer("calls")
///     .capacity(1_000)
///     .overflow(Overflow::DropOldest)
///     .priority(Priority::MAX)
///     .on_alert(100, 900, |alert| println!("{:?}: {} wait", alert.mark, alert.queued_len))
///     .group(&group)
///     .build()?;
/// calls.push_wait(|| ())?;
/// assert!(group.shutdown(Duration::from_secs(5)).is_clean());
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct SerializerBuilder {
    pool: TaskPool,
    name: Option<Arc<str>>,
    bound: Bound,
    class: Class,
    group: Option<ShutdownGroup>,
    marks: Option<(usize, usize)>,
    hooks: Vec<QueueAlertHook>,
    alert_group: Option<AlertGroup>,
}

impl SerializerBuilder {
    pub(super) fn new(pool: &TaskPool, name: Option<&str>) -> Self {
        Self {
            pool: pool.clone(),
            name: name.map(Arc::from),
            bound: Bound {
                capacity: DEFAULT_CAPACITY,
                overflow: Overflow::Reject,
            },
            class: Class::default(),
            group: None,
            marks: None,
            hooks: Vec::new(),
            alert_group: None,
        }
    }

    /// How many tasks may wait, at most 4,294,967,295; default 65,536.
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.bound.capacity = u32::try_from(tasks).unwrap_or(u32::MAX);
        self
    }

    /// What happens to a push when the queue is full; default
    /// [`Overflow::Reject`].
    pub fn overflow(mut self, policy: Overflow) -> Self {
        self.bound.overflow = policy;
        self
    }

    /// The serializer's share of the workers, relative to other serializers.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.class = Class::Normal(priority);
        self
    }

    /// Puts the serializer into the real-time class: while it has tasks it runs
    /// before every normal one on its worker, and before real-time ones of a
    /// lower priority. If it never becomes idle, the normal ones of that worker
    /// wait until another worker takes them.
    ///
    /// ```
    /// use busyhour::{pool::TaskPool, run_queue::RealTimePriority};
    ///
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let alarms = pool.serializer("alarms").real_time(RealTimePriority::new(50));
    /// assert_eq!(alarms.build().unwrap().push_wait(|| 1), Ok(1));
    /// ```
    pub fn real_time(mut self, priority: RealTimePriority) -> Self {
        self.class = Class::RealTime(priority);
        self
    }

    /// Adds the serializer to a group, with which it is shut down.
    pub fn group(mut self, group: &ShutdownGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Calls `hook` when `high` tasks wait, and again when the queue has fallen
    /// back to `low`; the two alternate.
    pub fn on_alert(
        mut self,
        low: usize,
        high: usize,
        hook: impl Fn(&QueueAlert) + Send + Sync + 'static,
    ) -> Self {
        self.hooks.push(Arc::new(hook));
        self.watermarks(low, high)
    }

    /// Sets watermarks without a hook, for a listener to all serializers: the
    /// topic of a [`Runtime`](crate::runtime::Runtime::queue_alerts).
    pub fn watermarks(mut self, low: usize, high: usize) -> Self {
        self.marks = Some((low, high));
        self
    }

    /// Counts the serializer in `group` while it is above its high watermark.
    pub fn alert_group(mut self, group: &AlertGroup) -> Self {
        self.alert_group = Some(group.clone());
        self
    }

    /// Adds one more hook for queue alerts.
    pub(crate) fn send_alerts_to(mut self, hook: QueueAlertHook) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Creates the serializer.
    ///
    /// # Errors
    ///
    /// See [`SerializerBuildError`].
    pub fn build(self) -> Result<Serializer, SerializerBuildError> {
        let name = self.check()?;
        let pool = self.pool.clone();
        let built = (pool.shared().registry).claim(&name, || self.create());
        match built {
            Some(core) => Ok(Serializer { core }),
            None => Err(SerializerBuildError::NameTaken(name.to_string())),
        }
    }

    /// Keeps the options for many serializers of this kind. The name is that of
    /// the kind; other serializers may have it, too.
    ///
    /// # Errors
    ///
    /// See [`SerializerBuildError`]; never
    /// [`NameTaken`](SerializerBuildError::NameTaken).
    pub fn template(self) -> Result<SerializerTemplate, SerializerBuildError> {
        let name = self.check()?;
        let marks = self.shared_marks();
        if let Some(group) = &self.group {
            group.list_in(self.pool.shared());
        }
        Ok(SerializerTemplate::new(Template {
            pool: self.pool,
            name,
            bound: self.bound,
            class: self.class,
            group: self.group,
            marks,
        }))
    }

    pub(super) fn build_ephemeral(self) -> Serializer {
        Serializer {
            core: self.create(),
        }
    }

    /// The name, if all options are valid.
    fn check(&self) -> Result<Arc<str>, SerializerBuildError> {
        let name = self.name.clone().unwrap_or_default();
        let capacity = self.bound.capacity as usize;
        let fits = |&(low, high): &(usize, usize)| low < high && high <= capacity;
        if name.is_empty() {
            Err(SerializerBuildError::NameEmpty)
        } else if capacity == 0 {
            Err(SerializerBuildError::CapacityZero(name.to_string()))
        } else if !self.marks.as_ref().is_none_or(fits) {
            Err(SerializerBuildError::Watermarks(name.to_string()))
        } else {
            Ok(name)
        }
    }

    fn shared_marks(&self) -> Option<Arc<SharedMarks>> {
        let (low, high) = self.marks?;
        Some(Arc::new(SharedMarks {
            low,
            high,
            hooks: self.hooks.iter().map(Arc::clone).collect(),
            group: self.alert_group.clone(),
        }))
    }

    fn create(self) -> Arc<Core> {
        let marks = self.shared_marks();
        let named_state = self.name.map(|name| NamedState::listed(name, marks));
        let core = Core::new(self.pool, self.bound, self.class, named_state);
        if let Some(group) = self.group {
            group.list_in(core.pool());
            group.join(&core);
        }
        core
    }
}

/// 4 MiB of tasks when full.
const DEFAULT_CAPACITY: u32 = 1 << 16;
