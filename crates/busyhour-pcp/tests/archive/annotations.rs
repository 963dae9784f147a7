//! Texts and events that the real `pmlogger` logged, against `pmdumplog`.

use super::{open, peer, pmcd::Pmcd};
use busyhour::{buffer::BufferPool, clock::UnixTime};
use busyhour_pcp::{Annotation, AnnotationKind, Archive, ValueType};
use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

fn all(archive: &Archive) -> Vec<Annotation> {
    let mut all = Vec::new();
    let begin = UnixTime::from_secs(0);
    archive
        .annotations(begin, archive.end(), |annotation| {
            all.push(annotation);
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

/// As `pmdumplog` names it: `sample.event.records[0 or "fungus"]`.
fn name(archive: &Archive, annotation: &Annotation) -> String {
    let metric = &archive.metrics()[annotation.series.metric];
    let instance = &metric.instances[annotation.series.instance];
    match instance.name.as_str() {
        "" => metric.name().to_owned(),
        name => format!("{}[{} or {name:?}]", metric.name(), instance.id),
    }
}

#[test]
fn events_of_pmlogger_are_those_that_pmdumplog_prints() {
    let pmcd = Pmcd::start(&[]);
    for version in [2, 3] {
        let base = log(&pmcd, version);
        let archive = open(&base);
        let events = all(&archive).into_iter();
        let events = events.filter(|event| event.kind == AnnotationKind::Event);
        let mut ours: Vec<(String, u64, String)> = events
            .map(|event| (name(&archive, &event), of_day(event.time), event.text))
            .collect();
        let mut theirs = Vec::new();
        for metric in EVENTS {
            theirs.extend(dumped(&base, metric, &archive));
        }
        ours.sort();
        theirs.sort();
        assert_eq!(ours, theirs, "version {version}");
        assert!(ours.len() > 20, "{ours:?}");
        for text in [
            "7 event records were missed",
            "sample.event.type=1",
            "start id parent: sample.event.type=4, sample.event.param_u64=5, sample.event.param_string=\"6\"",
            "sample.event.type=7, sample.event.param_double=8, sample.event.param_double=-9",
        ] {
            assert!(
                ours.iter().any(|(_, _, found)| found == text),
                "{text}: {ours:?}"
            );
        }
        // It never changes, so it is told once.
        let texts = all(&archive).into_iter();
        let texts: Vec<Annotation> = texts
            .filter(|text| name(&archive, text) == "sample.string.hullo")
            .collect();
        assert_eq!(texts.len(), 1);
        assert_eq!(
            (texts[0].kind, texts[0].text.as_str()),
            (AnnotationKind::Text, "hullo world!")
        );
    }
}

fn log(pmcd: &Pmcd, version: u8) -> PathBuf {
    let base = pmcd.folder.path().join(format!("events{version}"));
    let configuration = base.with_added_extension("config");
    let wanted = format!(
        "log mandatory on 100 msec {{ sample.string.hullo {} }}\n",
        EVENTS.join(" ")
    );
    std::fs::write(&configuration, wanted).unwrap();
    let log = base.with_added_extension("log");
    let mut arguments = vec![
        "-V".to_owned(),
        version.to_string(),
        "-s".into(),
        "12".into(),
    ];
    for (option, path) in [("-c", &configuration), ("-l", &log)] {
        arguments.extend([option.to_owned(), path.display().to_string()]);
    }
    arguments.push(base.display().to_string());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert!(
        pmcd.ask("pmlogger", &arguments).is_some(),
        "{:?}",
        std::fs::read_to_string(log)
    );
    base
}

/// What `pmdumplog` prints of the events of a metric, in the words of this crate.
fn dumped(base: &Path, metric: &str, archive: &Archive) -> Vec<(String, u64, String)> {
    let mut found: Vec<(String, u64, String)> = Vec::new();
    let mut owner = String::new();
    let text = peer::dump(base, &[]);
    let mut is_wanted = false;
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim();
        match depth {
            4 => {
                let (_, rest) = line.split_once('(').expect("an identifier, then a name");
                owner = rest.split_once("):").expect("a name").0.to_owned();
                is_wanted = owner.split('[').next() == Some(metric);
            }
            8 if is_wanted => match line.strip_prefix("--- event record") {
                Some(record) => {
                    let (_, record) = record.split_once("timestamp ").expect("a time");
                    let (clock, flags) = record.split_once(" flags ").expect("flags");
                    let flags = flags.split_once('(').expect("their names").1;
                    let flags = flags.trim_end_matches(") ---").replace("point", "");
                    let time = of_day(super::dump::time_of_day(clock, archive));
                    found.push((owner.clone(), time, flags.replace(',', " ")));
                }
                None => {
                    let (_, _, text) = found.last_mut().expect("a record");
                    parameter(text, line);
                }
            },
            _ => {}
        }
    }
    for (_, _, text) in found.iter_mut().filter(|(_, _, text)| text.is_empty()) {
        text.push_str("point");
    }
    found
}

/// `pmdumplog` prints no date, and the events were before the archive began.
fn of_day(time: UnixTime) -> u64 {
    time.as_nanos() % (86_400 * 1_000_000_000)
}

fn parameter(text: &mut String, line: &str) {
    if let Some(missed) = line.strip_prefix("==> ") {
        *text = missed.replace(" missed event records", " event records were missed");
        return;
    }
    let (_, rest) = line.split_once('(').expect("an identifier, then a name");
    let (name, value) = rest.split_once("): value ").expect("a value");
    // Of an aggregate it prints guesses before the bytes.
    let value = match value.find('[') {
        Some(at) if value.ends_with(']') => &value[at..],
        _ => value,
    };
    match text.as_str() {
        "" => {}
        flags if !flags.contains('=') => text.push_str(": "),
        _ => text.push_str(", "),
    }
    text.push_str(&format!("{name}={value}"));
}

#[test]
fn a_text_is_told_when_it_changes_and_within_the_window() {
    let place = TempDir::new().unwrap();
    let base = place.path().join("archive");
    peer::write(&base, 3, 31, 60);
    let archive = open(&base);
    let texts = all(&archive);
    let told: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
    // The script writes one with each ninth record.
    assert_eq!(
        told,
        [
            "text 0", "text 9", "text 18", "text 27", "text 36", "text 45", "text 54"
        ]
    );
    let (from, until) = (texts[2].time, texts[4].time);
    let mut within = Vec::new();
    let visit = |annotation: Annotation| {
        within.push(annotation);
        ControlFlow::Continue(())
    };
    archive.annotations(from, until, visit).unwrap();
    assert_eq!(within, texts[2..5]);
    let mut count = 0;
    let first = |_| {
        count += 1;
        ControlFlow::Break(())
    };
    archive.annotations(from, until, first).unwrap();
    assert_eq!(count, 1);
    let between = texts[2].time + Duration::from_nanos(1);
    let none = |annotation| panic!("{annotation:?}");
    archive.annotations(between, between, none).unwrap();
    let metric = &archive.metrics()[texts[0].series.metric];
    assert_eq!(
        (metric.name(), metric.value_type),
        ("t.text", ValueType::String)
    );
    assert!(!metric.is_numeric());
    // A buffer pool of another archive changes nothing.
    let other = Archive::open(&base, &BufferPool::builder().build().unwrap()).unwrap();
    assert_eq!(all(&other), texts);
}

const EVENTS: [&str; 3] = [
    "sample.event.records",
    "sample.event.highres_records",
    "sample.event.no_indom_records",
];
