//! The journal for crash tests: which registrations were offered and which
//! were acknowledged.
//!
//! Each line is one event: `offered AOR` before the first datagram is sent,
//! and `acknowledged AOR CSEQ` when the 200 has arrived. The lines are
//! written to the file before the next batch of datagrams is read. They need
//! no fsync, since a crash test kills the server and not the storm.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The journal of one thread.
#[derive(Debug, Clone)]
pub(crate) struct Journal {
    file: Arc<Mutex<BufWriter<File>>>,
    lines: String,
}

impl Journal {
    /// Opens the file at `path` for appending, and creates it if it does not
    /// exist.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self {
            file: Arc::new(Mutex::new(BufWriter::new(file))),
            lines: String::new(),
        })
    }

    pub fn offered(&mut self, aor: impl Display) {
        self.line(format_args!("offered {aor}\n"));
    }

    pub fn acknowledged(&mut self, aor: impl Display, cseq: u32) {
        self.line(format_args!("acknowledged {aor} {cseq}\n"));
    }

    /// # Errors
    /// When the file can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(self.lines.as_bytes())?;
        self.lines.clear();
        file.flush()
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String can't fail.
        let _ = std::fmt::Write::write_fmt(&mut self.lines, line);
    }
}
