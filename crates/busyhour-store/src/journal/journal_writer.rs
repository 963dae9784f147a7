//! Writing records in their order.

use super::{JournalFile, JournalHeader, journal_record};
use crate::Change;
use std::io;

/// The one writer of a journal. After an error nothing may be appended before a new epoch has begun.
pub(crate) struct JournalWriter<F> {
    file: F,
    header: JournalHeader,
    /// Of the last record.
    number: u64,
    /// The record that is made.
    record: Vec<u8>,
}

impl<F: JournalFile> JournalWriter<F> {
    /// Begins nothing yet.
    pub(crate) fn new(file: F, is_synced: bool) -> Self {
        Self {
            file,
            header: JournalHeader::new(0, false, is_synced),
            number: 0,
            record: Vec::new(),
        }
    }

    /// Whether a record is on the disk when it was appended.
    pub(crate) fn is_synced(&self) -> bool {
        self.header.is_synced
    }

    /// From now on all earlier records are remains. The database must have had them, and must know of
    /// the epoch.
    ///
    /// # Errors
    ///
    /// When the journal cannot be written.
    pub(crate) fn begin(&mut self, epoch: u64) -> io::Result<()> {
        self.number = 0;
        self.header.epoch = epoch;
        self.put_header(true)
    }

    /// The database has had all records.
    ///
    /// # Errors
    ///
    /// When the journal cannot be written.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.put_header(false)
    }

    /// Makes the next record; returns its length.
    pub(crate) fn prepare<'c>(&mut self, changes: impl Iterator<Item = &'c Change>) -> u64 {
        journal_record::write(&mut self.record, changes)
    }

    /// Makes the prepared record durable at a place where nothing is needed any more. Returns its number.
    ///
    /// # Errors
    ///
    /// When it is not certain whether the record will be found.
    pub(crate) fn append(&mut self, at: u64) -> io::Result<u64> {
        let number = self.number + 1;
        journal_record::seal(&mut self.record, self.header.epoch, number);
        self.file.write_at(&self.record, at)?;
        self.file.sync()?;
        self.number = number;
        self.record.shrink_to(RECORD_KEPT);
        Ok(number)
    }

    fn put_header(&mut self, is_open: bool) -> io::Result<()> {
        self.header.is_open = is_open;
        self.file.write_at(&self.header.encode(), 0)?;
        self.file.sync()
    }

    /// The file, to be looked at by a test.
    #[cfg(test)]
    pub(super) fn file(&mut self) -> &mut F {
        &mut self.file
    }
}

/// Memory that is kept for the next record.
const RECORD_KEPT: usize = 1 << 18;
