//! The little that a journal needs of a file.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Bytes that can be written in place and made durable.
pub(crate) trait JournalFile {
    /// # Errors
    ///
    /// When some of the bytes may not have been written.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes durable what was written.
    ///
    /// # Errors
    ///
    /// When it is not certain; asking again says nothing about earlier writes.
    fn sync(&mut self) -> io::Result<()>;
}

/// A real file, whose every byte was written before.
pub(crate) struct SyncedFile {
    pub(crate) file: File,
    /// Whether synchronising is wanted at all.
    pub(crate) is_synced: bool,
}

impl JournalFile for SyncedFile {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.is_synced {
            true => self.file.sync_data(),
            false => Ok(()),
        }
    }
}
