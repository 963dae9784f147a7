use super::timers::{DriverError, Timers};
use crate::{
    pool::blocking,
    sync::{
        EventCount,
        runtime::{
            atomic::{AtomicBool, Ordering},
            thread::{self, JoinHandle, Thread},
        },
    },
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The thread that drives a [`Timers`] service; dropping it stops the thread.
#[derive(Debug)]
#[must_use = "dropping the driver stops it"]
pub struct Driver {
    life: Arc<DriverLife>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its handle tell each other.
#[derive(Debug)]
struct DriverLife {
    /// The thread is told to begin.
    begins: AtomicBool,
    stop: AtomicBool,
    has_ended: AtomicBool,
    /// `begins`, or `stop` before that, or `has_ended`.
    changed: EventCount,
}

impl Timers {
    /// Starts the thread that delivers due timers. It runs no callback itself,
    /// unless an executor runs tasks on the thread that pushes them.
    ///
    /// # Errors
    ///
    /// [`DriverError`]: driven already, a virtual clock, or no thread to be had.
    pub fn spawn_driver(&self) -> Result<Driver, DriverError> {
        if self.clock().as_virtual().is_some() {
            return Err(DriverError::VirtualClock);
        }
        let life = Arc::new(DriverLife::new());
        let (timers, ending) = (self.clone(), EndingDriver(Arc::clone(&life)));
        let drive = move || {
            let EndingDriver(life) = &ending;
            let (begins, stop) = (&life.begins, &life.stop);
            let is_told = || begins.load(Ordering::Acquire) || stop.load(Ordering::Acquire);
            life.changed.wait_until(is_told);
            timers.drive(stop);
        };
        let named = thread::Builder::new().name(String::from("busyhour-timer"));
        let thread = named.spawn(drive).map_err(DriverError::Thread)?;
        let driver = thread.thread().clone();
        if !self.on_earlier_deadline(move || driver.unpark()) {
            life.tell(&life.stop);
            return Err(DriverError::Driven);
        }
        life.tell(&life.begins);
        let thread = Some(thread);
        Ok(Driver { life, thread })
    }

    fn drive(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            self.run_due(self.clock().now());
            let wait = self.next_wait();
            // Code that ran meanwhile may have slept, and so may have used up
            // the wake-up by the thread that stops this one.
            if stop.load(Ordering::Acquire) {
                return;
            }
            match wait {
                // More timers are due, or a host is inside `run_due` now.
                Some(Duration::ZERO) => thread::yield_now(),
                Some(wait) => thread::park_timeout(wait),
                None => thread::park(),
            }
        }
    }
}

impl Driver {
    /// Stops the thread and waits for its end. Pending timers stay pending.
    ///
    /// The thread ends once the waker, hook or executor that it is calling has
    /// returned. If the caller is a worker of a pool, another worker runs the
    /// waiting tasks meanwhile. If that call never returns, or waits for the
    /// very task that calls `stop`, then `stop` waits for ever;
    /// [`Driver::stop_within`] has a limit. On the driver's own thread `stop`
    /// does not wait: the thread ends when the caller has returned.
    pub fn stop(self) {
        drop(self);
    }

    /// Like [`Driver::stop`], but waits no longer than `limit`; returns whether
    /// the thread has ended. If not, it ends by itself as soon as it can.
    ///
    /// ```
    /// use std::time::Duration;
    /// use busyhour::timer::Timers;
    ///
    /// let timers = Timers::builder().build();
    /// let driver = timers.spawn_driver().unwrap();
    /// assert!(driver.stop_within(Duration::from_secs(10)));
    /// ```
    pub fn stop_within(mut self, limit: Duration) -> bool {
        let Some(thread) = self.stop_without_waiting() else {
            return false;
        };
        let (life, ends_at) = (&self.life, Instant::now().checked_add(limit));
        let has_ended = || life.has_ended.load(Ordering::Acquire);
        blocking(|| life.changed.wait_until_or(ends_at, has_ended));
        drop(thread);
        has_ended()
    }

    /// The thread to wait for, unless it is the calling one.
    fn stop_without_waiting(&mut self) -> Option<JoinHandle<()>> {
        self.life.stop.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        // A waker may drop the driver on its own thread, which then ends by itself.
        (!Self::is_current(thread.thread())).then_some(thread)
    }

    fn is_current(thread: &Thread) -> bool {
        thread.id() == thread::current().id()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(thread) = self.stop_without_waiting() {
            // It cannot have panicked: user code is called inside
            // `catch_unwind`.
            let _ = blocking(|| thread.join());
        }
    }
}

impl DriverLife {
    fn new() -> Self {
        Self {
            begins: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            changed: EventCount::new(),
        }
    }

    fn tell(&self, what: &AtomicBool) {
        what.store(true, Ordering::Release);
        self.changed.notify_all();
    }
}

/// Tells the handle that the thread has ended.
struct EndingDriver(Arc<DriverLife>);

impl Drop for EndingDriver {
    fn drop(&mut self) {
        self.0.tell(&self.0.has_ended);
    }
}
