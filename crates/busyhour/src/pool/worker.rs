//! A worker's thread: from its first task to its last.

use std::{io, sync::Arc, thread};

use super::{Hook, shared::Shared};

impl Shared {
    /// Starts the initial workers; on failure those already started end again.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        for _ in 0..self.counts.initial {
            self.lock().workers += 1;
            self.start_worker()?;
        }
        Ok(())
    }

    /// Starts workers already counted. A refused thread is no error here: the
    /// pool goes on with those it has, and the next push tries again.
    pub(super) fn grow(self: &Arc<Self>, count: usize) {
        for _ in 0..count {
            let _refused = self.start_worker();
        }
    }

    fn start_worker(self: &Arc<Self>) -> io::Result<()> {
        let number = {
            let mut queue = self.lock();
            queue.started += 1;
            queue.started - 1
        };
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name(format!("{}-{number}", self.name));
        let started = thread.spawn(move || shared.work());
        if started.is_err() {
            self.lock().workers -= 1;
        }
        started.map(drop)
    }

    fn work(&self) {
        let ended = Ended(self);
        self.call(&self.options.on_thread_start);
        while let Some(runnable) = self.next() {
            self.run(runnable, false);
        }
        self.call(&self.options.on_thread_stop);
        drop(ended);
    }

    fn call(&self, hook: &Option<Hook>) {
        if let Some(hook) = hook {
            self.isolate(|| hook());
        }
    }
}

/// Reports the end of a worker, also when a hook panics.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().workers -= 1;
        self.0.quiet.notify_all();
    }
}
