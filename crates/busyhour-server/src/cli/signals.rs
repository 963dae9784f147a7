use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag, iterator,
};
use std::{
    io,
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

/// The signals that a running server handles.
pub(super) struct Signals(iterator::Signals);

/// Ends the server for a reason, without a signal.
#[derive(Clone)]
pub(super) struct ShutdownTrigger {
    reason: Arc<OnceLock<String>>,
    signals: iterator::Handle,
}

/// What a signal requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGTERM or SIGINT.
    End,
    /// SIGHUP.
    Reload,
}

impl Signals {
    /// From now on the signals wait for [`wait`](Self::wait). A second request to end
    /// takes effect at once, in the signal handler itself.
    pub(super) fn listen() -> io::Result<Self> {
        let asked_before = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // The order matters: the first request only sets the flag for the second.
            flag::register_conditional_shutdown(signal, IMPATIENT, asked_before.clone())?;
            flag::register(signal, asked_before.clone())?;
        }
        iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map(Self)
    }

    /// A handle that ends a [`wait`](Self::wait) from elsewhere.
    pub(super) fn ending(&self) -> ShutdownTrigger {
        ShutdownTrigger {
            reason: Arc::default(),
            signals: self.0.handle(),
        }
    }

    /// Sleeps until a signal or a [`ShutdownTrigger`] comes.
    pub(super) fn wait(&mut self) -> Signal {
        match self.0.forever().next() {
            Some(SIGHUP) => Signal::Reload,
            _ => Signal::End,
        }
    }
}

impl ShutdownTrigger {
    /// Ends the server. If there are several reasons, the first one is reported.
    pub(super) fn because(&self, reason: String) {
        let _ = self.reason.set(reason);
        self.signals.close();
    }

    /// Why the server ends, if no signal ended it.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }
}

/// The exit code after a second signal during draining.
const IMPATIENT: i32 = 1;
