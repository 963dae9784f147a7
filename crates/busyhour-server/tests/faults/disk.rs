//! A small disk that only the server sees and that can really run full: a file
//! system of limited size in a mount namespace.

use crate::support::Place;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub struct Disk {
    /// The process that keeps the namespace, and with it the disk, until its
    /// input ends.
    keeper: Child,
    folder: PathBuf,
}

impl Disk {
    pub fn mount(place: &Place) -> Self {
        let folder = place.path("disk");
        fs::create_dir(&folder).expect("a writable temporary folder");
        let mut command = Command::new("unshare");
        command.args(users_namespace(&["--user", "--map-root-user"]));
        command.args(["--mount", "--propagation", "private"]);
        command.args(["sh", "-c", MOUNT, "sh"]).arg(&folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let keeper = command.stderr(Stdio::piped()).spawn();
        let mut keeper = keeper.expect("unshare, which util-linux has");
        let mut said = String::new();
        let output = keeper.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut said).expect("text");
        assert_eq!(said, "mounted\n", "{}", why_not(&mut keeper));
        Self { keeper, folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A command whose program sees the disk.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper.id().to_string()]);
        command.args(users_namespace(&["--user", "--preserve-credentials"]));
        command.args(["--mount", "--", program]);
        command
    }

    /// Another file takes all remaining room.
    pub fn fill(&self) {
        let mut file = File::create(self.ballast()).expect("a disk");
        let mut len = 1 << 20;
        while len > 0 {
            match file.write_all(&vec![0; len]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => len /= 2,
                Err(error) => panic!("the disk should be full: {error}"),
            }
        }
    }

    /// Removes that file.
    pub fn clear(&self) {
        // If it was never written, there is room already.
        let _ = fs::remove_file(self.ballast());
    }

    /// The path of that file outside of the namespace.
    fn ballast(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.keeper.id()));
        let folder = self.folder.strip_prefix("/").expect("an absolute path");
        root.join(folder).join(Path::new("ballast"))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Root needs no user namespace, and may not be allowed to make one.
fn users_namespace<'a>(arguments: &'a [&'a str]) -> &'a [&'a str] {
    let ours = fs::metadata("/proc/self").expect("Linux");
    if ours.uid() == 0 { &[] } else { arguments }
}

fn why_not(keeper: &mut Child) -> String {
    let mut reason = String::new();
    let errors = keeper.stderr.take().expect("piped");
    // If the errors cannot be read, the message has no reason.
    let _ = BufReader::new(errors).read_to_string(&mut reason);
    format!(
        "no disk of limited size can be mounted here: {reason}\
         This test needs a mount namespace. Run it as root; in a container, as root with \
         --cap-add SYS_ADMIN and without a seccomp or AppArmor profile that forbids mount; \
         or allow namespaces to other users: sysctl kernel.unprivileged_userns_clone=1, \
         kernel.apparmor_restrict_unprivileged_userns=0 and user.max_user_namespaces=10000, \
         whichever of them there are."
    )
}

/// The size is more than the log of SQLite grows to before it starts again.
const MOUNT: &str = "mount -t tmpfs -o size=64m busyhour-test \"$1\" && echo mounted && exec cat";
