use crate::web::{GraphOptions, PmcdAddress};
use busyhour_graphite::{Limits, TelemetryOptions};
use std::{path::PathBuf, time::Duration};

/// The `[graphite]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graphite {
    /// A folder of PCP archives; `None`: only the server's own values are served.
    pub archives: Option<PathBuf>,
    /// Seconds between two values of an archive's series.
    pub archive_step_seconds: u32,
    /// A running `pmcd` whose values are sampled, or none.
    pub pmcd: Option<PmcdAddress>,
    /// How the names of its metrics begin.
    pub pmcd_metrics: String,
    /// Seconds between two samples of the server's own values, and of the `pmcd`'s.
    pub sample_seconds: u32,
    /// Memory for samples, in MiB.
    pub history_mib: usize,
    /// Values one request may fetch.
    pub max_points: u64,
    /// Series one request may match.
    pub max_series: u64,
    /// Days one request may span.
    pub max_range_days: u32,
    /// Memory one request may use, in MiB.
    pub max_memory_mib: u64,
    /// How deep calls in a target may be nested.
    pub max_depth: usize,
    /// Seconds one request may take.
    pub timeout_seconds: u32,
    /// Requests evaluated at once.
    pub max_running: usize,
}

impl Graphite {
    /// The options of the Graphite interface itself.
    pub fn options(&self) -> GraphOptions {
        GraphOptions {
            limits: Limits {
                points_max: self.max_points,
                series_max: self.max_series,
                range_seconds_max: i64::from(self.max_range_days) * 86_400,
                memory_bytes_max: self.max_memory_mib << 20,
                depth_max: self.max_depth,
                ..Limits::default()
            },
            duration_max: Duration::from_secs(u64::from(self.timeout_seconds)),
            running_max: self.max_running,
            telemetry: TelemetryOptions {
                step_seconds: i64::from(self.sample_seconds),
                bytes_max: self.history_mib << 20,
                ..TelemetryOptions::default()
            },
        }
    }
}

impl Default for Graphite {
    fn default() -> Self {
        Self {
            archives: None,
            archive_step_seconds: 60,
            pmcd: None,
            pmcd_metrics: "kernel".into(),
            sample_seconds: 10,
            history_mib: 16,
            max_points: 2_000_000,
            max_series: 10_000,
            max_range_days: 366,
            max_memory_mib: 256,
            max_depth: 32,
            timeout_seconds: 30,
            max_running: 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_crate() {
        assert_eq!(Graphite::default().options(), GraphOptions::default());
    }
}
