//! The part of the machine that a process may use.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use kit::args::refuse;

/// A part of the machine.
pub struct Cores {
    /// The processors in the form that `taskset` takes; `None` for all.
    list: Option<String>,
    /// A control group with a share of one processor.
    group: Option<PathBuf>,
}

impl Cores {
    /// The whole machine.
    pub fn all() -> Self {
        Self {
            list: None,
            group: None,
        }
    }

    /// A share of the first processor for a server, in hundredths, and all other
    /// processors for its load. So neither takes time from the other, and the load
    /// can be several times what the server can process.
    pub fn apart(percent: u64) -> [Self; 2] {
        let count = std::thread::available_parallelism().map_or(1, |count| count.get());
        if count < 2 {
            refuse("a server and its load need a processor each");
        }
        let server = Self {
            list: Some("0".to_owned()),
            group: Some(make_group(percent)),
        };
        let load = Self {
            list: Some(format!("1-{}", count - 1)),
            group: None,
        };
        [server, load]
    }

    /// A command that runs `program` on these processors only.
    pub fn command(&self, program: &Path) -> Command {
        let Some(list) = &self.list else {
            return Command::new(program);
        };
        // Each of these programs replaces itself by the next, so the process is
        // that of `program`.
        let mut command = Command::new("sh");
        let enter = self.group.as_ref().map_or_else(String::new, |group| {
            format!("echo $$ > {}/cgroup.procs && ", group.display())
        });
        command.args(["-c", &format!("{enter}exec taskset -c {list} \"$@\"")]);
        command.arg("sh").arg(program);
        command
    }
}

impl Drop for Cores {
    /// The server has ended by then.
    fn drop(&mut self) {
        if let Some(group) = &self.group {
            let _ = fs::remove_dir(group);
        }
    }
}

/// Makes a control group, of version 1 or 2, with so many hundredths of a
/// processor.
fn make_group(percent: u64) -> PathBuf {
    let name = format!("busyhour-bench-{}", std::process::id());
    let roots = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"]
        .iter()
        .map(Path::new);
    let made = roots
        .map(|root| root.join(&name))
        .find(|group| fs::create_dir(group).is_ok() && (limit(group, percent) || remove(group)));
    made.unwrap_or_else(|| {
        refuse("no control group with a share of a processor can be made: run this as root")
    })
}

fn limit(group: &Path, percent: u64) -> bool {
    let quota_us = PERIOD_US * percent / 100;
    let set = |file: &str, text: String| {
        // An existing file is opened and none is created: the folder may be no
        // control group.
        let file = File::options().write(true).open(group.join(file));
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .is_ok()
    };
    set("cpu.max", format!("{quota_us} {PERIOD_US}"))
        || (set("cpu.cfs_period_us", PERIOD_US.to_string())
            && set("cpu.cfs_quota_us", quota_us.to_string()))
}

/// Always `false`: there is no such group any more.
fn remove(group: &Path) -> bool {
    let _ = fs::remove_dir(group);
    false
}

/// So short that a server which has used its share waits for only some milliseconds.
const PERIOD_US: u64 = 10_000;
