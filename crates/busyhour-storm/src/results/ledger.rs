//! The counts of an agent, and its journal for crash tests.

use std::io;

use crate::results::journal::Journal;
use crate::results::tally::Tally;

/// The ledger of one agent.
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

    /// Writes the buffered lines of the journal to its file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.journal.as_mut().map_or(Ok(()), Journal::flush)
    }
}
