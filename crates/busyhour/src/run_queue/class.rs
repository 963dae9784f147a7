/// How an entity competes for its worker.
///
/// ```
/// use busyhour::{pool::TaskPool, run_queue::{Class, Priority, RealTimePriority}};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let media = pool.serializer("media").build().unwrap();
/// media.set_class(Class::RealTime(RealTimePriority::new(50)));
/// let report = pool.spawn_as(Class::Normal(Priority::MIN), async { 1 });
/// assert_eq!(report.wait(), Ok(1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Shares the worker with other normal entities, in proportion to the
    /// priority.
    Normal(Priority),
    /// Runs before every normal entity while it is runnable.
    RealTime(RealTimePriority),
}

impl Default for Class {
    fn default() -> Self {
        Self::Normal(Priority::DEFAULT)
    }
}

/// The priority of a normal entity, 1 (lowest) to 40 (highest).
///
/// It is the number of ticks that the entity may run in an epoch, and the
/// larger part of its goodness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The lowest: one tick per epoch.
    pub const MIN: Self = Self(1);
    /// The default: 20 ticks per epoch.
    pub const DEFAULT: Self = Self(20);
    /// The highest: 40 ticks per epoch.
    pub const MAX: Self = Self(40);

    /// The priority `value`, limited to 1 to 40.
    ///
    /// ```
    /// use busyhour::run_queue::Priority;
    ///
    /// assert_eq!(Priority::new(30).get(), 30);
    /// assert_eq!(Priority::new(0), Priority::MIN);
    /// assert_eq!(Priority::new(99), Priority::MAX);
    /// ```
    pub const fn new(value: u8) -> Self {
        match value {
            0 => Self::MIN,
            1..40 => Self(value),
            40.. => Self::MAX,
        }
    }

    /// The priority as a number, 1 to 40.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The priority of a real-time entity, 0 (lowest) to 99 (highest).
///
/// ```
/// use busyhour::run_queue::{Class, QueueEnd, RealTimePriority, RunQueue, SchedState, WorkerId};
///
/// assert_eq!(RealTimePriority::new(200), RealTimePriority::MAX);
/// let mut queue = RunQueue::new(WorkerId::new(0));
/// let urgent = Class::RealTime(RealTimePriority::new(10));
/// queue.wake("normal", &mut SchedState::new(Class::default()), QueueEnd::Front);
/// queue.wake("urgent", &mut SchedState::new(urgent), QueueEnd::Back);
/// assert_eq!(queue.pick(), Some("urgent"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RealTimePriority(u8);

impl RealTimePriority {
    /// The highest.
    pub const MAX: Self = Self(99);

    /// The real-time priority `value`, at most 99.
    pub const fn new(value: u8) -> Self {
        if value < 99 { Self(value) } else { Self::MAX }
    }

    /// The priority as a number, 0 to 99.
    pub const fn get(self) -> u8 {
        self.0
    }
}
