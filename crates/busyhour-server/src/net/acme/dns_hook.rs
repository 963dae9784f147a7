//! A program of the operator that puts a record into DNS, by which an authority finds that a name
//! is ours (RFC 8555 §8.4).

use std::{
    io::Read,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Records that are in DNS for an order; dropping them has them removed.
pub(super) struct DnsRecords<'o> {
    hook: Option<&'o Path>,
    there: Vec<(String, String)>,
}

impl<'o> DnsRecords<'o> {
    pub(super) fn new(hook: Option<&'o Path>) -> Self {
        Self {
            hook,
            there: Vec::new(),
        }
    }

    /// Has the program put a TXT record for `name` into DNS, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// What went wrong, with what the program wrote.
    pub(super) fn put(&mut self, name: &str, value: &str) -> Result<(), String> {
        let hook = self.hook.ok_or("acme.dns_hook is off")?;
        let record = format!("_acme-challenge.{}", name.trim_start_matches("*."));
        // Also if it fails: perhaps the record is there.
        self.there.push((record.clone(), value.to_owned()));
        run(hook, ["present", &record, value])
    }
}

impl Drop for DnsRecords<'_> {
    fn drop(&mut self) {
        for (record, value) in &self.there {
            let Some(hook) = self.hook else { return };
            if let Err(problem) = run(hook, ["remove", record, value]) {
                tracing::warn!(problem, record, "a record of an order stays in DNS");
            }
        }
    }
}

/// Runs the program for at most two minutes.
fn run(hook: &Path, arguments: [&str; 3]) -> Result<(), String> {
    let of_hook = |problem: String| format!("acme.dns_hook {}: {problem}", hook.display());
    let mut command = Command::new(hook);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn();
    let mut child = child.map_err(|error| of_hook(format!("cannot be run: {error}")))?;
    let said = child.stderr.take().map(|mut errors| {
        thread::spawn(move || {
            let mut said = Vec::new();
            let _ = errors.by_ref().take(SAID_LEN_MAX).read_to_end(&mut said);
            // The rest is read, so that the program does not wait for that.
            let _ = std::io::copy(&mut errors, &mut std::io::sink());
            String::from_utf8_lossy(&said).trim().to_owned()
        })
    });
    let status = wait(&mut child);
    let said = || said.and_then(|it| it.join().ok()).unwrap_or_default();
    match status {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(of_hook(format!("{status}: {}", said()))),
        Ok(None) => Err(of_hook("did not end within 120 s".to_owned())),
        Err(error) => Err(of_hook(error.to_string())),
    }
}

/// `None` if it took too long, and was ended.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);
/// What a log line has room for.
const SAID_LEN_MAX: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt};

    #[test]
    fn the_program_puts_records_and_removes_them_even_where_one_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (hook, log) = (folder.path().join("hook"), folder.path().join("log"));
        let script = format!(
            "#!/bin/sh\necho \"$@\" >>{}\ncase \"$*\" in present*bad*) echo no such zone >&2; exit 3;; esac\n",
            log.display()
        );
        fs::write(&hook, script).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
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
}
