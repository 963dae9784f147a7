//! One measurement: an engine's process from start to end, and what the
//! operating system reports about it.

use std::{
    io::Read,
    os::unix::process::CommandExt,
    process::{Child, Command},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use wait4::Wait4;

/// What one process reported, and what it used.
#[derive(Debug, Clone)]
pub struct Run {
    pub measurements: Vec<Measurement>,
    pub checks: Map<String, Value>,
    pub cpu_s: f64,
    pub peak_kib: u64,
}

/// An engine was killed after this time.
#[derive(Debug, thiserror::Error)]
#[error("ended after {} s: too slow", .0.as_secs())]
pub struct TooSlow(pub Duration);

/// One figure, as an engine prints it.
#[derive(Debug, Clone, Deserialize)]
pub struct Measurement {
    pub metric: String,
    pub value: f64,
}

/// A line of an engine's output: a measurement, or the checks at the end.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Measurement(Measurement),
    Checks { checks: Map<String, Value> },
}

impl Run {
    /// Runs `command` to its end, or kills it after `limit` with all processes that it
    /// has started.
    pub fn measure(mut command: Command, limit: Duration) -> Result<Self> {
        let mut child = command
            .process_group(0)
            .spawn()
            .context("the engine cannot be started")?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let errors = thread::spawn(move || read_all(stderr));
        let (done, over) = mpsc::channel::<()>();
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        let watchdog = thread::spawn(move || end_when_late(pid, &over, limit));
        let output = read_all(stdout);
        drop(done);
        let late = watchdog.join().unwrap_or(false);
        let errors = errors.join().unwrap_or_default();
        Self::reap(&mut child, &output, &errors, late.then_some(limit))
    }

    fn reap(child: &mut Child, output: &str, errors: &str, late: Option<Duration>) -> Result<Self> {
        let reaped = child.wait4().context("the engine's end cannot be read")?;
        if let Some(limit) = late {
            bail!(TooSlow(limit));
        }
        if !reaped.status.success() {
            bail!(
                "{}: {}",
                reaped.status,
                errors.lines().last().unwrap_or("no message")
            );
        }
        let mut run = Self::parse(output)?;
        run.cpu_s = (reaped.rusage.utime + reaped.rusage.stime).as_secs_f64();
        run.peak_kib = reaped.rusage.maxrss / 1024;
        Ok(run)
    }

    fn parse(output: &str) -> Result<Self> {
        let mut run = Self {
            measurements: Vec::new(),
            checks: Map::new(),
            cpu_s: 0.0,
            peak_kib: 0,
        };
        for line in output.lines().filter(|line| line.starts_with('{')) {
            match serde_json::from_str(line)
                .with_context(|| format!("not a line of the protocol: {line}"))?
            {
                Line::Measurement(measurement) => run.measurements.push(measurement),
                Line::Checks { checks } => run.checks = checks,
            }
        }
        if run.measurements.is_empty() || run.checks.is_empty() {
            bail!("the engine printed no measurement or no checks");
        }
        Ok(run)
    }
}

fn read_all(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        // If the stream is truncated, the checks are missing, and that is
        // reported.
        let _ = stream.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until the output has ended; returns `true` if the process had to be
/// killed.
fn end_when_late(pid: Pid, over: &mpsc::Receiver<()>, limit: Duration) -> bool {
    let late = over.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
    if late {
        // The child has not been reaped, so its number still belongs to its own
        // group.
        let _ = killpg(pid, Signal::SIGKILL);
    }
    late
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    #[test]
    fn measurements_and_checks_are_read() {
        let script = r#"echo '{"metric":"add_ns","value":12.5}'; echo '{"checks":{"n":3}}'"#;
        let run = Run::measure(shell(script), Duration::from_secs(30)).unwrap();
        assert_eq!(
            (run.measurements[0].value, run.checks["n"].as_u64()),
            (12.5, Some(3))
        );
    }

    #[test]
    fn an_engine_that_hangs_is_killed() {
        let error = Run::measure(shell("exec sleep 600"), Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("too slow"));
    }

    #[test]
    fn processes_of_a_hanging_engine_are_killed_too() {
        let error = Run::measure(shell("sleep 600 & wait"), Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("too slow"));
    }

    #[test]
    fn a_failure_is_reported_with_its_last_line() {
        let error =
            Run::measure(shell("echo no luck >&2; exit 4"), Duration::from_secs(30)).unwrap_err();
        assert!(error.to_string().contains("no luck"));
    }

    #[test]
    fn no_output_is_not_a_measurement() {
        assert!(Run::measure(shell("true"), Duration::from_secs(30)).is_err());
    }
}
