//! The little that a journal needs of a file.

use super::journal_record::STEP;
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::{Errno, ReadWriteFlags, pwritev2},
};
use std::{
    fs::File,
    io::{self, IoSlice},
    os::unix::fs::FileExt,
};

/// Bytes that can be written in place and made durable.
pub(crate) trait JournalFile {
    /// # Errors
    ///
    /// When some of the bytes may not have been written.
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes durable what was written, if it is not yet.
    ///
    /// # Errors
    ///
    /// When it is not certain; asking again says nothing about earlier writes.
    fn sync(&mut self) -> io::Result<()>;
}

/// A real file, whose every byte was written before.
///
/// A file that is synchronised is written past the page cache, where the file system and the disk allow that for sectors of
/// 512 bytes: a write that returns is durable then, for less processor time than a write and a sync.
pub(crate) struct SyncedFile {
    file: File,
    way: WriteWay,
    /// Where what is written begins at a multiple of a page, with room for that.
    aligned: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteWay {
    /// Nothing is synchronised.
    Cached,
    CachedSynced,
    Direct,
}

impl SyncedFile {
    /// Synchronises what is written if that is wanted at all.
    pub(crate) fn new(file: File, is_synced: bool) -> Self {
        let mut made = Self {
            file,
            way: WriteWay::Cached,
            aligned: Vec::new(),
        };
        if is_synced {
            made.way = match made.go_past_the_cache() {
                Ok(()) => WriteWay::Direct,
                Err(_not_here) => WriteWay::CachedSynced,
            };
        }
        made
    }

    /// # Errors
    ///
    /// When the file system or the disk does not allow it; the file is as before then.
    fn go_past_the_cache(&mut self) -> io::Result<()> {
        let before = fcntl_getfl(&self.file)?;
        fcntl_setfl(&self.file, before | OFlags::DIRECT)?;
        let space = aligned(&mut self.aligned, SECTOR);
        let read = self.file.read_exact_at(space, 0);
        if read.is_err() {
            fcntl_setfl(&self.file, before)?;
        }
        read
    }

    /// Whole sectors: what is behind `bytes` in the last becomes zeros.
    fn write_past_the_cache(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        let space = aligned(&mut self.aligned, bytes.len().next_multiple_of(SECTOR));
        space[..bytes.len()].copy_from_slice(bytes);
        space[bytes.len()..].fill(0);
        let mut written = 0;
        while written < space.len() {
            let rest = [IoSlice::new(&space[written..])];
            match pwritev2(
                &self.file,
                &rest,
                at + written as u64,
                ReadWriteFlags::DSYNC,
            ) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => written += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.aligned.truncate(KEPT);
        self.aligned.shrink_to(KEPT);
        Ok(())
    }
}

impl JournalFile for SyncedFile {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        match self.way {
            WriteWay::Direct => self.write_past_the_cache(bytes, at),
            WriteWay::Cached | WriteWay::CachedSynced => self.file.write_all_at(bytes, at),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        #[cfg(test)]
        failing::take(&self.file)?;
        match self.way {
            WriteWay::CachedSynced => self.file.sync_data(),
            WriteWay::Cached | WriteWay::Direct => Ok(()),
        }
    }
}

/// A part of `space` of `len` bytes that begins at a multiple of a page.
fn aligned(space: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if space.len() < len + PAGE {
        space.resize(len + PAGE, 0);
    }
    let begin = space.as_ptr().align_offset(PAGE).min(PAGE);
    &mut space[begin..begin + len]
}

/// A journal's records begin at multiples of this.
const SECTOR: usize = STEP;
const PAGE: usize = 4096;
/// Memory that is kept for the next write.
const KEPT: usize = 1 << 18;

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
