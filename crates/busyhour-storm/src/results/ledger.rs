//! What a machine writes down: its counts, and the journal of a crash test.

use std::io;

use crate::results::journal::Journal;
use crate::results::tally::Tally;

/// The ledger of one machine.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub tally: Tally,
    pub journal: Option<Journal>,
}

impl Ledger {
    pub fn new(journal: Option<Journal>) -> Self {
        Self {
            tally: Tally::new(),
            journal,
        }
    }

    /// Writes out what the journal holds back.
    ///
    /// # Errors
    /// When its file takes no more.
    pub fn flush(&mut self) -> io::Result<()> {
        self.journal.as_mut().map_or(Ok(()), Journal::flush)
    }
}
