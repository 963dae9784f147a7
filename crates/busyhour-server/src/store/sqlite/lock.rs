//! One server a database: an advisory lock on a file beside it.
//!
//! The lock lives on `<database>.lock` and not on the database, so that tools
//! may still read and write accounts through SQLite while a server runs. The
//! operating system releases it when the process ends, however it ends; the
//! process id inside is only there to be shown.

use super::StoreError;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// Held for as long as a server uses the database.
pub(super) struct DatabaseLock {
    _file: File,
}

impl DatabaseLock {
    pub(super) fn acquire(database: &Path) -> Result<Self, StoreError> {
        let path = lock_path(database);
        let wrap = |source| StoreError::Path {
            path: path.clone(),
            source,
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(wrap)?;
        match file.try_lock() {
            Ok(()) => write_pid(&mut file).map_err(wrap)?,
            Err(TryLockError::WouldBlock) => return Err(in_use(database, &mut file)),
            Err(TryLockError::Error(source)) => return Err(wrap(source)),
        }
        Ok(Self { _file: file })
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    write!(file, "{}", std::process::id())
}

fn in_use(database: &Path, file: &mut File) -> StoreError {
    let mut holder = String::new();
    let read = file.take(PID_LEN_MAX).read_to_string(&mut holder);
    StoreError::InUse {
        path: database.to_owned(),
        pid: read.ok().and_then(|_| holder.trim().parse().ok()),
    }
}

const PID_LEN_MAX: u64 = 16;
