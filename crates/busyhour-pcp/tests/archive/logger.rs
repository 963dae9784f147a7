//! Archives that the real `pmlogger` writes with metrics of this machine, read
//! by PCP's tools and by this crate.

use super::{
    dump::{check_descriptions, check_domains, check_records},
    open, peer,
    render::{Moments, check_raw, check_reported},
};
use busyhour_pcp::Version;
use std::{path::PathBuf, time::Duration};
use tempfile::TempDir;

/// Logs for a second or two, in volumes of five records.
fn log(place: &TempDir, version: u8) -> PathBuf {
    let base = place.path().join(format!("version{version}"));
    let samples = 12;
    peer::log(&base, version, samples, CONFIGURATION);
    base
}

#[test]
fn archives_of_pmlogger_are_read_as_by_pmdumplog() {
    let place = TempDir::new().unwrap();
    for version in [2, 3] {
        let base = log(&place, version);
        let archive = open(&base);
        assert_eq!(archive.damage(), None);
        let expected = [Version::V2, Version::V3][usize::from(version) - 2];
        assert_eq!(archive.label().version, expected);
        assert!(archive.volumes().len() > 1, "{:?}", archive.volumes());
        assert!(!archive.index().is_empty());
        check_descriptions(&base);
        assert!(check_records(&base) > 12);
        check_domains(&base);
    }
}

#[test]
fn archives_of_pmlogger_are_rendered_as_by_libpcp_and_pmrep() {
    let place = TempDir::new().unwrap();
    for version in [2, 3] {
        let base = log(&place, version);
        let archive = open(&base);
        let start = archive.start().as_nanos();
        let span = archive.end().as_nanos() - start;
        for (from_ns, step_ms) in [(start, 100), (start + span / 2, 50)] {
            let left = archive.end().as_nanos() - from_ns;
            let count = (left / (step_ms * 1_000_000)) as usize + 2;
            let moments = Moments {
                from_ns,
                step_ms,
                count,
            };
            check_raw(&base, moments, false);
        }
        let metrics = [
            "kernel.all",
            "kernel.percpu.cpu",
            "network.interface.in",
            "disk.all",
        ];
        check_reported(&base, Duration::from_millis(200), &metrics, false);
    }
}

const CONFIGURATION: &str = "\
log mandatory on once { hinv.ncpu hinv.physmem kernel.uname.release }
log mandatory on 100 msec {
    kernel.all.load
    kernel.all.cpu.user
    kernel.all.pswitch
    kernel.all.uptime
    kernel.percpu.cpu.user
    mem.util.free
    network.interface.in.bytes
    disk.all.total
}
";
