use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering},
};

/// The process that made an object. A child that `fork` makes has a copy of the object, but not the threads that serve it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(u32);

/// An object that needs the threads or locks of the process that made it.
pub(crate) trait Threaded {
    fn process(&self) -> Process;
}

impl Process {
    pub(crate) fn current() -> Self {
        // SAFETY: the handler is a function that lives as long as the library, which is linked so that it is never
        // unloaded; it only adds to an atomic, which is allowed after a fork.
        WATCH.call_once(|| _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) });
        Self(FORKS.load(Ordering::Relaxed))
    }

    pub(crate) fn is_current(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

static WATCH: Once = Once::new();
/// How many forks lie between this process and the one that loaded the library.
static FORKS: AtomicU32 = AtomicU32::new(0);
