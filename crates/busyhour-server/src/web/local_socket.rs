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
        fs::{DirBuilderExt, FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
};

/// A bound socket; dropping it removes the file.
pub struct LocalSocket {
    path: PathBuf,
    listener: UnixListener,
}

/// The file of a socket; dropping it removes the file.
pub(super) struct SocketFile(PathBuf);

impl LocalSocket {
    /// Binds `path`. A socket of a server that has ended is replaced.
    ///
    /// # Errors
    ///
    /// If another server listens there, if the file is no socket, or if it cannot be
    /// made.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        remove_if_ended(path)?;
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            path: path.to_owned(),
            listener,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, SocketFile(self.path))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If somebody has removed it, nothing is left to do.
        let _ = fs::remove_file(&self.0);
    }
}

/// A socket that nobody listens on is left over from a server that was killed.
fn remove_if_ended(path: &Path) -> io::Result<()> {
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
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
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
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let number = number.and_then(|rest| rest.strip_suffix(SUFFIX));
        let Some(pid) = number.and_then(|number| number.parse().ok()) else {
            continue;
        };
        if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
            // The next start tries again.
            let _ = remove_if_ended(&entry.path());
        }
    }
}

/// The folders in which a server may have put its socket: this user's, and that of a
/// system service.
pub fn socket_folders() -> Vec<PathBuf> {
    let mut folders = vec![own_folder(), PathBuf::from(SYSTEM_FOLDER)];
    folders.dedup();
    folders
}

/// Where systemd says (`RUNTIME_DIRECTORY`), else in the user's run-time folder
/// (`$XDG_RUNTIME_DIR/busyhour`), for root in `/run/busyhour`, else in the user's state
/// folder (`~/.local/state/busyhour`).
fn own_folder() -> PathBuf {
    let given = env::var("RUNTIME_DIRECTORY").ok();
    let given = given.and_then(|folders| folders.split(':').next().map(PathBuf::from));
    let given = given.filter(|folder| !folder.as_os_str().is_empty());
    let own = || dirs::runtime_dir().map(|folder| folder.join("busyhour"));
    let state = || match nix::unistd::geteuid().is_root() {
        true => None,
        false => dirs::state_dir().map(|folder| folder.join("busyhour")),
    };
    given
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
        // As after `kill -9`: the file stays.
        let (listener, file) = first.into_parts();
        drop(listener);
        std::mem::forget(file);
        let second = LocalSocket::bind(&path).unwrap();
        drop(second.into_parts());
        assert!(!path.exists());
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
