use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag, iterator,
};
use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
};

/// The signals that a running server obeys.
pub(super) struct Signals(iterator::Signals);

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

    /// Sleeps until a signal comes.
    pub(super) fn wait(&mut self) -> Signal {
        match self.0.forever().next() {
            Some(SIGHUP) => Signal::Reload,
            _ => Signal::End,
        }
    }
}

/// Exit code when somebody did not want to wait for the draining.
const IMPATIENT: i32 = 1;
