//! The local socket: HTTP for programs of the server's own user, such as `busyhour show`.
//!
//! The kernel decides who may connect: the socket, and the folder that the server makes
//! for it, are only for the server's user. So requests need no token.

use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use std::{
    env, fs,
    fs::{DirBuilder, Permissions},
    io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

/// A bound socket; dropping it removes the file.
pub struct LocalSocket {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket; dropping it removes the file, unless another socket is there by
/// now.
pub(super) struct SocketFile {
    path: PathBuf,
    id: FileId,
}

/// Device and inode.
type FileId = (u64, u64);

impl LocalSocket {
    /// Binds `path`. A socket of a server that has ended is replaced.
    ///
    /// # Errors
    ///
    /// If another server listens there, if the file is no socket, or if it cannot be
    /// made.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        if !folder.exists() {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(folder)?;
        }
        check_free(path)?;
        // In a folder that others cannot enter nobody can connect before the mode is set.
        let private = folder.join(format!(".busyhour-{}", std::process::id()));
        // In a container the next server has the same number as one that was killed here.
        let _ = fs::remove_dir_all(&private);
        DirBuilder::new().mode(0o700).create(&private)?;
        let bound = Self::bind_in(&private, path);
        let _ = fs::remove_dir_all(&private);
        bound
    }

    fn bind_in(private: &Path, path: &Path) -> io::Result<Self> {
        let made = private.join("socket");
        let listener = UnixListener::bind(&made)?;
        fs::set_permissions(&made, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let id = file_id(&made)?;
        fs::rename(&made, path)?;
        let path = path.to_owned();
        Ok(Self {
            listener,
            file: SocketFile { path, id },
        })
    }

    /// The listener, and the file, which has to be dropped first: a server that starts
    /// in between would take the file of a closed listener for one that is left over.
    pub(super) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if file_id(&self.path).is_ok_and(|id| id == self.id) {
            // If somebody has removed it, nothing is left to do.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn file_id(path: &Path) -> io::Result<FileId> {
    let file = fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// A socket that nobody listens on is left over from a server that was killed.
fn check_free(path: &Path) -> io::Result<()> {
    let Ok(file) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !file.file_type().is_socket() {
        return Err(io::Error::other("there is a file that is no socket"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another server listens there",
        )),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a client of this user may do everything: the server's user, and root.
pub(super) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == nix::unistd::geteuid().as_raw()
}

/// The socket of this process, if no other path is set. Sockets of servers that were
/// killed are removed from its folder.
pub fn default_socket() -> PathBuf {
    let folder = own_folder();
    remove_ended(&folder);
    folder.join(format!("{PREFIX}{}{SUFFIX}", std::process::id()))
}

/// The processes are asked for, and not only the sockets: one that is just being made
/// does not answer yet either.
fn remove_ended(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(pid) = process_of(&entry.path()) else {
            continue;
        };
        if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
            // The next start tries again.
            if check_free(&entry.path()).is_ok() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// The process whose socket this is, if it is one that no other path was set for.
pub fn process_of(socket: &Path) -> Option<i32> {
    let name = socket.file_name()?.to_str()?;
    let number = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    number.parse().ok()
}

/// The folders in which a server may have put its socket: this user's, and that of a
/// system service; or only the one that `RUNTIME_DIRECTORY` names.
pub fn socket_folders() -> Vec<PathBuf> {
    let mut folders = vec![own_folder()];
    if given_folder().is_none() {
        folders.push(PathBuf::from(SYSTEM_FOLDER));
    }
    folders.dedup();
    folders
}

/// The first folder; systemd separates several by colons.
fn given_folder() -> Option<PathBuf> {
    let folders = env::var("RUNTIME_DIRECTORY").ok()?;
    let first = folders.split(':').next()?;
    (!first.is_empty()).then(|| PathBuf::from(first))
}

/// Where systemd says (`RUNTIME_DIRECTORY`), else in the user's run-time folder
/// (`$XDG_RUNTIME_DIR/busyhour`), for root in `/run/busyhour`, else in the user's state
/// folder (`~/.local/state/busyhour`).
fn own_folder() -> PathBuf {
    let own = || dirs::runtime_dir().map(|folder| folder.join("busyhour"));
    let state = || match nix::unistd::geteuid().is_root() {
        true => None,
        false => dirs::state_dir().map(|folder| folder.join("busyhour")),
    };
    given_folder()
        .or_else(own)
        .or_else(state)
        .unwrap_or_else(|| PathBuf::from(SYSTEM_FOLDER))
}

const SYSTEM_FOLDER: &str = "/run/busyhour";
const PREFIX: &str = "busyhour-";
const SUFFIX: &str = ".sock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_user_may_connect_and_a_left_over_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/busyhour.sock");
        let first = LocalSocket::bind(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let refused = LocalSocket::bind(&path).err().unwrap();
        assert_eq!(refused.to_string(), "another server listens there");
        // A file whose listener is closed is left over, as after `kill -9`.
        let (listener, file) = first.into_parts();
        drop(listener);
        let second = LocalSocket::bind(&path).unwrap();
        // The end of the first one must not remove the socket of the second one.
        drop(file);
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    /// As after a `kill -9` in the middle of binding, in a container where every server has
    /// the same number.
    #[test]
    fn what_an_earlier_process_of_this_number_left_is_not_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder
            .path()
            .join(format!(".busyhour-{}", std::process::id()));
        fs::create_dir(&left).unwrap();
        drop(UnixListener::bind(left.join("socket")).unwrap());
        let path = folder.path().join("busyhour.sock");
        let _socket = LocalSocket::bind(&path).unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        assert!(!left.exists());
    }

    #[test]
    fn the_socket_of_a_process_that_is_gone_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // No process has this number: it is above every limit of Linux.
        let [gone, here, other] = [
            at("busyhour-2000000000.sock"),
            at(&format!("busyhour-{}.sock", std::process::id())),
            at("other-2000000000.sock"),
        ];
        for path in [&gone, &here, &other] {
            drop(UnixListener::bind(path).unwrap());
        }
        remove_ended(folder.path());
        assert_eq!(
            [&gone, &here, &other].map(|path| path.exists()),
            [false, true, true]
        );
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        fs::write(&path, "notes").unwrap();
        let refused = LocalSocket::bind(&path).err().unwrap();
        assert_eq!(refused.to_string(), "there is a file that is no socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "notes");
    }
}
