use super::queue::QueueHandle;
use std::fmt;

/// Identifies one timer of a [`Timers`](super::Timers) service.
///
/// It is 16 bytes and may be copied, kept and dropped freely. Dropping it does
/// not cancel the timer. It never identifies a later timer; in another service
/// it identifies none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TimerHandle {
    pub(super) service: u32,
    pub(super) shard: u32,
    pub(super) timer: QueueHandle,
}

impl TimerHandle {
    /// Identifies no timer, ever.
    pub(super) const NEVER: Self = Self {
        service: u32::MAX,
        shard: u32::MAX,
        timer: QueueHandle::NEVER,
    };

    /// The handle as two numbers, for languages that cannot hold the type.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::{pool::TaskPool, timer::{Cancel, TimerHandle, Timers}};
    ///
    /// let timers = Timers::builder().build();
    /// let pool = TaskPool::builder().workers(1).build().unwrap();
    /// let bits = timers.after(Duration::from_secs(60), &pool, || ()).to_bits();
    /// assert_eq!(timers.cancel(&TimerHandle::from_bits(bits)), Cancel::Prevented);
    /// assert_eq!(timers.cancel(&TimerHandle::from_bits([0, 0])), Cancel::AlreadyRan);
    /// ```
    pub const fn to_bits(self) -> [u64; 2] {
        let place = (self.service as u64) << 32 | self.shard as u64;
        [place, self.timer.to_bits()]
    }

    /// The handle of two numbers that [`TimerHandle::to_bits`] gave. Two zeros
    /// identify no timer; other numbers identify none, or any.
    pub const fn from_bits([place, timer]: [u64; 2]) -> Self {
        Self {
            service: (place >> 32) as u32,
            shard: place as u32,
            timer: QueueHandle::from_bits(timer),
        }
    }
}

/// The timer's number for people: shard, slot, and the count of the slot's uses.
impl fmt::Display for TimerHandle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.shard, self.timer)
    }
}

/// The result of cancelling a timer.
///
/// ```
/// use std::time::Duration;
/// use busyhour::{runtime::Runtime, timer::Cancel};
///
/// let runtime = Runtime::simulated(7);
/// let (timers, minute) = (runtime.timers(), Duration::from_secs(60));
/// let timer = timers.after(minute, runtime.pool(), || unreachable!());
/// assert_eq!(timers.cancel(&timer), Cancel::Prevented);
/// runtime.simulation().unwrap().run_for(2 * minute); // it does not run
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a cancelled timer may be running right now"]
pub enum Cancel {
    /// The callback has been dropped and will never run (again).
    Prevented,
    /// Too late: it has run, or was cancelled or lost before.
    AlreadyRan,
    /// Too late: it is running now. A periodic one will not run again.
    Running,
}
