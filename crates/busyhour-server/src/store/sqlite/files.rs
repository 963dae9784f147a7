//! Whether the paths of the database still lead to the files that are open.
//!
//! A file that is deleted or replaced stays open, and SQLite goes on writing to
//! it without an error; nobody finds it again after the end of the process. So the
//! writer compares device and inode of each path with those of the open file:
//! before each transaction, after each commit and before it is acknowledged, and
//! once a second when nothing is written.
//!
//! All three files count. Without `-wal` the last commits are gone. Without `-shm`
//! another program makes a new one, and the two no longer know of each other.

use super::lock::DatabaseLock;
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The files of an open database, and the lock beside them.
pub(super) struct Files {
    database: PathBuf,
    opened: Vec<(PathBuf, FileId)>,
    lock: DatabaseLock,
}

/// What tells a file from every other one for as long as it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl Files {
    /// Notes which files a connection has open; to be called once it has written.
    /// `before` is what stood at the path before the connection was made.
    pub(super) fn opened(database: &Path, before: FileId, lock: DatabaseLock) -> Self {
        let mut opened = vec![(database.to_owned(), before)];
        for ending in ["-wal", "-shm"] {
            let mut path = database.as_os_str().to_owned();
            path.push(ending);
            let path = PathBuf::from(path);
            // A file system without shared memory has neither.
            if let Ok(id) = FileId::at(&path) {
                opened.push((path, id));
            }
        }
        Self {
            database: database.to_owned(),
            opened,
            lock,
        }
    }

    /// # Errors
    ///
    /// The sentence for the operator when a path no longer leads to its open file,
    /// or another server has the lock.
    pub(super) fn check(&mut self) -> Result<(), String> {
        for (path, id) in &self.opened {
            let problem = match FileId::at(path) {
                Ok(found) if found == *id => continue,
                Ok(_) => "was replaced".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted".to_owned(),
                Err(error) => format!("cannot be found: {error}"),
            };
            let path = path.display();
            return Err(format!("{path} {problem} while the server runs"));
        }
        match self.lock.is_held() {
            Ok(()) => Ok(()),
            Err(problem) => {
                let database = self.database.display();
                Err(format!("database {database}: {problem}"))
            }
        }
    }
}

impl FileId {
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|found| Self::of(&found))
    }

    pub(super) fn of(found: &fs::Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
        }
    }

    /// Whether `text` names the same inode, as `MAJOR:MINOR:INODE`. The device is
    /// not compared: some file systems show programs another one.
    pub(super) fn is_at(self, text: &str) -> bool {
        let inode = text.rsplit(':').next();
        inode.and_then(|inode| inode.parse().ok()) == Some(self.inode)
    }
}
