//! What `busyhour digest` prints, writes and refuses.

mod support;

#[path = "../../busyhour-pcp/tests/archive/maker.rs"]
mod maker;

use serde_json::Value;
use std::{fs, path::PathBuf, process::Output};
use support::{Place, busyhour};

/// Makes an archive of about 15 minutes with 18 metrics that have instances, and 18 that
/// have none.
fn archive(place: &Place, name: &str, seed: u64) -> PathBuf {
    let base = place.path(name);
    maker::write(&base, 3, seed, 40);
    base
}

fn digest(arguments: &[&str]) -> Output {
    busyhour().arg("digest").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The standard output of a run that must succeed.
fn digested(arguments: &[&str]) -> String {
    let output = digest(arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The error line and the exit code of a run that must fail.
fn failure(arguments: &[&str]) -> (String, Option<i32>) {
    let output = digest(arguments);
    (text(&output.stderr), output.status.code())
}

#[test]
fn one_line_in_the_format_of_the_original() {
    let place = Place::new();
    let base = archive(&place, "host", 41);
    let line = digested(&[base.to_str().unwrap()]);
    let series = series_count(&base);
    assert!(
        line.starts_with(&format!("[host] digested {series} metrics, in ")),
        "{line}"
    );
    assert!(line.trim_end().ends_with("ms"), "{line}");
    assert_eq!(line.lines().count(), 1);
}

/// As `pmdumplog` counts: 18 metrics with one value, 18 with one for each
/// instance.
fn series_count(base: &std::path::Path) -> usize {
    let domains = maker::dump(base, &["-i"]);
    let last = domains.rsplit_once(" instances").expect("a domain").1;
    18 + 18 * last.lines().filter(|line| line.contains(" or ")).count()
}

#[test]
fn a_folder_gives_a_line_for_each_archive_in_the_order_of_their_names() {
    let place = Place::new();
    for (name, seed) in [("c", 1), ("a", 2), ("b", 3)] {
        archive(&place, name, seed);
    }
    let folder = place.path(".");
    for threads in ["1", "8"] {
        let lines = digested(&[folder.to_str().unwrap(), "--threads", threads]);
        let names: Vec<&str> = lines.lines().map(|line| &line[..3]).collect();
        assert_eq!(names, ["[a]", "[b]", "[c]"]);
    }
}

#[test]
fn json_and_csv_hold_the_same_values() {
    let place = Place::new();
    let base = archive(&place, "host", 42);
    let base = base.to_str().unwrap();
    let chosen = [
        "--raw",
        "--metrics",
        "t.u32.*",
        "--step",
        "30s",
        "--from",
        "+1m",
        "--until",
        "+5m",
    ];
    let json = digested(&[&[base, "--json"], &chosen[..]].concat());
    let object: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(object["from"], "2023-11-14T22:14:20Z");
    assert_eq!(object["until"], "2023-11-14T22:18:20Z");
    assert_eq!(object["host"], "example.com");
    let mut values = Vec::new();
    for series in object["series"].as_array().unwrap() {
        assert!(series["metric"].as_str().unwrap().starts_with("t.u32."));
        assert_eq!(series["values"].as_array().unwrap().len(), 9);
        values.extend(
            series["values"]
                .as_array()
                .unwrap()
                .iter()
                .map(Value::as_f64),
        );
    }
    assert!(values.iter().flatten().count() > 20);
    let csv = digested(&[&[base, "--csv"], &chosen[..]].concat());
    let mut rows = csv.lines();
    assert_eq!(rows.next(), Some("archive,time,metric,instance,value"));
    let listed: Vec<Option<f64>> = rows
        .map(|row| row.rsplit_once(',').expect("columns").1.parse().ok())
        .collect();
    assert_eq!(listed, values);
}

#[test]
fn a_plot_is_an_svg_with_the_names_of_its_series() {
    let place = Place::new();
    let base = archive(&place, "host", 43);
    let file = place.path("plot.svg");
    let file = file.to_str().unwrap();
    digested(&[
        base.to_str().unwrap(),
        "--metrics",
        "t.i32.instant.*",
        "--plot",
        file,
    ]);
    let svg = fs::read_to_string(file).unwrap();
    assert!(svg.starts_with("<svg"), "{svg}");
    assert!(svg.contains("t.i32.instant.one"));
    assert!(svg.contains("t.i32.instant.many[i0 of many]"));
    assert!(svg.contains("<polyline"));
}

#[test]
fn a_plot_is_a_png_if_the_files_name_ends_so() {
    let place = Place::new();
    let base = archive(&place, "host", 43);
    let file = place.path("plot.png");
    let base = base.to_str().unwrap();
    let draw = |file: &str| digest(&[base, "--metrics", "t.u64.*", "--plot", file]);
    assert!(draw(file.to_str().unwrap()).status.success());
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"));
    let nowhere = draw(place.path("no/folder.svg").to_str().unwrap());
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text(&nowhere.stderr).contains("no/folder.svg: "));
}

#[test]
fn without_a_terminal_there_is_no_progress_bar() {
    let place = Place::new();
    let base = archive(&place, "host", 47);
    let output = digest(&[base.to_str().unwrap()]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_damaged_archive_gives_its_good_records_and_reports_the_place() {
    let place = Place::new();
    let base = archive(&place, "host", 44);
    let volume = place.path("host.0");
    let bytes = fs::read(&volume).unwrap();
    fs::write(&volume, &bytes[..bytes.len() - 5]).unwrap();
    let output = digest(&[base.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("digested"));
    let errors = text(&output.stderr);
    assert!(errors.contains("host.0: damaged at byte "), "{errors}");
    assert!(
        errors.contains("ends in the middle of a record"),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
}

#[test]
fn wrong_arguments_are_reported() {
    let place = Place::new();
    let base = archive(&place, "host", 45);
    let base = base.to_str().unwrap();
    let missing = place.path("missing");
    let (error, code) = failure(&[missing.to_str().unwrap()]);
    assert!(error.contains("missing: no archive there"), "{error}");
    assert_eq!(code, Some(1));
    let usage = [
        (["--from", "yesterday"], "wanted is a time such as"),
        (["--step", "0s"], "at least 1ms"),
        (["--metrics", "[a"], "--metrics [a"),
        (["--threads", "0"], "invalid value"),
    ];
    for (arguments, said) in usage {
        let (error, code) = failure(&[&[base], &arguments[..]].concat());
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert_eq!(code, Some(2), "{arguments:?}");
    }
}

#[test]
fn every_option_of_the_help_is_in_the_reference() {
    let help = digested(&["--help"]);
    assert!(
        help.contains("Examples:") && help.contains("Times:"),
        "{help}"
    );
    let reference = include_str!("../../../docs/busyhour.md");
    // What every command takes stands before the commands.
    let (every_command, _) = reference.split_once("\n## serve\n").expect("a command");
    let (_, section) = reference.split_once("\n## digest\n").expect("a section");
    let section = section
        .split("\n## ")
        .next()
        .expect("the option has a description");
    let options: Vec<&str> = help
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(|word| word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric()))
        .collect();
    assert!(options.len() > 8, "{options:?}");
    for option in options
        .iter()
        .filter(|option| **option != "--help" && **option != "--version")
    {
        let named = format!("`{option}");
        assert!(
            section.contains(&named) || every_command.contains(&named),
            "{option}"
        );
    }
}

#[test]
fn a_pattern_that_matches_nothing_is_an_error_with_advice() {
    let place = Place::new();
    let base = archive(&place, "host", 41);
    let base = base.to_str().unwrap();
    let (said, code) = failure(&[base, "--metrics", "t.u64.instan"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains(
            "busyhour: --metrics t.u64.instan: no numeric metric matches (did you mean t.u64."
        ),
        "{said}"
    );
    // The same holds beside a pattern that matches: the values of that one are
    // printed, and the other is reported.
    let output = digest(&[
        base,
        "--metrics",
        "t.u64.*",
        "--metrics",
        "nothing",
        "--csv",
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("t.u64."));
    assert!(text(&output.stderr).contains("--metrics nothing: no numeric metric matches"));
}

#[test]
fn a_plot_that_is_neither_png_nor_svg_is_refused_before_anything_is_read() {
    let place = Place::new();
    let file = place.path("x.jpg");
    let (said, code) = failure(&["nowhere", "--plot", file.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(
        said.starts_with("busyhour: ") && said.contains("ends in .png or .svg"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1);
    assert!(!file.exists());
}
