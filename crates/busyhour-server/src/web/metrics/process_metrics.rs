//! What every exporter of Prometheus tells of its process, under the names that its conventions give, and
//! which version runs. The snapshot has none of it: it is of the machine and not of the server.

use nix::sys::{
    resource::{Resource, UsageWho, getrlimit, getrusage},
    time::{TimeVal, TimeValLike},
};
use prometheus_client::{
    collector::Collector, encoding::DescriptorEncoder, metrics::MetricType, registry::Unit,
};
use std::{
    fmt, fs,
    sync::OnceLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The process at one moment.
#[derive(Debug)]
pub(super) struct ProcessMetrics {
    uptime: Duration,
    open_files: Option<u64>,
}

impl ProcessMetrics {
    /// Of a server that has run for so long, and has so many files open.
    pub(super) fn new(uptime: Duration, open_files: Option<u64>) -> Self {
        Self { uptime, open_files }
    }

    /// When it began, in seconds since 1970: the same at each look, whatever happens to the clock.
    fn started_at(&self) -> Option<f64> {
        static STARTED_AT: OnceLock<f64> = OnceLock::new();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let begun = now.saturating_sub(self.uptime).as_secs_f64();
        Some(*STARTED_AT.get_or_init(|| begun))
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let (gauge, counter) = (MetricType::Gauge, MetricType::Counter);
        let (bytes, seconds) = (Some(Unit::Bytes), Some(Unit::Seconds));
        let rows = [
            (
                "cpu",
                "Processor time, user and system",
                &seconds,
                counter,
                processor_time(),
            ),
            (
                "resident_memory",
                "Memory that is in RAM",
                &bytes,
                gauge,
                kib_of(&status, "VmRSS:"),
            ),
            (
                "virtual_memory",
                "Address space",
                &bytes,
                gauge,
                kib_of(&status, "VmSize:"),
            ),
            (
                "threads",
                "Threads",
                &None,
                gauge,
                number_of(&status, "Threads:"),
            ),
            (
                "open_fds",
                "Open files, sockets among them",
                &None,
                gauge,
                self.open_files.map(|count| count as f64),
            ),
            ("max_fds", "How many may be open", &None, gauge, files_max()),
            (
                "start_time",
                "When it began, since 1970",
                &seconds,
                gauge,
                self.started_at(),
            ),
        ];
        for (name, help, unit, kind, value) in rows {
            // A system without /proc has fewer of them.
            let Some(value) = value else { continue };
            let name = format!("process_{name}");
            let mut metric = encoder.encode_descriptor(&name, help, unit.as_ref(), kind)?;
            match kind {
                MetricType::Counter => {
                    metric.encode_counter::<[(&str, &str); 0], _, f64>(&value, None)?;
                }
                _ => metric.encode_gauge(&value)?,
            }
        }
        // `promtool check metrics` does not know OpenMetrics' type `info`.
        let (name, help) = ("busyhour_build_info", "Which version runs");
        let mut build = encoder.encode_descriptor(name, help, None, gauge)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        build.encode_family(&version)?.encode_gauge(&1.0)
    }
}

fn processor_time() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let seconds = |time: TimeVal| time.num_microseconds() as f64 * 1e-6;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn files_max() -> Option<f64> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    Some(soft as f64)
}

fn kib_of(status: &str, field: &str) -> Option<f64> {
    Some(number_of(status, field)? * 1024.0)
}

/// The number in a line of `/proc/self/status`.
fn number_of(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_kernel_are_read() {
        let status = "Name:\tbusyhour\nVmSize:\t  2048 kB\nVmRSS:\t     512 kB\nThreads:\t9\n";
        assert_eq!(kib_of(status, "VmRSS:"), Some(524_288.0));
        assert_eq!(number_of(status, "Threads:"), Some(9.0));
        assert_eq!(number_of(status, "Absent:"), None);
    }
}
