//! The watermarks of a pool's own queue. See README.md, "Watermarks".

use std::{fmt, sync::Arc};

use super::{builder::TaskPoolBuilder, moves::Moves, shared::Shared};
use crate::{
    sync::{
        Mutex, lock,
        runtime::atomic::{AtomicBool, Ordering},
    },
    task::Watermark,
};

/// What waits for all workers of a pool together has crossed a watermark; high
/// and low alternate.
///
/// ```
/// use busyhour::{pool::TaskPool, task::Watermark};
/// use std::sync::mpsc;
///
/// let (sender, alerts) = mpsc::channel();
/// let pool = TaskPool::builder().workers(1).on_alert(1, 3, move |alert| {
///     _ = sender.send(alert.mark);
/// });
/// let pool = pool.build().unwrap();
/// let (release, held) = mpsc::channel::<()>();
/// pool.push(move || _ = held.recv()).unwrap();
/// for _ in 0..5 {
///     pool.push(|| ()).unwrap();
/// }
/// drop(release);
/// assert_eq!(alerts.iter().take(2).collect::<Vec<_>>(), [Watermark::High, Watermark::Low]);
/// ```
#[doc(alias("ast_taskprocessor_alert_set_levels", "high water mark"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolAlert {
    /// The watermark that was crossed.
    pub mark: Watermark,
    /// The number of tasks and serializers that waited at that moment.
    pub queued_len: usize,
}

/// Receives alerts, one at a time. Runs on the pushing thread or on a worker,
/// and must be short.
pub type PoolAlertHook = Arc<dyn Fn(&PoolAlert) + Send + Sync>;

/// The watermarks, and which one was crossed last.
pub(super) struct PoolWatermarks {
    pub(super) low: usize,
    pub(super) high: usize,
    /// As long as no queue of a slot is longer, the high one is not reached.
    share: usize,
    /// A copy of the state's, so that workers see without a lock that there is
    /// nothing to do.
    is_high: AtomicBool,
    state: Mutex<WatermarkState>,
    moves: Moves,
    hooks: Box<[PoolAlertHook]>,
}

#[derive(Default)]
struct WatermarkState {
    is_high: bool,
    /// The crossing that the hooks were told last.
    told_high: bool,
    /// A thread calls the hooks now, and continues until they know the state.
    is_telling: bool,
    queued_len: usize,
    raised: u64,
}

impl WatermarkState {
    /// What the hooks do not know yet. Who takes it tells it, however late.
    fn next_to_tell(&mut self) -> Option<PoolAlert> {
        self.is_telling = self.told_high != self.is_high;
        self.told_high = self.is_high;
        let mark = match self.is_high {
            true => Watermark::High,
            false => Watermark::Low,
        };
        let queued_len = self.queued_len;
        self.is_telling.then_some(PoolAlert { mark, queued_len })
    }
}

impl PoolWatermarks {
    /// `queue_count` is the number of queues that the pool has in all slots.
    pub(super) fn new(builder: &TaskPoolBuilder, queue_count: usize) -> Option<Self> {
        let (low, high) = builder.marks?;
        Some(Self {
            low,
            high,
            share: high / queue_count.max(1),
            is_high: AtomicBool::new(false),
            state: Mutex::default(),
            moves: Moves::default(),
            hooks: builder.alert_hooks.iter().map(Arc::clone).collect(),
        })
    }

    /// Whether the high one may have been reached by a push that made a queue
    /// this long. Looking costs a cache line for each slot, so there is one look
    /// for as many pushes as workers.
    pub(super) fn must_look(&self, len: usize, worker_count: usize) -> bool {
        len >= self.share && !self.is_high() && len % worker_count.max(1) == 0
    }

    /// Whether the high one was crossed last; a hint.
    #[inline]
    pub(super) fn is_high(&self) -> bool {
        self.is_high.load(Ordering::Relaxed)
    }

    /// The same, as the lock says.
    fn is_high_for_sure(&self) -> bool {
        lock(&self.state).is_high
    }

    /// How often the high one was crossed.
    pub(super) fn raised(&self) -> u64 {
        lock(&self.state).raised
    }

    /// Counts what waits and notes a crossing; returns what the caller must tell
    /// the hooks, unless another thread calls them now. Work on its way is in no
    /// queue, so nothing ends an alert meanwhile.
    fn look(&self, queued_len: impl Fn() -> usize) -> Option<PoolAlert> {
        let mut state = lock(&self.state);
        let queued_len = match state.is_high {
            false => queued_len(),
            true => self.moves.count_at_rest(queued_len)?,
        };
        state.queued_len = queued_len;
        let is_crossed = match state.is_high {
            false => state.queued_len >= self.high,
            true => state.queued_len <= self.low,
        };
        if !is_crossed {
            return None;
        }
        state.is_high = !state.is_high;
        state.raised += u64::from(state.is_high);
        self.is_high.store(state.is_high, Ordering::Relaxed);
        if state.is_telling {
            return None;
        }
        state.next_to_tell()
    }

    /// What the hooks are to be told next; the caller repeats this until there is
    /// nothing, so that hooks never run concurrently.
    fn next_to_tell(&self) -> Option<PoolAlert> {
        lock(&self.state).next_to_tell()
    }

    /// The hooks, whose drop is foreign code.
    pub(super) fn take_hooks(&mut self) -> Box<[PoolAlertHook]> {
        std::mem::take(&mut self.hooks)
    }
}

/// Ends a move, also if it panics.
struct EndOfMove<'a>(&'a Moves);

impl Drop for EndOfMove<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Shared {
    /// A worker has read the clock: it looks if its queues are long, or if the
    /// queue was too long.
    #[inline]
    pub(super) fn look_at_marks_again(&self, own_len: impl FnOnce() -> usize) {
        let Some(marks) = &self.marks else { return };
        if marks.is_high() || own_len() >= marks.share {
            self.look_at(marks);
        }
    }

    /// A worker finds nothing to do, so only an alert can end. The lock decides
    /// whether a push that finds the queue too long comes before, so that this
    /// sees it, or after, so that the push sees what this worker has taken.
    pub(super) fn look_at_marks(&self) {
        let marks = self.marks.as_ref();
        if let Some(marks) = marks.filter(|marks| marks.is_high_for_sure()) {
            self.look_at(marks);
        }
    }

    /// Runs what takes work out of a queue and puts it into one of the running
    /// worker's. A push counts without what is on its way, and may be the last of a
    /// burst, so the worker looks afterwards.
    #[inline]
    pub(super) fn while_moving<R>(
        &self,
        own_len: impl FnOnce() -> usize,
        run: impl FnOnce() -> R,
    ) -> R {
        let Some(marks) = &self.marks else {
            return run();
        };
        marks.moves.begin();
        let end = EndOfMove(&marks.moves);
        let moved = run();
        drop(end);
        if !marks.is_high() && own_len() >= marks.share {
            self.look_at(marks);
        }
        moved
    }

    /// Whether somebody could not count what waits since the last call.
    pub(super) fn is_count_awaited(&self) -> bool {
        let marks = self.marks.as_ref();
        marks.is_some_and(|marks| marks.moves.is_awaited())
    }

    /// Notes and tells a crossing, if there is one.
    #[cold]
    pub(super) fn look_at(&self, marks: &PoolWatermarks) {
        let mut next = marks.look(|| self.queued_len());
        while let Some(alert) = next {
            #[cfg(feature = "tracing")]
            crate::trace::pool_crossed(&self.name, alert.mark == Watermark::High, alert.queued_len);
            for hook in &marks.hooks {
                self.isolate(|| hook(&alert));
            }
            next = marks.next_to_tell();
        }
    }
}

impl fmt::Debug for PoolWatermarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolWatermarks")
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
