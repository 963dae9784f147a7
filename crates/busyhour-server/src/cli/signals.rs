use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag, iterator,
};
use std::{
    io,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

/// The signals that a running server obeys.
pub(super) struct Signals(iterator::Signals);

/// Ends the server without a signal, for a reason.
#[derive(Clone)]
pub(super) struct ShutdownTrigger {
    reason: Arc<OnceLock<String>>,
    signals: iterator::Handle,
}

/// What a signal asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGTERM or SIGINT.
    End,
    /// SIGHUP.
    Reload,
}

impl Signals {
    /// From now on the signals wait for [`wait`](Self::wait), and a second
    /// request to end is obeyed at once, by the signal handler itself.
    pub(super) fn listen() -> io::Result<Self> {
        let asked_before = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // In this order: the first request only sets the flag for the second.
            flag::register_conditional_shutdown(signal, IMPATIENT, asked_before.clone())?;
            flag::register(signal, asked_before.clone())?;
        }
        iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Self)
    }

    /// What ends a [`wait`](Self::wait) from elsewhere.
    pub(super) fn ending(&self) -> ShutdownTrigger {
        ShutdownTrigger {
            reason: Arc::default(),
            signals: self.0.handle(),
        }
    }

    /// Sleeps until a signal comes, or a [`ShutdownTrigger`].
    pub(super) fn wait(&mut self) -> Signal {
        match self.0.forever().next() {
            Some(SIGHUP) => Signal::Reload,
            _ => Signal::End,
        }
    }
}

impl ShutdownTrigger {
    /// Ends the server; the first reason is the one that is told.
    pub(super) fn because(&self, reason: String) {
        let _ = self.reason.set(reason);
        self.signals.close();
    }

    /// Why it ends, if there was no signal.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }
}

/// Exit code after a second signal during draining.
const IMPATIENT: i32 = 1;
