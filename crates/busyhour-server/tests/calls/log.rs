//! What the server logs while a test runs, on its thread.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};
use tracing::subscriber::DefaultGuard;

#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Keeps lines until the guard is dropped.
    pub fn keep(&self) -> DefaultGuard {
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
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
