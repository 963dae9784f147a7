//! The options of an older kind of thread pool, mapped onto a task pool.

use std::time::Duration;

use super::{PoolBuildError, TaskPool, builder::WORKERS_MAX};

/// Options of a thread pool with one work queue, as programs used them from
/// 2012 to 2024.
///
/// ```
/// use busyhour::pool::{ThreadPool, ThreadPoolOptions};
///
/// let options = ThreadPoolOptions {
///     initial_size: 2,
///     auto_increment: 5,
///     max_size: 50,
///     idle_timeout_secs: 60,
/// };
/// let pool = ThreadPool::new("old habits", options).unwrap();
/// pool.push(|| println!("still runs")).unwrap();
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadPoolOptions {
    /// Threads at the start. There is always at least one worker.
    pub initial_size: usize,
    /// Threads added when a push finds no idle one; 0: the pool does not grow.
    pub auto_increment: usize,
    /// Maximum number of threads; 0: no limit except that of a task pool.
    pub max_size: usize,
    /// Seconds after which an idle thread ends; 0: never.
    pub idle_timeout_secs: u64,
}

/// A [`TaskPool`] built from [`ThreadPoolOptions`], which it dereferences to.
///
/// ```
/// use busyhour::pool::{TaskPool, ThreadPool, ThreadPoolOptions};
///
/// let options = ThreadPoolOptions { initial_size: 1, ..Default::default() };
/// let pool = ThreadPool::new("old habits", options).unwrap();
/// assert_eq!(pool.push_wait(|| 6 * 7), Ok(42));
/// let pool: TaskPool = pool.into();
/// assert_eq!(pool.stats().worker_count, 1);
/// ```
#[derive(Debug, Clone)]
pub struct ThreadPool(TaskPool);

impl ThreadPool {
    /// Starts the pool.
    ///
    /// # Errors
    ///
    /// Those of [`TaskPoolBuilder::build`](super::TaskPoolBuilder::build); in
    /// particular if `initial_size` is above `max_size`, or the system refuses
    /// a thread.
    pub fn new(name: &str, options: ThreadPoolOptions) -> Result<Self, PoolBuildError> {
        let pool = TaskPool::builder()
            .name(name)
            .minimum(1)
            .workers(options.workers())
            .maximum(options.maximum())
            .auto_increment(options.auto_increment)
            .growth_threshold(0)
            .idle_timeout(options.idle_timeout());
        pool.build().map(Self)
    }
}

impl std::ops::Deref for ThreadPool {
    type Target = TaskPool;

    fn deref(&self) -> &TaskPool {
        &self.0
    }
}

impl From<ThreadPool> for TaskPool {
    fn from(pool: ThreadPool) -> Self {
        pool.0
    }
}

impl ThreadPoolOptions {
    fn workers(&self) -> usize {
        self.initial_size.max(1)
    }

    fn maximum(&self) -> usize {
        match (self.auto_increment, self.max_size) {
            (0, _) => self.workers(),
            (_, 0) => WORKERS_MAX,
            (_, max_size) => max_size,
        }
    }

    fn idle_timeout(&self) -> Duration {
        match self.idle_timeout_secs {
            0 => Duration::MAX,
            secs => Duration::from_secs(secs),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn options(initial_size: usize, auto_increment: usize, max_size: usize) -> ThreadPoolOptions {
        ThreadPoolOptions {
            initial_size,
            auto_increment,
            max_size,
            idle_timeout_secs: 0,
        }
    }

    #[test]
    fn zeros_have_their_old_meanings() {
        assert_eq!(options(0, 0, 0).workers(), 1);
        assert_eq!(options(3, 0, 9).maximum(), 3);
        assert_eq!(options(3, 1, 0).maximum(), WORKERS_MAX);
        assert_eq!(options(3, 1, 9).maximum(), 9);
        assert_eq!(options(3, 1, 9).idle_timeout(), Duration::MAX);
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = ThreadPool::new("too many", options(5, 1, 4));
        assert!(matches!(refused, Err(PoolBuildError::WorkerCounts { .. })));
    }
}
