//! A folder of archives, served as Graphite's paths.

// This file does not use everything in it; other test files use the rest.

use crate::support::{Place, ServerProcess};
use busyhour::{buffer::BufferPool, clock::UnixTime, pool::TaskPool};
use busyhour_graphite::{
    Error, EventQuery, Graphite, Limit, Limits, Parameters, Source, TimeLimit, Window as Span,
};
use busyhour_pcp::{Archive, Window};
use busyhour_server::web::Archives;
use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const STEP: i64 = 1;

fn source(folder: &Path) -> Archives {
    let buffers = BufferPool::builder().build().unwrap();
    let pool = TaskPool::builder().workers(2).build().unwrap();
    Archives::new(folder, STEP, buffers, pool)
}

/// Reads all series of the archive, once through Graphite and once directly.
#[test]
fn every_series_has_a_path_and_the_values_of_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("2026.1");
    crate::maker::write(&base, 3, 7, 40);
    let source = source(folder.path());
    let index = source.index();
    let archive = Archive::open(&base, &BufferPool::builder().build().unwrap()).unwrap();
    let series = archive.series();
    assert_eq!(index.paths().len(), series.len());
    assert!(
        index
            .paths()
            .iter()
            .all(|path| path.starts_with("archive.2026~2E1.t."))
    );
    let (first, last) = (
        archive.start().as_secs() as i64,
        archive.end().as_secs() as i64,
    );
    let span = Span {
        from: first - 10,
        until: last + 10,
    };
    let points = source
        .fetch(index.paths(), span, &TimeLimit::none())
        .unwrap();
    let start = points[0].start;
    let moments = Window::new(
        UnixTime::from_secs((start - STEP) as u64),
        UnixTime::from_secs(start as u64 + points[0].values.len() as u64 - 1),
        Duration::from_secs(1),
    );
    let rendering = archive
        .render(&series, moments, Default::default(), None)
        .unwrap();
    let mut own: Vec<Vec<Option<f64>>> = Vec::new();
    own.extend((0..series.len()).map(|at| rendering.points(at).skip(1).collect()));
    let mut ours: Vec<Vec<Option<f64>>> = points.into_iter().map(|points| points.values).collect();
    // Paths are sorted by their text, and series by the order of the metrics.
    let key = |values: &Vec<Option<f64>>| format!("{values:?}");
    own.sort_by_key(key);
    ours.sort_by_key(key);
    assert_eq!(ours, own);
    assert!(ours.iter().flatten().flatten().count() > 0);
    assert_eq!(source.len(&index.paths()[0], span), ours[0].len() as u64);
}

#[test]
fn archives_are_added_and_removed_and_a_damaged_one_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(folder.path());
    assert!(source.index().paths().is_empty());
    crate::maker::write(&folder.path().join("a"), 2, 1, 5);
    let one = source.index();
    assert!(!one.paths().is_empty());
    assert!(Arc::ptr_eq(&one, &source.index()));
    fs::write(folder.path().join("b.meta"), b"no archive").unwrap();
    assert_eq!(source.index().paths(), one.paths());
    for entry in fs::read_dir(folder.path()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert!(source.index().paths().is_empty());
}

/// The values of one archive at the seconds of `span`, alone in a folder of its own.
fn alone(folder: &Path, base: &str, path: &str, span: Span) -> Vec<Option<f64>> {
    let own = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_part = ["0", "meta", "index"]
            .iter()
            .any(|part| name == format!("{base}.{part}"));
        if is_part {
            fs::copy(folder.join(&name), own.path().join(&name)).unwrap();
        }
    }
    let source = source(own.path());
    assert!(
        source.index().paths().iter().any(|found| &**found == path),
        "{path}"
    );
    let points = source
        .fetch(&[path.into()], span, &TimeLimit::none())
        .unwrap()
        .remove(0);
    let at = |second: i64| {
        let place = usize::try_from(second - points.start).ok()?;
        points.values.get(place).copied().flatten()
    };
    (span.from + 1..=span.until).map(at).collect()
}

/// 2023-11-14T22:13:20Z, from where the first archive of a test begins.
const BEGIN: u64 = 1_700_000_000;
const INSTANT: &str = "archive.example~2Ecom.t.u32.instant.one";
const COUNTER: &str = "archive.example~2Ecom.t.u32.counter.one";

#[test]
fn daily_archives_of_a_host_are_one_series_and_a_gap_has_no_values() {
    let folder = tempfile::tempdir().unwrap();
    // Written in another order than that of their time.
    for (base, seed, start) in [
        ("20231116", 3, BEGIN + 4000),
        ("20231114", 1, BEGIN),
        ("20231115.00.10", 2, BEGIN + 2000),
    ] {
        crate::maker::write_from(&folder.path().join(base), 3, seed, 40, start);
    }
    crate::maker::write(&folder.path().join("kept"), 3, 4, 5);
    let source = source(folder.path());
    let index = source.index();
    let is_of_date = |path: &Arc<str>| path.starts_with("archive.2023");
    assert!(!index.paths().iter().any(is_of_date));
    assert!(
        index
            .paths()
            .iter()
            .any(|path| path.starts_with("archive.kept."))
    );
    let span = Span {
        from: BEGIN as i64 - 50,
        until: BEGIN as i64 + 6000,
    };
    for path in [INSTANT, COUNTER] {
        let points = source
            .fetch(&[path.into()], span, &TimeLimit::none())
            .unwrap()
            .remove(0);
        let parts = ["20231114", "20231115.00.10", "20231116"];
        let parts = parts.map(|base| alone(folder.path(), base, path, span));
        let first = (points.start - span.from - 1) as usize;
        let mut known = [0, 0, 0];
        for (at, value) in points.values.iter().enumerate() {
            let own = parts.each_ref().map(|part| part[first + at]);
            (0..3).for_each(|part| known[part] += usize::from(own[part].is_some()));
            assert_eq!(*value, own[2].or(own[1]).or(own[0]), "{path} at {at}");
        }
        assert!(known.iter().all(|known| *known > 100), "{path}: {known:?}");
        // Between the first and the second archive lie many minutes.
        let gap = &points.values[1400 - first..1900 - first];
        assert!(gap.iter().all(Option::is_none), "{path}");
        assert_eq!(source.len(path, span), points.values.len() as u64);
        assert_eq!(points.start, BEGIN as i64);
    }
}

#[test]
fn where_archives_overlap_the_one_that_began_later_counts() {
    let folder = tempfile::tempdir().unwrap();
    crate::maker::write_from(&folder.path().join("20231114"), 2, 1, 80, BEGIN);
    crate::maker::write_from(&folder.path().join("20231114.22.18"), 2, 2, 10, BEGIN + 300);
    let source = source(folder.path());
    assert!(!source.index().paths().is_empty());
    let span = Span {
        from: BEGIN as i64,
        until: BEGIN as i64 + 1500,
    };
    let [early, late] =
        ["20231114", "20231114.22.18"].map(|base| alone(folder.path(), base, INSTANT, span));
    let points = source
        .fetch(&[INSTANT.into()], span, &TimeLimit::none())
        .unwrap()
        .remove(0);
    let first = (points.start - span.from - 1) as usize;
    let mut both = 0;
    for (at, value) in points.values.iter().enumerate() {
        let (early, late) = (early[first + at], late[first + at]);
        assert_eq!(*value, late.or(early), "at {at}");
        both += usize::from(early.is_some() && late.is_some() && early != late);
    }
    assert!(both > 20, "{both} values differ");
}

#[test]
fn what_stands_before_a_date_is_the_host() {
    let folder = tempfile::tempdir().unwrap();
    for base in ["web1-20231114", "web1-20231115", "web2-20231114"] {
        crate::maker::write(&folder.path().join(base), 3, 1, 3);
    }
    let source = source(folder.path());
    let index = source.index();
    let of = |host: &str| {
        let begin = format!("archive.{host}.");
        let paths = index.paths().iter();
        paths.filter(|path| path.starts_with(&begin)).count()
    };
    assert!(of("web1") > 0);
    assert_eq!(
        (of("web2"), index.paths().len()),
        (of("web1"), 2 * of("web1"))
    );
}

/// Several are rendered at once, by fewer threads; each series gets its own values.
#[test]
fn a_view_of_many_archives_has_the_values_of_each() {
    let folder = tempfile::tempdir().unwrap();
    let bases: Vec<String> = (0..12).map(|number| format!("host{number}")).collect();
    for (seed, base) in bases.iter().enumerate() {
        crate::maker::write(&folder.path().join(base), 3, seed as u64, 10 + 3 * seed);
    }
    let source = source(folder.path());
    let all = source.index();
    let span = Span {
        from: BEGIN as i64 - 5,
        until: BEGIN as i64 + 900,
    };
    let points = source.fetch(all.paths(), span, &TimeLimit::none()).unwrap();
    assert_eq!(points.len(), all.paths().len());
    let mut known = 0;
    for (path, points) in all.paths().iter().zip(&points) {
        let one = source
            .fetch(std::slice::from_ref(path), span, &TimeLimit::none())
            .unwrap();
        assert_eq!(&one[0], points, "{path}");
        assert_eq!(source.len(path, span), points.values.len() as u64);
        known += points.values.iter().flatten().count();
    }
    assert!(known > 10_000);
}

#[test]
fn an_archive_that_grows_is_read_again_and_keeps_its_paths() {
    let folder = tempfile::tempdir().unwrap();
    let (base, spare) = (folder.path().join("20231114"), tempfile::tempdir().unwrap());
    crate::maker::write(&base, 3, 5, 40);
    let volume = base.with_extension("0");
    let whole = fs::read(&volume).unwrap();
    let end = record_ends(&whole)[20];
    fs::write(&volume, &whole[..end]).unwrap();
    // An index of the whole archive would say more than there is.
    fs::rename(base.with_extension("index"), spare.path().join("index")).unwrap();
    let source = source(folder.path());
    let before = source.index();
    let span = Span {
        from: BEGIN as i64,
        until: BEGIN as i64 + 900,
    };
    let shorter = source.len(INSTANT, span);
    fs::write(&volume, &whole).unwrap();
    let after = source.index();
    assert!(Arc::ptr_eq(&before, &after), "the metadata is the same");
    assert!(source.len(INSTANT, span) > shorter);
}

/// Where each record ends, the label among them.
fn record_ends(bytes: &[u8]) -> Vec<usize> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some(len) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        at += u32::from_be_bytes(*len) as usize;
        ends.push(at);
    }
    ends
}

/// A request for archives that are open does not wait for one that opens an archive from
/// a slow disk; here a pipe into which nobody writes.
#[test]
fn values_are_fetched_while_another_request_reads_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    crate::maker::write(&folder.path().join("a"), 3, 1, 5);
    let source = Arc::new(source(folder.path()));
    let path = source.index().paths()[0].clone();
    let pipe = folder.path().join("slow.meta");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let reading = {
        let source = source.clone();
        thread::spawn(move || source.index().paths().len())
    };
    // Opening it for writing returns when the other side has opened it for reading.
    let writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let span = Span {
            from: BEGIN as i64,
            until: BEGIN as i64 + 60,
        };
        let len = source.len(&path, span);
        sender.send((
            len,
            source
                .fetch(&[path], span, &TimeLimit::none())
                .unwrap()
                .len(),
        ))
    });
    let answered = receiver.recv_timeout(Duration::from_secs(60));
    drop(writer);
    let count = reading.join().unwrap();
    assert_eq!(answered.map(|(_, count)| count), Ok(1));
    assert!(count > 0);
}

/// A limit that is over when it is asked for the `last`th time, and the number of times.
fn time_of(last: usize) -> (TimeLimit, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let time = TimeLimit::new(move || count.fetch_add(1, Ordering::Relaxed) + 1 >= last);
    (time, asked)
}

#[test]
fn a_request_whose_time_is_over_stops_reading_in_the_middle_of_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    for day in ["20231114", "20231115", "20231116"] {
        crate::maker::write_from(&folder.path().join(day), 3, 1, 40, BEGIN);
    }
    let source = source(folder.path());
    let paths = source.index().paths().to_vec();
    let span = Span {
        from: BEGIN as i64,
        // Beyond the end of the archives.
        until: BEGIN as i64 + 9000,
    };
    let query = EventQuery {
        window: span,
        tags: Vec::new(),
        any_tag: false,
        count_max: 1000,
    };
    type Read = fn(&Archives, &[Arc<str>], &EventQuery, &TimeLimit) -> Result<(), Error>;
    let reads: [Read; 2] = [
        |source, paths, query, time| source.fetch(paths, query.window, time).map(drop),
        |source, _, query, time| source.events(query, time).map(drop),
    ];
    for read in reads {
        let (endless, asked) = time_of(usize::MAX);
        assert_eq!(read(&source, &paths, &query, &endless), Ok(()));
        // Before each chunk, and before what is after the last one.
        let all = asked.load(Ordering::Relaxed);
        assert!(all >= 6, "{all}");
        for last in 1..=all {
            let (time, asked) = time_of(last);
            let refused = read(&source, &paths, &query, &time).unwrap_err();
            assert!(
                matches!(refused, Error::TooLarge(Limit::Duration, _)),
                "{refused}"
            );
            // Each archive that was begun, or waits for a thread, asks once more at most.
            let asked = asked.load(Ordering::Relaxed);
            assert!(asked <= last + 2, "{asked} after {last}");
        }
    }
}

fn events_of(source: Archives, limits: Limits, query: &str) -> Result<serde_json::Value, Error> {
    let graphite = Graphite::new(vec![Arc::new(source)], limits);
    let parameters = Parameters::parse(query, b"");
    let answer = graphite.events(&parameters, BEGIN as i64 + 9000, &TimeLimit::none())?;
    Ok(serde_json::from_slice(&answer.body).unwrap())
}

#[test]
fn texts_are_annotations_with_their_time_and_tags() {
    let folder = tempfile::tempdir().unwrap();
    crate::maker::write_from(&folder.path().join("20231114"), 3, 1, 40, BEGIN);
    crate::maker::write_from(&folder.path().join("20231115"), 3, 2, 30, BEGIN + 3000);
    crate::maker::write(&folder.path().join("kept"), 2, 3, 12);
    let of = |query: &str| {
        let all = events_of(source(folder.path()), Limits::default(), query).unwrap();
        let told = |event: &serde_json::Value| event["data"].as_str().unwrap().to_owned();
        let texts: Vec<String> = all.as_array().unwrap().iter().map(told).collect();
        (texts, all[0].clone())
    };
    let (texts, first) = of("from=-3h&tags=example.com");
    // The script writes a text with each ninth record, from the first one on.
    let expected = [0, 9, 18, 27, 36, 0, 9, 18, 27].map(|record| format!("text {record}"));
    assert_eq!(texts, expected);
    let expected = serde_json::json!({
        "id": 1, "when": BEGIN, "what": "archive.example~2Ecom.t.text", "data": "text 0",
        "tags": ["pcp", "example.com", "t.text"],
    });
    assert_eq!(first, expected);
    assert_eq!(of("from=-3h&tags=t.text+kept").0, ["text 0", "text 9"]);
    assert_eq!(of("from=-3h&tags=kept+example.com").0.len(), 0);
    assert_eq!(of("from=-3h&tags=kept+example.com&set=union").0.len(), 11);
    assert_eq!(of("from=-3h").0.len(), 11);
    let second_day = format!("from={}&until=now", BEGIN + 2000);
    assert_eq!(of(&second_day).0.len(), 4);
    let limits = Limits {
        events_max: 10,
        ..Limits::default()
    };
    let refused = events_of(source(folder.path()), limits, "from=-3h").unwrap_err();
    assert!(matches!(refused, Error::TooLarge(..)), "{refused}");
    assert!(refused.to_string().contains("(at most 10)"), "{refused}");
}

/// Each archive of a day logs what does not change again.
#[test]
fn a_text_that_goes_on_in_the_next_archive_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    for (base, start) in [("20231114", BEGIN), ("20231115", BEGIN + 3000)] {
        // Fewer than ten records have the one text.
        crate::maker::write_from(&folder.path().join(base), 3, 1, 8, start);
    }
    let told = events_of(source(folder.path()), Limits::default(), "from=-3h").unwrap();
    assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
}

#[test]
fn a_text_that_is_to_be_drawn_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    crate::maker::write(&folder.path().join("kept"), 3, 1, 20);
    let graphite = Graphite::new(vec![Arc::new(source(folder.path()))], Limits::default());
    let render = |target: &str| {
        let query = format!(
            "target={target}&from={BEGIN}&until={}&format=json",
            BEGIN + 300
        );
        let (parameters, now) = (Parameters::parse(&query, b""), BEGIN as i64 + 300);
        graphite.render(&parameters, now, &TimeLimit::none())
    };
    let refused = render("archive.kept.t.text").unwrap_err();
    assert_eq!(
        refused,
        Error::Request(
            "archive.kept.t.text: the metric is of the type string in the archive kept, and only \
             numbers are drawn; ask for it as annotations, with the name of the metric as a tag: \
             /events/get_data?tags=METRIC"
                .into()
        )
    );
    // A pattern leaves it out, and what does not exist is nothing, as in Graphite.
    assert_eq!(render("archive.kept.t.nothing").unwrap().body, b"[]");
    assert!(render("archive.kept.t.u32.*.one").unwrap().body.len() > 100);
    assert_eq!(render("archive.kept.t.tex?").unwrap().body, b"[]");
}

#[test]
fn events_are_asked_for_over_http_as_grafana_does() {
    let place = Place::new();
    let folder = place.path("archives");
    fs::create_dir(&folder).unwrap();
    crate::maker::write(&folder.join("20231114"), 3, 1, 12);
    let mut command = place.serve();
    command.arg("--graphite-archives").arg(&folder);
    let server = ServerProcess::start(&mut command, &place);
    let range = format!("from={}&until={}", BEGIN - 60, BEGIN + 600);
    for slash in ["", "/"] {
        let told = server.get(&format!("/events/get_data{slash}?{range}&tags=t.text"));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(
            (&told[1]["data"], &told[1]["id"]),
            (&"text 9".into(), &2.into())
        );
    }
    assert_eq!(server.get("/events/get_data?tags=deploy"), "[]");
    assert!(server.stop().success());
}

#[test]
fn each_view_is_a_line_of_the_log_that_says_how_many_metrics_in_what_time() {
    let place = Place::new();
    let server = ServerProcess::start(place.serve().args(["--log-format", "json"]), &place);
    server.get("/render?target=busyhour.registrar.*&from=-1h&format=json");
    server.wait_for_log("digested ");
    let log = server.log();
    let line = log.lines().find(|line| line.contains("digested ")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let (metrics, duration_ms) = (&line["metrics"], &line["duration_ms"]);
    assert!(metrics.as_u64().unwrap() > 3, "{line}");
    assert!(line["values"].as_u64() >= metrics.as_u64(), "{line}");
    assert!(duration_ms.as_f64().unwrap() > 0.0, "{line}");
    let words = format!("digested {metrics} metrics in {duration_ms} ms");
    assert_eq!(line["message"], words.as_str());
    assert_eq!(line["target"], "busyhour_server::web::graph::graphs");
    assert_eq!(line["view"], "\"busyhour.registrar.*\"");
    assert!(server.stop().success());
}
