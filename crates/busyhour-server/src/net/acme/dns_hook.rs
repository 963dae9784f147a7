//! A program of the operator that puts a record into DNS, by which an authority finds that a name
//! is ours (RFC 8555 §8.4).

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::{
    io::{self, Read},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Records that are in DNS for an order; dropping them has them removed.
pub(super) struct DnsRecords<'o> {
    hook: Option<&'o Path>,
    there: Vec<(String, String)>,
    patience: Duration,
}

impl<'o> DnsRecords<'o> {
    pub(super) fn new(hook: Option<&'o Path>) -> Self {
        Self {
            hook,
            there: Vec::new(),
            patience: PATIENCE,
        }
    }

    /// Has the program put a TXT record for `name` into DNS, and waits until it has ended, for at
    /// most two minutes.
    ///
    /// # Errors
    ///
    /// What went wrong, with what the program wrote.
    pub(super) fn put(&mut self, name: &str, value: &str) -> Result<(), String> {
        let hook = self.hook.ok_or("acme.dns_hook is off")?;
        let record = format!("_acme-challenge.{}", name.trim_start_matches("*."));
        // Also if it fails: perhaps the record is there.
        self.there.push((record.clone(), value.to_owned()));
        run(hook, ["present", &record, value], self.patience)
    }
}

impl Drop for DnsRecords<'_> {
    fn drop(&mut self) {
        let Some(hook) = self.hook else { return };
        for (record, value) in &self.there {
            if let Err(problem) = run(hook, ["remove", record, value], self.patience) {
                tracing::warn!(problem, record, "a record of an order stays in DNS");
            }
        }
    }
}

/// Runs the program. If it fails or takes too long, nothing that it has started goes on.
fn run(hook: &Path, arguments: [&str; 3], patience: Duration) -> Result<(), String> {
    let of_hook = |problem: String| format!("acme.dns_hook {}: {problem}", hook.display());
    let mut command = Command::new(hook);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    // A group of its own, so that what it starts can be ended with it.
    let child = command.process_group(0).spawn();
    let mut child = child.map_err(|error| of_hook(format!("cannot be run: {error}")))?;
    let mut said = Said::of(&mut child);
    let ended = wait(&mut child, &mut said, patience);
    if !matches!(&ended, Ok(Some(status)) if status.success()) {
        end_group(&mut child);
    }
    let said = said.text();
    match ended {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(of_hook(format!("{status}: {said}"))),
        Ok(None) => {
            let seconds = patience.as_secs_f64();
            Err(of_hook(format!("did not end within {seconds} s: {said}")))
        }
        Err(error) => Err(of_hook(error.to_string())),
    }
}

/// `None` if it takes too long.
fn wait(child: &mut Child, said: &mut Said, patience: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + patience;
    loop {
        let status = child.try_wait()?;
        said.read();
        if status.is_some() || Instant::now() >= until {
            return Ok(status);
        }
        thread::sleep(LOOK);
    }
}

/// Ends a program and all that it has started, and not put into another group.
fn end_group(child: &mut Child) {
    let group = i32::try_from(child.id()).map(Pid::from_raw);
    if let Ok(group) = group {
        // Its leader may have ended, and the others as well. Then the number is free since a moment, and
        // numbers go round before one is given again.
        let _ = killpg(group, Signal::SIGKILL);
    }
    let _ = child.wait();
}

/// What the program writes to its standard error. It is read as it comes, and never waited for:
/// whatever the program has started may keep it open.
struct Said {
    errors: Option<ChildStderr>,
    text: Vec<u8>,
}

impl Said {
    fn of(child: &mut Child) -> Self {
        let errors = child.stderr.take();
        let errors = errors.filter(|errors| {
            fcntl_getfl(errors)
                .and_then(|flags| fcntl_setfl(errors, flags | OFlags::NONBLOCK))
                .is_ok()
        });
        Self {
            errors,
            text: Vec::new(),
        }
    }

    /// All that is there now, so that the program does not wait for room.
    fn read(&mut self) {
        let mut room = [0; 4096];
        for _ in 0..READS_MAX {
            let Some(Ok(len @ 1..)) = self.errors.as_mut().map(|it| it.read(&mut room)) else {
                return;
            };
            let left = SAID_LEN_MAX.saturating_sub(self.text.len());
            self.text.extend_from_slice(&room[..len.min(left)]);
        }
    }

    fn text(mut self) -> String {
        self.read();
        String::from_utf8_lossy(&self.text).trim().to_owned()
    }
}

/// For one record.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);
/// What a log line has room for.
const SAID_LEN_MAX: usize = 1000;
/// As much as a pipe holds; a program that writes without an end does not keep us.
const READS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn the_program_puts_records_and_removes_them_even_where_one_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (hook, log) = (folder.path().join("hook"), folder.path().join("log"));
        let script = format!(
            "echo \"$@\" >>{}\ncase \"$*\" in present*bad*) echo no such zone >&2; exit 3;; esac\n",
            log.display()
        );
        write_script(&hook, &script);
        let mut records = DnsRecords::new(Some(&hook));
        records.put("sip.example.com", "one").unwrap();
        let problem = records.put("*.bad.example", "two").unwrap_err();
        assert!(
            problem.contains("exit status: 3: no such zone"),
            "{problem}"
        );
        drop(records);
        let expected = "present _acme-challenge.sip.example.com one\n\
                        present _acme-challenge.bad.example two\n\
                        remove _acme-challenge.sip.example.com one\n\
                        remove _acme-challenge.bad.example two\n";
        assert_eq!(fs::read_to_string(log).unwrap(), expected);
        let missing = folder.path().join("none");
        let problem = DnsRecords::new(Some(&missing)).put("a", "b").unwrap_err();
        assert!(problem.contains("cannot be run"), "{problem}");
    }

    /// What it has started goes on, and keeps its standard error open, whether it has ended or not.
    #[test]
    fn a_program_that_fails_or_hangs_is_ended_with_all_that_it_has_started() {
        let cases = [
            ("exit 3", "exit status: 3: begun"),
            ("sleep 1000", " s: begun"),
            ("yes >&2", " s: begun"),
        ];
        for (end, expected) in cases {
            let folder = tempfile::tempdir().unwrap();
            let (hook, left) = (folder.path().join("hook"), folder.path().join("left"));
            let script = format!(
                "echo begun >&2\nsleep 1000 &\necho $! >>{}\n{end}\n",
                left.display()
            );
            write_script(&hook, &script);
            let mut patience = Duration::from_millis(300);
            // A machine with much to do may take its time to begin the program.
            while !problem_of(&hook, patience).contains(expected) {
                assert!(patience < Duration::from_secs(60), "{end}");
                patience *= 2;
            }
            let left = fs::read_to_string(&left).unwrap();
            let left: Vec<_> = left.lines().collect();
            assert!(!left.is_empty());
            for pid in left {
                wait_for_end(pid);
            }
        }
    }

    fn problem_of(hook: &Path, patience: Duration) -> String {
        let mut records = DnsRecords::new(Some(hook));
        records.patience = patience;
        records.put("sip.example.com", "one").unwrap_err()
    }

    fn write_script(hook: &Path, script: &str) {
        fs::write(hook, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Whoever reaps it may take a moment.
    fn wait_for_end(pid: &str) {
        let until = Instant::now() + Duration::from_secs(30);
        let is_there = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, state)| !state.starts_with('Z'))
        };
        while is_there() {
            assert!(Instant::now() < until, "{pid} goes on");
            thread::sleep(LOOK);
        }
    }
}
