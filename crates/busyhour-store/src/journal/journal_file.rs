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
        #[cfg(test)]
        failing::take(&self.file)?;
        match self.is_synced {
            true => self.file.sync_data(),
            false => Ok(()),
        }
    }
}

/// Lets the next synchronising of a journal fail, although all bytes are there.
#[cfg(test)]
pub(crate) mod failing {
    use super::*;
    use std::{os::unix::fs::MetadataExt, path::Path, sync::Mutex};

    static INODES: Mutex<Vec<u64>> = Mutex::new(Vec::new());

    pub(crate) fn once(path: &Path) {
        let inode = path.metadata().unwrap().ino();
        INODES.lock().unwrap().push(inode);
    }

    pub(super) fn take(file: &File) -> io::Result<()> {
        let inode = file.metadata()?.ino();
        let mut inodes = INODES.lock().unwrap();
        let Some(at) = inodes.iter().position(|one| *one == inode) else {
            return Ok(());
        };
        inodes.remove(at);
        Err(io::Error::other("made to fail"))
    }
}
