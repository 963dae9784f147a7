//! CPU time of the server and its children, and its memory, from /proc.

use std::fs;
use std::time::Duration;

/// A running process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pid: u32,
}

/// What a process has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub cpu: Duration,
    pub rss_bytes: u64,
    pub rss_bytes_max: u64,
}

impl Process {
    pub fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// `None` if the process has ended or must not be read.
    pub fn usage(self) -> Option<Usage> {
        let status = self.read("status")?;
        let kib = |key: &str| Some(field(&status, key)?.parse::<u64>().ok()? * 1024);
        Some(Usage {
            cpu: self.cpu_of_tree()?,
            rss_bytes: kib("VmRSS:")?,
            rss_bytes_max: kib("VmHWM:")?,
        })
    }

    /// The CPU time of the process and of all its descendants that still run.
    fn cpu_of_tree(self) -> Option<Duration> {
        let mut sum = self.cpu()?;
        let mut children = self.children();
        while let Some(child) = children.pop() {
            sum += child.cpu().unwrap_or_default();
            children.extend(child.children());
        }
        Some(sum)
    }

    /// The child processes; none where the kernel does not list them.
    fn children(self) -> Vec<Self> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid));
        let of_thread = |path: std::path::PathBuf| fs::read_to_string(path.join("children"));
        let texts = tasks.into_iter().flatten().flatten();
        texts
            .filter_map(|task| of_thread(task.path()).ok())
            .flat_map(|text| -> Vec<u32> {
                let pids = text.split_whitespace();
                pids.filter_map(|pid| pid.parse().ok()).collect()
            })
            .map(Self::new)
            .collect()
    }

    /// The nanoseconds that the scheduler counts for every thread, where the
    /// kernel keeps them; otherwise the ticks. Only the ticks include threads
    /// that have ended.
    fn cpu(self) -> Option<Duration> {
        let ticks = ticks(&self.read("stat")?)?;
        let precise = self.scheduled().unwrap_or_default();
        let same = precise.abs_diff(ticks) <= TICKS_TOLERANCE;
        Some(if same { precise } else { ticks })
    }

    fn scheduled(self) -> Option<Duration> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).ok()?;
        let of_thread = |path: std::path::PathBuf| {
            let text = fs::read_to_string(path.join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        };
        let nanos = threads
            .flatten()
            .map(|thread| of_thread(thread.path()).unwrap_or(0));
        Some(Duration::from_nanos(nanos.sum()))
    }

    fn read(self, file: &str) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid)).ok()
    }
}

/// User and system time, fields 14 and 15. The name in brackets may contain
/// anything, so counting begins after it.
fn ticks(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let ticks = next()? + next()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

fn field<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    let line = status.lines().find(|line| line.starts_with(key))?;
    line.get(key.len()..)?.split_whitespace().next()
}

/// Linux's interface fixes this value, whatever the frequency of the kernel's
/// own clock is.
const TICKS_PER_SECOND: u64 = 100;
/// If two clocks differ by more than this, they do not count the same
/// threads.
const TICKS_TOLERANCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_skipped() {
        let stat = "7 (a) b (c) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(Duration::from_secs(2)));
    }

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let here = Process::new(std::process::id());
        let is_found = || (here.children().iter()).any(|found| found.pid == child.id());
        // The list may miss a process while another one ends, for example a
        // child of another test.
        let found = (0..1000).any(|_| is_found());
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(found);
    }

    #[test]
    fn this_process_can_be_measured_and_a_missing_one_cannot() {
        let usage = Process::new(std::process::id())
            .usage()
            .expect("we are here");
        assert!(usage.rss_bytes > 0 && usage.rss_bytes_max >= usage.rss_bytes);
        assert_eq!(Process::new(u32::MAX).usage(), None);
    }
}
