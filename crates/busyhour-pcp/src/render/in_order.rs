use crate::{Error, render::threads};
use busyhour::pool::TaskPool;
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread, vec,
};

/// Does many jobs on several threads, and joins their results in the order of the
/// jobs: so a folder of archives is rendered, several at once.
///
/// `work` does one job. `join` adds its result to `joined`; when it returns
/// [`ControlFlow::Break`], no other job begins. At most `threads` threads work: the
/// calling one, and workers of `pool` that have time. More threads than the machine has
/// cores are not used. A free thread takes the next job, so the threads may be fewer
/// than the jobs. A worker does one job and then what else waits for it, before it is
/// asked again.
///
/// A job begins only while fewer than two results for each thread wait for an earlier
/// one. So what is held does not grow with the number of the jobs.
///
/// `join` runs under a lock on one of the threads: it should only put a result into its
/// place.
///
/// # Errors
///
/// [`Error::Lost`] when `work` or `join` panicked on a worker. Their panic on the
/// calling thread is passed on.
///
/// # Examples
///
/// ```
/// use busyhour_pcp::in_order;
/// use std::ops::ControlFlow;
///
/// let squares = in_order(
///     (1..=4).collect(),
///     2,
///     None,
///     Vec::new(),
///     |number: u64| number * number,
///     |squares, square| {
///         squares.push(square);
///         ControlFlow::Continue(())
///     },
/// )?;
/// assert_eq!(squares, [1, 4, 9, 16]);
/// # Ok::<(), busyhour_pcp::Error>(())
/// ```
pub fn in_order<J, R, S>(
    jobs: Vec<J>,
    threads: usize,
    pool: Option<&TaskPool>,
    joined: S,
    work: impl Fn(J) -> R + Send + Sync + 'static,
    join: impl FnMut(&mut S, R) -> ControlFlow<()> + Send + 'static,
) -> Result<S, Error>
where
    J: Send + 'static,
    R: Send + 'static,
    S: Send + 'static,
{
    let helper_count = match pool {
        Some(_) => threads::helper_count(threads, jobs.len().saturating_sub(1)),
        None => 0,
    };
    let pass = Arc::new(Pass {
        work,
        ahead_max: (helper_count + 1) * AHEAD_A_THREAD,
        helper_count,
        pool: pool.cloned(),
        shared: Mutex::new(Shared {
            jobs: jobs.into_iter(),
            waiting: BTreeMap::new(),
            taken: 0,
            next: 0,
            running: 0,
            helping: 0,
            joined: Some(joined),
            join,
            is_over: false,
            is_lost: false,
        }),
        changed: Condvar::new(),
    });
    pass.work();
    pass.finish()
}

/// What the threads share.
struct Pass<J, R, S, W, A> {
    work: W,
    /// The most jobs between the oldest that is not joined yet and the newest.
    ahead_max: usize,
    helper_count: usize,
    pool: Option<TaskPool>,
    shared: Mutex<Shared<J, R, S, A>>,
    changed: Condvar,
}

struct Shared<J, R, S, A> {
    jobs: vec::IntoIter<J>,
    /// Results that came before one of an earlier job.
    waiting: BTreeMap<usize, R>,
    /// Jobs that somebody took.
    taken: usize,
    /// The number of the next job to join.
    next: usize,
    /// Jobs that somebody does now.
    running: usize,
    /// Workers that have been asked and have not ended their job.
    helping: usize,
    joined: Option<S>,
    join: A,
    is_over: bool,
    is_lost: bool,
}

impl<J, R, S, W, A> Pass<J, R, S, W, A>
where
    J: Send + 'static,
    R: Send + 'static,
    S: Send + 'static,
    W: Fn(J) -> R + Send + Sync + 'static,
    A: FnMut(&mut S, R) -> ControlFlow<()> + Send + 'static,
{
    /// Does jobs until none is left to take.
    fn work(self: &Arc<Self>) {
        self.ask();
        while let Some((number, job)) = self.take() {
            self.run(number, job);
            self.ask();
        }
    }

    fn run(&self, number: usize, job: J) {
        let _ticket = JobTicket(self);
        let result = (self.work)(job);
        self.lock().add(number, result);
    }

    /// Asks for as many workers as may help and have something to do.
    fn ask(self: &Arc<Self>) {
        let Some(pool) = &self.pool else { return };
        let count = self.lock().take_places(self.helper_count, self.ahead_max);
        for place in (0..count).map(|_| HelperPlace(Arc::clone(self))) {
            threads::ask_one(pool, move || place.help());
        }
    }

    /// A thread that waits here waits for a job that another thread already does.
    fn take(&self) -> Option<(usize, J)> {
        self.wait(|shared| shared.is_crowded(self.ahead_max)).take()
    }

    /// Waits for the jobs that other threads took.
    fn finish(&self) -> Result<S, Error> {
        let mut shared = self.wait(|shared| shared.running > 0);
        let is_lost = shared.is_lost;
        let joined = shared.joined.take().filter(|_| !is_lost);
        joined.ok_or(Error::Lost)
    }
}

impl<J, R, S, W, A> Pass<J, R, S, W, A> {
    fn lock(&self) -> MutexGuard<'_, Shared<J, R, S, A>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(
        &self,
        is_busy: impl Fn(&Shared<J, R, S, A>) -> bool,
    ) -> MutexGuard<'_, Shared<J, R, S, A>> {
        let woken = self
            .changed
            .wait_while(self.lock(), |shared| is_busy(shared));
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J, R, S, A> Shared<J, R, S, A> {
    /// The next job and its number.
    fn take(&mut self) -> Option<(usize, J)> {
        if self.is_over {
            return None;
        }
        let job = self.jobs.next()?;
        let number = self.taken;
        self.taken += 1;
        self.running += 1;
        Some((number, job))
    }

    /// How many more workers may help: no more than there are jobs that need not wait.
    fn take_places(&mut self, helper_count: usize, ahead_max: usize) -> usize {
        let ahead = ahead_max.saturating_sub(self.taken - self.next);
        let wanted = match self.is_over {
            true => 0,
            false => self.jobs.len().min(ahead).min(helper_count),
        };
        let count = wanted.saturating_sub(self.helping);
        self.helping += count;
        count
    }

    fn is_crowded(&self, ahead_max: usize) -> bool {
        self.taken - self.next >= ahead_max && !self.is_over
    }

    fn add(&mut self, number: usize, result: R)
    where
        A: FnMut(&mut S, R) -> ControlFlow<()>,
    {
        self.waiting.insert(number, result);
        while let Some(result) = self.waiting.remove(&self.next) {
            self.next += 1;
            let Some(joined) = self.joined.as_mut().filter(|_| !self.is_over) else {
                continue;
            };
            self.is_over = (self.join)(joined, result).is_break();
        }
    }
}

/// A worker that was asked for: it does one job, so that what else waits for it gets its
/// turn. The place is given back when it is done, or if no worker takes it.
struct HelperPlace<J, R, S, W, A>(Arc<Pass<J, R, S, W, A>>);

impl<J, R, S, W, A> HelperPlace<J, R, S, W, A>
where
    J: Send + 'static,
    R: Send + 'static,
    S: Send + 'static,
    W: Fn(J) -> R + Send + Sync + 'static,
    A: FnMut(&mut S, R) -> ControlFlow<()> + Send + 'static,
{
    /// Does a job if there is one that need not wait for another.
    fn help(self) {
        let pass = Arc::clone(&self.0);
        let mut shared = pass.lock();
        let job = match shared.is_crowded(pass.ahead_max) {
            true => None,
            false => shared.take(),
        };
        drop(shared);
        if let Some((number, job)) = job {
            pass.run(number, job);
        }
        drop(self);
        pass.ask();
    }
}

impl<J, R, S, W, A> Drop for HelperPlace<J, R, S, W, A> {
    fn drop(&mut self) {
        self.0.lock().helping -= 1;
    }
}

/// Held while a job is done: a thread that panics does not leave the others waiting.
struct JobTicket<'a, J, R, S, W, A>(&'a Pass<J, R, S, W, A>);

impl<J, R, S, W, A> Drop for JobTicket<'_, J, R, S, W, A> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.running -= 1;
        if thread::panicking() {
            shared.is_lost = true;
            shared.is_over = true;
        }
        self.0.changed.notify_all();
    }
}

/// One that is done and one that waits: enough that a thread seldom waits for a job that
/// takes longer than others.
const AHEAD_A_THREAD: usize = 2;
