//! Whether the paths of the database still lead to the files that are open.
//!
//! A file that is deleted or replaced stays open, and SQLite continues to write to it
//! without an error; after the process ends, its content is lost. So the writer
//! compares device and inode of each path with those of the open file: before each
//! transaction, since what is refused then must not appear when the file comes back; after
//! each commit and before it is acknowledged; and once a second.
//!
//! All four files are checked, and the lock file. Without `-wal` the last commits are
//! lost. Without `-shm` another program creates a new one, and the two programs no
//! longer see each other's locks.
//!
//! Checking five files twice at each commit would cost too much. A program that
//! deletes, renames or replaces one of them changes their folder, so usually it is
//! enough to check whether the folder is unchanged. If the folder has
//! changed recently, its time says nothing: file systems count it in steps of up to two
//! seconds, so two changes may have the same time. So the folder's time is trusted only
//! after a longer time without changes, and never if the database is a link to another
//! folder.
//!
//! The folder stays open, since its path costs several times as much to follow. A folder
//! that is itself renamed or deleted changes as well. If a folder above it is renamed, the
//! files are still whole at their new place; that is noticed within a second.

use super::{StoreError, lock::DatabaseLock};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The files of an open database, and the lock beside them.
pub(super) struct Files {
    database: PathBuf,
    opened: Vec<(PathBuf, FileId)>,
    lock: DatabaseLock,
    folder: Folder,
    /// Files and folders that were asked for.
    asked: u64,
}

/// Their folder, and since when it is unchanged.
struct Folder {
    /// `None` where it does not tell.
    opened: Option<File>,
    /// The last known state, and since when it holds.
    seen: Option<(Stamp, Instant)>,
    /// The state that stays the same as long as nothing in the folder is deleted or
    /// replaced.
    trusted: Option<Stamp>,
}

/// What changes in a folder with each entry that comes, goes or is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    id: FileId,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The identity of a file as long as it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl Files {
    /// Notes which files a connection has open; to be called once it has written.
    /// `id` is that of the database which it opened.
    pub(super) fn opened(database: &Path, id: FileId, journal: &Path, lock: DatabaseLock) -> Self {
        let mut opened = vec![(database.to_owned(), id)];
        let beside = ["-wal", "-shm"].map(|ending| {
            let mut path = database.as_os_str().to_owned();
            path.push(ending);
            PathBuf::from(path)
        });
        for path in beside.into_iter().chain([journal.to_owned()]) {
            // A file system without shared memory has neither.
            if let Ok(id) = FileId::at(&path) {
                opened.push((path, id));
            }
        }
        Self {
            database: database.to_owned(),
            opened,
            lock,
            folder: Folder::of(database),
            asked: 0,
        }
    }

    /// Checks at `now`; checks only the folder if that is enough.
    ///
    /// # Errors
    ///
    /// The sentence for the operator when a path no longer leads to its open file,
    /// or another server has the lock.
    pub(super) fn check(&mut self, now: Instant) -> Result<(), String> {
        self.asked += u64::from(self.folder.opened.is_some());
        match self.folder.look(now) {
            true => Ok(()),
            false => self.check_files(),
        }
    }

    /// At `now`, whatever the folder says.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check) has them.
    pub(super) fn check_all(&mut self, now: Instant) -> Result<(), String> {
        self.asked += u64::from(self.folder.opened.is_some());
        self.folder.look(now);
        self.check_files()
    }

    fn check_files(&mut self) -> Result<(), String> {
        self.asked += self.opened.len() as u64 + 1;
        let outcome = self.compare();
        if outcome.is_err() {
            self.folder.purge();
        }
        outcome
    }

    fn compare(&mut self) -> Result<(), String> {
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

impl Folder {
    fn of(database: &Path) -> Self {
        let folder = match database.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let is_link = database.is_symlink();
        Self {
            opened: (!is_link).then(|| File::open(folder).ok()).flatten(),
            seen: None,
            trusted: None,
        }
    }

    /// Whether the folder is as it was when all files were in place. Call it before
    /// checking the files, so that no change in between is missed.
    fn look(&mut self, now: Instant) -> bool {
        let found = self.opened.as_ref().and_then(|file| Stamp::of(file).ok());
        let Some(found) = found else {
            self.purge();
            return false;
        };
        if self.trusted == Some(found) {
            return true;
        }
        match self.seen {
            Some((seen, since)) if seen == found => {
                let is_old = now.saturating_duration_since(since) >= STAMP_STEP_MAX;
                // Once more all are asked, and then no more.
                self.trusted = is_old.then_some(found);
            }
            _ => {
                self.seen = Some((found, now));
                self.trusted = None;
            }
        }
        false
    }

    /// Something is wrong there.
    fn purge(&mut self) {
        (self.seen, self.trusted) = (None, None);
    }
}

impl Stamp {
    fn of(folder: &File) -> io::Result<Self> {
        let found = folder.metadata()?;
        Ok(Self {
            id: FileId::of(&found),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

impl FileId {
    /// Connects to the file at `path` until it is the same before and after, and says
    /// which one it is.
    ///
    /// It may be replaced meanwhile. And a layered file system, as containers have
    /// it, may give a file another identity when it is first opened for writing.
    pub(super) fn while_connecting<C>(
        path: &Path,
        mut connect: impl FnMut() -> Result<C, StoreError>,
    ) -> Result<(C, Self), StoreError> {
        let at = || {
            Self::at(path).map_err(|source| StoreError::Path {
                path: path.to_owned(),
                source,
            })
        };
        for _ in 0..CONNECTS_MAX {
            let before = at()?;
            let connection = connect()?;
            if at()? == before {
                return Ok((connection, before));
            }
        }
        Err(StoreError::Path {
            path: path.to_owned(),
            source: io::Error::other("it is replaced again and again while it is opened"),
        })
    }

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

/// The coarsest steps in which a file system counts the times of a folder, and more.
const STAMP_STEP_MAX: Duration = Duration::from_secs(3);
/// One is usual, and two in a layered file system.
const CONNECTS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    struct Database {
        folder: tempfile::TempDir,
        files: Files,
    }

    impl Database {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let files = Self::in_folder(folder.path());
            Self { folder, files }
        }

        fn in_folder(folder: &Path) -> Files {
            let path = folder.join("busyhour.db");
            for ending in ["", "-wal", "-shm", ".journal"] {
                File::create(folder.join(format!("busyhour.db{ending}"))).unwrap();
            }
            let lock = DatabaseLock::acquire(&path).unwrap();
            let journal = folder.join("busyhour.db.journal");
            Files::opened(&path, FileId::at(&path).unwrap(), &journal, lock)
        }

        fn replace(&self, name: &str) {
            let new = self.folder.path().join("new");
            File::create(&new).unwrap();
            fs::rename(new, self.folder.path().join(name)).unwrap();
        }

        /// How many files were asked for in a thousand checks from `begin` on.
        fn asked(&mut self, begin: Instant) -> u64 {
            let before = self.files.asked;
            for check in 0..1000 {
                self.files
                    .check(begin + Duration::from_millis(check))
                    .unwrap();
            }
            self.files.asked - before
        }
    }

    #[test]
    fn one_check_is_enough_when_the_folder_does_not_change() {
        let mut database = Database::new();
        let begin = Instant::now();
        assert_eq!(database.asked(begin), 6000, "it may change unseen");
        assert_eq!(database.asked(begin + STAMP_STEP_MAX), 1005);
        File::create(database.folder.path().join("other")).unwrap();
        assert_eq!(database.asked(begin + 3 * STAMP_STEP_MAX), 6000);
        assert_eq!(database.asked(begin + 4 * STAMP_STEP_MAX), 1005);
    }

    #[test]
    fn a_folder_that_is_renamed_or_replaced_is_noticed_at_the_next_commit() {
        let around = tempfile::tempdir().unwrap();
        let folder = around.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let mut files = Database::in_folder(&folder);
        let begin = Instant::now();
        files.check(begin).unwrap();
        files.check(begin + STAMP_STEP_MAX).unwrap();
        let later = begin + 2 * STAMP_STEP_MAX;
        let asked = files.asked;
        files.check(later).unwrap();
        assert_eq!(files.asked, asked + 1, "the folder is trusted");
        fs::rename(&folder, around.path().join("elsewhere")).unwrap();
        let problem = files.check(later).unwrap_err();
        assert!(problem.contains("was deleted"), "{problem}");
        fs::create_dir(&folder).unwrap();
        files.check(later).unwrap_err();
        fs::remove_dir(&folder).unwrap();
        fs::rename(around.path().join("elsewhere"), &folder).unwrap();
        files.check(later).unwrap();
    }

    #[test]
    fn a_replaced_file_is_noticed_at_the_next_commit() {
        for name in [
            "busyhour.db",
            "busyhour.db-wal",
            "busyhour.db-shm",
            "busyhour.db.journal",
            "busyhour.db.lock",
        ] {
            let mut database = Database::new();
            let begin = Instant::now();
            database.asked(begin);
            database.asked(begin + STAMP_STEP_MAX);
            let later = begin + 2 * STAMP_STEP_MAX;
            assert_eq!(database.asked(later), 1000);
            database.replace(name);
            for _ in 0..3 {
                let problem = database.files.check(later).unwrap_err();
                assert!(
                    problem.contains(name) && problem.contains("was replaced"),
                    "{problem}"
                );
            }
        }
    }

    #[test]
    fn the_file_is_identified_after_its_first_opening() {
        let database = Database::new();
        let path = database.folder.path().join("busyhour.db");
        let mut connects = 0;
        let connect = || {
            connects += 1;
            // As a layered file system does that copies it upwards.
            if connects == 1 {
                database.replace("busyhour.db");
            }
            Ok(connects)
        };
        let (connection, id) = FileId::while_connecting(&path, connect).unwrap();
        assert_eq!((connection, id), (2, FileId::at(&path).unwrap()));
        let never = || {
            database.replace("busyhour.db");
            Ok(())
        };
        let error = FileId::while_connecting(&path, never).unwrap_err();
        assert!(error.to_string().contains("again and again"), "{error}");
    }
}
