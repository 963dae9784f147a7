//! Descriptions, instance domains and every logged value, compared with those
//! of `pmdumplog`.

use super::{open, peer};
use busyhour::clock::UnixTime;
use busyhour_pcp::{Archive, Metric, Record, Semantics, Value, ValueType};
use std::{collections::BTreeSet, path::Path};
use tempfile::TempDir;

/// Checks one archive of each version, and what `pmlogextract` makes of that of
/// version 3, which has instance domains as deltas.
fn for_each_kind(check: impl Fn(&Path)) {
    let place = TempDir::new().unwrap();
    for version in [2, 3] {
        let base = place.path().join(format!("version{version}"));
        peer::write(&base, version, 5, 120);
        check(&base);
    }
    let deltas = place.path().join("deltas");
    peer::extract(&[], &[&place.path().join("version3")], &deltas);
    check(&deltas);
}

#[test]
fn every_description_is_the_one_that_pmdumplog_prints() {
    for_each_kind(|base| {
        check_descriptions(base);
        let archive = open(base);
        assert_eq!(archive.label().host, "example.com");
        assert_eq!(archive.label().timezone, "UTC");
    });
}

pub fn check_descriptions(base: &Path) {
    let archive = open(base);
    let ours: BTreeSet<String> = archive.metrics().iter().map(description).collect();
    let text = peer::dump(base, &["-d"]);
    let theirs: BTreeSet<String> = text
        .split("PMID: ")
        .skip(1)
        .map(|metric| metric.trim_end().to_owned())
        .collect();
    assert_eq!(ours, theirs);
}

fn description(metric: &Metric) -> String {
    let value_type = match metric.value_type {
        ValueType::I32 => "32-bit int",
        ValueType::U32 => "32-bit unsigned int",
        ValueType::I64 => "64-bit int",
        ValueType::U64 => "64-bit unsigned int",
        ValueType::F32 => "float",
        ValueType::F64 => "double",
        ValueType::String => "string",
        other => panic!("the archive was written without {other:?}"),
    };
    let domain = match metric.domain {
        None => "PM_INDOM_NULL 0xffffffff".to_owned(),
        Some(domain) => format!("{}.{} {domain:#x}", domain >> 22, domain & 0x3f_ffff),
    };
    let semantics = match metric.semantics {
        Semantics::Counter => "counter",
        Semantics::Instant => "instant",
        Semantics::Discrete => "discrete",
    };
    let units = match metric.units.to_string() {
        units if units.is_empty() => "none".to_owned(),
        units => units,
    };
    format!(
        "{} ({})\n    Data Type: {value_type}  InDom: {domain}\n    Semantics: {semantics}  Units: {units}",
        metric.id,
        metric.name()
    )
}

#[test]
fn every_instance_domain_is_the_one_that_pmdumplog_prints_at_each_time() {
    for_each_kind(|base| {
        let versions = check_domains(base);
        assert!(versions > 3, "{versions} versions of the domain");
    });
}

/// Checks all versions of the instance domains; returns their number.
pub fn check_domains(base: &Path) -> usize {
    let archive = open(base);
    let text = peer::dump(base, &["-i"]);
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("InDom:"))
        .peekable();
    let (mut versions, mut domain) = (0, None);
    while let Some(line) = lines.next() {
        if let Some(number) = line.strip_prefix("InDom: ") {
            let number = domain_number(number);
            domain = Some(archive.domain(number).expect("described"));
            continue;
        }
        let (clock, count) = line.split_once(' ').expect("a time");
        let time = time_of_day(clock, &archive);
        let mut theirs = BTreeSet::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("   ")) {
            theirs.insert(line.trim().to_owned());
        }
        let ours = domain.expect("a domain's name").at(time);
        let ours: BTreeSet<String> = ours
            .iter()
            .map(|instance| format!("{} or \"{}\"", instance.id, instance.name))
            .collect();
        assert_eq!(ours, theirs, "{clock} of {}", base.display());
        assert_eq!(count, format!("{} instances", ours.len()));
        versions += 1;
    }
    versions
}

/// The number of a domain such as `60.3`, as archives store it.
fn domain_number(text: &str) -> u32 {
    let (domain, serial) = text.split_once('.').expect("domain.serial");
    let number = |text: &str| text.trim().parse::<u32>().expect("a number");
    number(domain) << 22 | number(serial)
}

/// The archives are shorter than a day, so a time of day is enough.
pub fn time_of_day(clock: &str, archive: &Archive) -> UnixTime {
    let mut parts = clock.split(':');
    let mut next = || parts.next().expect("hours, minutes, seconds");
    let minutes = next().parse::<u64>().unwrap() * 60 + next().parse::<u64>().unwrap();
    let (seconds, fraction) = next().split_once('.').expect("a fraction");
    let seconds = minutes * 60 + seconds.parse::<u64>().unwrap();
    let nanos = format!("{fraction:0<9}").parse::<u64>().unwrap();
    let midnight = archive.start().as_secs() / 86_400 * 86_400;
    let time = UnixTime::from_nanos((midnight + seconds) * 1_000_000_000 + nanos);
    match time < archive.start() {
        true => UnixTime::from_nanos(time.as_nanos() + 86_400_000_000_000),
        false => time,
    }
}

#[test]
fn every_logged_value_is_the_one_that_pmdumplog_prints() {
    for_each_kind(|base| assert!(check_records(base) > 100));
}

/// Checks all records; returns their number.
pub fn check_records(base: &Path) -> usize {
    let archive = open(base);
    let text = peer::dump(base, &["-m"]);
    let mut theirs = text.lines().filter(|line| !line.is_empty()).skip(1);
    let mut record_count = 0;
    for record in archive.records() {
        let record = record.expect("a valid archive");
        record_count += 1;
        let head = theirs.next().expect("another record");
        let clock = head.split(' ').next().expect("a time");
        assert_eq!(time_of_day(clock, &archive), record.time(), "{head}");
        assert_eq!(record.is_mark(), head.ends_with("<mark>"), "{head}");
        check_values(&archive, &record, &mut theirs);
    }
    assert_eq!(theirs.next(), None);
    record_count
}

/// Each line has one value, except for lines that only name the metric.
fn check_values<'a>(archive: &Archive, record: &Record, lines: &mut impl Iterator<Item = &'a str>) {
    let samples = record.samples().expect("a valid record");
    let mut metric = None;
    for sample in samples {
        let found = archive
            .metrics()
            .iter()
            .find(|found| found.id == sample.metric);
        let found = found.expect("a described metric");
        let mut line = lines.next().expect("another value");
        if line.ends_with(':') {
            line = lines.next().expect("a value of it");
            metric = None;
        }
        if metric.replace(sample.metric) != Some(sample.metric) && line.contains('(') {
            assert!(
                line.contains(&format!("{} ({})", found.id, found.name())),
                "{line}"
            );
        }
        if found.domain.is_some() {
            assert!(
                line.contains(&format!("inst [{} or ", sample.instance)),
                "{line}"
            );
        }
        let (_, theirs) = line.rsplit_once("value ").expect("a value");
        check_value(found, &sample.value, theirs);
    }
}

fn check_value(metric: &Metric, ours: &Value, theirs: &str) {
    let Some(number) = ours.number(metric.value_type) else {
        assert_eq!(format!("{:?}", ours.text().expect("a text")), theirs);
        return;
    };
    let theirs: f64 = theirs.parse().expect("a number");
    // Floating point numbers are printed with about eight digits.
    let tolerance = match metric.value_type {
        ValueType::F32 | ValueType::F64 => 1e-6 * theirs.abs(),
        _ => 0.0,
    };
    assert!(
        (number - theirs).abs() <= tolerance,
        "{}: {number}, {theirs}",
        metric.name()
    );
}
