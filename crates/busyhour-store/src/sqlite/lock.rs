//! One server a database: an advisory lock on a file beside it.
//!
//! The lock lives on `<database>.lock` and not on the database, so that tools
//! may still read and write accounts through SQLite while a server runs. The
//! operating system releases it when the process ends, however it ends.
//!
//! `flock` needs no permission to write, so every user who may open the file may lock
//! it. Therefore only its owner may open it; a lock file of an older version, which was
//! readable for all, is changed. If the file is deleted, a second server could lock a
//! new one. So the first server checks the file with those of the database: if it is
//! missing, it creates it again, and if there is another file, it stops writing.

use super::{StoreError, files::FileId, part};
use rustix::{fs::OFlags, io::Errno};
use std::{
    fs::{self, File, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Held for as long as a server uses the database.
pub(super) struct DatabaseLock {
    path: PathBuf,
    id: FileId,
    file: File,
}

impl DatabaseLock {
    pub(super) fn acquire(database: &Path) -> Result<Self, StoreError> {
        let path = lock_path(database);
        let wrap = |source| StoreError::Path {
            path: path.clone(),
            source,
        };
        loop {
            let file = open(&path, false).map_err(wrap)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(in_use(database, &file)),
                Err(TryLockError::Error(source)) => return Err(wrap(source)),
            }
            let id = FileId::of(&file.metadata().map_err(wrap)?);
            // Somebody may have deleted it between the two steps.
            if FileId::at(&path).is_ok_and(|found| found == id) {
                return Ok(Self { path, id, file });
            }
        }
    }

    /// Root locks what the server's user must open.
    pub(super) fn give_to_owner_of_folder(&self) -> Result<(), StoreError> {
        let given = part::give_to_owner_of_folder(&self.file, &self.path);
        given.map_err(|source| part::path_error(&self.path, source))
    }

    /// Whether the path still leads to the locked file; a deleted file is created
    /// again.
    ///
    /// # Errors
    ///
    /// What is there instead.
    pub(super) fn is_held(&mut self) -> Result<(), String> {
        match FileId::at(&self.path) {
            Ok(found) if found == self.id => Ok(()),
            Ok(_) => Err(self.said("was replaced, so another server may use the database")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.make_again(),
            Err(error) => Err(self.said(&format!("cannot be found: {error}"))),
        }
    }

    fn make_again(&mut self) -> Result<(), String> {
        let made = open(&self.path, true).and_then(|file| {
            file.try_lock()?;
            Ok((FileId::of(&file.metadata()?), file))
        });
        let (id, file) = made.map_err(|error| {
            self.said(&format!("was deleted and cannot be made again: {error}"))
        })?;
        let path = self.path.display();
        tracing::warn!(%path, "the lock file was deleted while the server runs; it was created again");
        (self.id, self.file) = (id, file);
        Ok(())
    }

    fn said(&self, problem: &str) -> String {
        format!("its lock file {} {problem}", self.path.display())
    }
}

fn open(path: &Path, is_new: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(MODE);
    // It may be root who opens it: what a link leads to is nobody's lock.
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    match is_new {
        true => options.create_new(true),
        false => options.create(true).truncate(false),
    };
    let file = options.open(path).map_err(explain)?;
    if file.metadata()?.permissions().mode() & 0o777 != MODE {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(file)
}

fn explain(error: io::Error) -> io::Error {
    match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        true => io::Error::other("it is a symbolic link; remove it"),
        false => error,
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

fn in_use(database: &Path, file: &File) -> StoreError {
    let id = file.metadata().ok().map(|found| FileId::of(&found));
    StoreError::InUse {
        path: database.to_owned(),
        pid: id.and_then(holder),
    }
}

/// The process that the kernel knows to hold the lock (proc_locks(5)).
fn holder(id: FileId) -> Option<u32> {
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| holder_in(line, id))
}

/// Of a line such as `1: FLOCK  ADVISORY  WRITE 4711 fd:00:131 0 EOF`.
fn holder_in(line: &str, id: FileId) -> Option<u32> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    match fields[..] {
        [_, "FLOCK", _, _, pid, place, ..] if id.is_at(place) => {
            pid.parse().ok().filter(|pid| *pid > 0)
        }
        _ => None,
    }
}

/// For the server's user alone.
const MODE: u32 = 0o600;
