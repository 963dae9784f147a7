//! A file that has its contents before it has its name.

use super::StoreError;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
};

/// Such a file. It goes when it gets no name.
pub(super) struct Part {
    path: PathBuf,
    /// Open, so that what is done to it is done to this file, whatever the path leads to.
    file: File,
}

impl Part {
    /// A new one, for the server's user alone.
    pub(super) fn beside(target: &Path) -> Result<Self, StoreError> {
        let path = target.with_added_extension("part");
        let made = remove_left_over(&path).and_then(|()| make_new(&path));
        match made {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(path_error(&path, source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Root makes what the server's user must write.
    pub(super) fn give_to_owner_of_folder(&self) -> Result<(), StoreError> {
        let given = give_to_owner_of_folder(&self.file, &self.path);
        given.map_err(|source| path_error(&self.path, source))
    }

    /// Takes a name that nobody has.
    pub(super) fn becomes(self, target: &Path) -> Result<(), StoreError> {
        let named = self.file.sync_all();
        let named = named
            .and_then(|()| take_name(&self.path, target, |one, other| fs::hard_link(one, other)));
        let named = named.and_then(|()| sync_folder(target));
        named.map_err(|source| path_error(target, source))
    }

    /// Takes the name of another file, in one step: at each moment there is one of both.
    pub(super) fn replaces(self, target: &Path) -> Result<(), StoreError> {
        let named = self.file.sync_all();
        let named = named.and_then(|()| fs::rename(&self.path, target));
        let named = named.and_then(|()| sync_folder(target));
        named.map_err(|source| path_error(target, source))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Keeps what is at `from` under another name as well, which nobody has.
pub(super) fn keep_as(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => copy(from, to),
        linked => linked,
    }
}

/// Gives a file at `path` to the owner of its folder, if another one has it.
pub(super) fn give_to_owner_of_folder(file: &File, path: &Path) -> io::Result<()> {
    let folder = fs::metadata(folder_of(path))?;
    let found = file.metadata()?;
    if found.uid() == folder.uid() {
        return Ok(());
    }
    if found.nlink() > 1 {
        let reason = "it has other names, so it is not given to the owner of its folder";
        return Err(io::Error::other(reason));
    }
    fchown(file, Some(folder.uid()), Some(folder.gid()))
}

pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

pub(super) fn path_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Path {
        path: path.to_owned(),
        source,
    }
}

/// Of a run that was killed.
fn remove_left_over(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn make_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// A link, unlike a rename, fails if somebody has made the file meanwhile. FAT and many network
/// file systems have no links, but may know such a rename.
fn take_name(
    from: &Path,
    to: &Path,
    link: impl Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    match link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
        }
        linked => linked,
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut copied = make_new(to)?;
    io::copy(&mut File::open(from)?, &mut copied)?;
    copied.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_its_name_without_links_and_takes_none_that_is_used() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        let no_links = |_: &Path, _: &Path| Err(io::Error::from(rustix::io::Errno::PERM));
        fs::write(at("part"), "new").unwrap();
        fs::write(at("used"), "old").unwrap();
        let refused = take_name(&at("part"), &at("used"), no_links).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        take_name(&at("part"), &at("free"), no_links).unwrap();
        assert_eq!(fs::read_to_string(at("used")).unwrap(), "old");
        assert_eq!(fs::read_to_string(at("free")).unwrap(), "new");
        copy(&at("free"), &at("copy")).unwrap();
        assert_eq!(fs::read_to_string(at("copy")).unwrap(), "new");
    }

    #[test]
    fn what_stands_in_the_way_of_a_new_file_is_not_written() {
        let folder = tempfile::TempDir::new().unwrap();
        let target = folder.path().join("database");
        let other = folder.path().join("other");
        fs::write(&other, "of somebody else").unwrap();
        std::os::unix::fs::symlink(&other, target.with_added_extension("part")).unwrap();
        drop(Part::beside(&target).unwrap());
        assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody else");
        // A folder cannot be removed like a file.
        fs::create_dir(target.with_added_extension("part")).unwrap();
        assert!(Part::beside(&target).is_err());
    }
}
