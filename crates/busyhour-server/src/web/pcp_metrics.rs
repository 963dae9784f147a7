//! The snapshot for the Performance Co-Pilot: the text of [`metrics`](super::metrics) with
//! the lines `# PCP5`, from which `pmdaopenmetrics` takes names, semantics and units.
//!
//! Without these lines it guesses them from the names, and takes `…_count` for a counter.
//! Other readers of OpenMetrics allow no such lines, so the text has a path of its own.

use super::metrics::{Families, Family, HistogramSample};
use crate::server::ServerStats;
use prometheus_client::{metrics::MetricType, registry::Unit};
use std::fmt::{self, Write};

/// Not OpenMetrics, because of the lines for PCP.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The snapshot as `pmdaopenmetrics` takes it.
pub(super) fn text(stats: &ServerStats) -> Result<String, fmt::Error> {
    let mut out = String::new();
    for (name, family) in Families::of(stats).iter() {
        write_family(&mut out, name, family)?;
    }
    Ok(out)
}

fn write_family(out: &mut String, name: &str, family: &Family) -> fmt::Result {
    if let Some(histogram) = family.histogram() {
        return write_histogram(out, name, family, histogram);
    }
    let is_counter = matches!(family.kind(), MetricType::Counter);
    let (kind, semantics) = match is_counter {
        true => ("counter", "counter"),
        false => ("gauge", "instant"),
    };
    let domain = match family.samples().iter().any(|(owner, _)| owner.is_some()) {
        // A number that is not looked at: every domain but this word is one.
        true => "0",
        false => "PM_INDOM_NULL",
    };
    let units = match family.unit() {
        Some(Unit::Seconds) => "sec",
        _ if family.path().ends_with("_bytes") => "byte",
        _ if is_counter => "count",
        _ => "none",
    };
    writeln!(out, "# HELP {name} {} of /api/v1/stats", family.path())?;
    writeln!(out, "# TYPE {name} {kind}")?;
    // The third word is an identifier, which is not looked at either.
    let pcp_name = family.dotted_name();
    writeln!(
        out,
        "# PCP5 {pcp_name} 0 double {domain} {semantics} {units}"
    )?;
    for (owner, value) in family.samples() {
        out.push_str(name);
        if let Some(owner) = owner {
            write!(out, "{{instname=\"{}\"}}", escaped(owner))?;
        }
        writeln!(out, " {value}")?;
    }
    Ok(())
}

/// PCP has no histograms: counters instead, the buckets as instances named by their bounds.
fn write_histogram(
    out: &mut String,
    name: &str,
    family: &Family,
    histogram: &HistogramSample,
) -> fmt::Result {
    let pcp_name = family.dotted_name();
    let head = |out: &mut String, part: &str, domain: &str, units: &str| {
        writeln!(
            out,
            "# HELP {name}_{part} {} of /api/v1/stats",
            family.path()
        )?;
        writeln!(out, "# TYPE {name}_{part} counter")?;
        writeln!(
            out,
            "# PCP5 {pcp_name}.{part} 0 double {domain} counter {units}"
        )
    };
    head(out, "bucket", "0", "count")?;
    for (bound, count) in &histogram.buckets {
        writeln!(out, "{name}_bucket{{instname=\"{bound}\"}} {count}")?;
    }
    head(out, "sum", "PM_INDOM_NULL", "sec")?;
    writeln!(out, "{name}_sum {}", histogram.sum_seconds)?;
    head(out, "count", "PM_INDOM_NULL", "count")?;
    writeln!(out, "{name}_count {}", histogram.count)
}

fn escaped(label: &str) -> String {
    let label = label.replace('\\', "\\\\").replace('"', "\\\"");
    label.replace('\n', "\\n")
}
