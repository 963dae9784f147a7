//! What the server logs while a test runs, on its thread.
#![allow(dead_code)] // each test file uses its own part

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, OnceLock},
};
use tracing::{Dispatch, subscriber::DefaultGuard};

#[derive(Clone, Default)]
pub struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    /// Keeps lines until the guard is dropped.
    pub fn keep(&self) -> DefaultGuard {
        // With one subscriber alone, `tracing` asks the thread that comes first to an event
        // whether anybody wants it, and another test's thread wants nothing.
        static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
        ANOTHER.get_or_init(|| {
            let nowhere = tracing_subscriber::fmt().with_writer(io::sink);
            Dispatch::new(nowhere.finish())
        });
        let lines = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || lines.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Checks that one line has all of these parts.
    #[track_caller]
    pub fn has(&self, parts: &[&str]) {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let has_all = |line: &str| parts.iter().all(|part| line.contains(part));
        assert!(
            text.lines().any(has_all),
            "{parts:?} are in no line:\n{text}"
        );
    }

    /// What was logged since the last call.
    pub fn take(&self) -> String {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap()
    }
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
