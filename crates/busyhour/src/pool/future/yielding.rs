//! Yielding to other entities before the time slice is over.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::pool::context::{self, polls_future_task};

/// Ends the turn of the current entity (a serializer, or the plain tasks):
/// after the current task, the worker chooses the next entity by goodness
/// instead of running more of the same. Does nothing outside of a pool.
///
/// ```
/// use busyhour::pool::{TaskPool, request_yield};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let bulk = pool.serializer("bulk").build().unwrap();
/// for _ in 0..100 {
///     bulk.push(|| {
///         // A step of something long.
///         request_yield();
///     })
///     .unwrap();
/// }
/// bulk.push_wait(|| ()).unwrap();
/// ```
pub fn request_yield() {
    context::request_yield();
}

/// Lets every other entity of the worker run, in the order of goodness, before
/// this future continues. On other executors it wakes the task and suspends it
/// once.
///
/// ```
/// use busyhour::{pool::{TaskPool, yield_now}, run_queue::Class};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let sum = pool.spawn_as(Class::default(), async {
///     let mut sum = 0;
///     for number in 0..1000 {
///         sum += number;
///         yield_now().await;
///     }
///     sum
/// });
/// assert_eq!(sum.wait(), Ok(499_500));
/// ```
pub fn yield_now() -> YieldNow {
    YieldNow { has_yielded: false }
}

/// See [`yield_now`].
///
/// ```
/// use busyhour::pool::{TaskPool, YieldNow, yield_now};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let pause: YieldNow = yield_now();
/// assert_eq!(pool.spawn(pause).wait(), Ok(()));
/// ```
#[derive(Debug)]
#[must_use = "it does nothing unless awaited"]
pub struct YieldNow {
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        if !polls_future_task() {
            request_yield();
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Consumes one step of the thread's budget. It is ready at once, except that
/// every 128th step of a turn, and in a pool the first one after 200 µs, acts
/// like [`yield_now`]. Await it in loops whose steps are always ready, so that
/// they do not occupy a worker. Event streams, sleeps and intervals consume
/// steps themselves.
///
/// ```
/// use busyhour::pool::{TaskPool, consume_budget};
///
/// let pool = TaskPool::builder().workers(1).build().unwrap();
/// let counted = pool.spawn(async {
///     let mut count = 0;
///     while count < 10_000 {
///         count += 1;
///         consume_budget().await;
///     }
///     count
/// });
/// assert_eq!(counted.wait(), Ok(10_000));
/// ```
#[doc(alias = "coop")]
pub async fn consume_budget() {
    if context::consume_budget() {
        yield_now().await;
    }
}

/// Like [`consume_budget`], for a future of the library that is ready. On other
/// executors, which have budgets of their own, it consumes nothing.
#[inline]
pub(crate) fn poll_budget(context: &Context<'_>) -> Poll<()> {
    if !context::is_in_a_pool() || !context::consume_budget() {
        return Poll::Ready(());
    }
    if !polls_future_task() {
        request_yield();
    }
    context.waker().wake_by_ref();
    Poll::Pending
}
