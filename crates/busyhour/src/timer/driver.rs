use super::timers::{DriverError, Timers};
use crate::{
    pool::blocking,
    sync::{
        Mutex, lock,
        runtime::{
            atomic::{AtomicBool, Ordering},
            mpsc,
            thread::{self, JoinHandle, Thread},
        },
    },
};
use std::{sync::Arc, time::Duration};

/// The thread that drives a [`Timers`] service; dropping it stops the thread.
#[derive(Debug)]
#[must_use = "dropping the driver stops it"]
pub struct Driver {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Closed when the thread ends. The lock only makes it shareable.
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Timers {
    /// Starts the thread that delivers due timers. It runs no callback itself,
    /// but for those whose executor does so at once.
    ///
    /// # Errors
    ///
    /// [`DriverError`]: driven already, a virtual clock, or no thread to be had.
    pub fn spawn_driver(&self) -> Result<Driver, DriverError> {
        if self.clock().as_virtual().is_some() {
            return Err(DriverError::VirtualClock);
        }
        let (sender, receiver) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let timers = self.clone();
        let stopped = Arc::clone(&stop);
        let (ends, ended) = mpsc::channel();
        let drive = move || {
            let _ends: mpsc::Sender<()> = ends;
            // The channel closes when the hook could not be installed.
            if receiver.recv().is_ok() {
                timers.drive(&stopped);
            }
        };
        let named = thread::Builder::new().name(String::from("busyhour-timer"));
        let thread = named.spawn(drive).map_err(DriverError::Thread)?;
        let driver = thread.thread().clone();
        if !self.on_earlier_deadline(move || driver.unpark()) {
            return Err(DriverError::Driven);
        }
        // The thread waits for this; it cannot have ended.
        let _ = sender.send(());
        let thread = Some(thread);
        Ok(Driver {
            stop,
            thread,
            ended: Mutex::new(ended),
        })
    }

    fn drive(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Acquire) {
            self.run_due(self.clock().now());
            let wait = self.next_wait();
            // What ran meanwhile may have slept, and so may have been woken in the
            // place of this sleep by who stops us.
            if stop.load(Ordering::Acquire) {
                return;
            }
            match wait {
                // More is due, or a host is inside `run_due` just now.
                Some(Duration::ZERO) => thread::yield_now(),
                Some(wait) => thread::park_timeout(wait),
                None => thread::park(),
            }
        }
    }
}

impl Driver {
    /// Stops the thread and waits for its end. Timers that are pending stay so.
    ///
    /// The thread ends once the waker, hook or executor that it is in has
    /// returned. On a worker of a pool another one sees to the waiting tasks
    /// meanwhile. One that never returns is waited for without a limit, as is
    /// one that waits for the very task that calls this:
    /// [`Driver::stop_within`] has a limit. On the driver's own thread nobody
    /// waits: it ends when the caller has returned.
    pub fn stop(self) {
        drop(self);
    }

    /// As [`Driver::stop`], but waits no longer than `limit`; whether the
    /// thread has ended. If not, it ends by itself as soon as it can.
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
        let ended = lock(&self.ended);
        let end = blocking(|| ended.recv_timeout(limit));
        drop(thread);
        end == Err(mpsc::RecvTimeoutError::Disconnected)
    }

    /// The thread to wait for, if that is another one.
    fn stop_without_waiting(&mut self) -> Option<JoinHandle<()>> {
        self.stop.store(true, Ordering::Release);
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
            // It cannot have panicked: the user's code is called in a catch.
            let _ = blocking(|| thread.join());
        }
    }
}
