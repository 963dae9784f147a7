//! A folder of archives as Graphite's paths.

// The other users of this file take what is not taken here.
#[allow(dead_code)]
#[path = "../../busyhour-pcp/tests/archive/maker.rs"]
mod maker;

use busyhour::{buffer::BufferPool, clock::UnixTime, pool::TaskPool};
use busyhour_graphite::{Source, Window as Span};
use busyhour_pcp::{Archive, Window};
use busyhour_server::web::Archives;
use std::{fs, path::Path, sync::Arc, time::Duration};

const STEP: i64 = 1;

fn source(folder: &Path) -> Archives {
    let buffers = BufferPool::builder().build().unwrap();
    let pool = TaskPool::builder().workers(2).build().unwrap();
    Archives::new(folder, STEP, buffers, pool)
}

/// All series of the archive, once through Graphite and once directly.
#[test]
fn every_series_has_a_path_and_the_values_of_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("2026.1");
    maker::write(&base, 3, 7, 40);
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
    let points = source.fetch(index.paths(), span).unwrap();
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
    // Paths are sorted by text, series in the order of the metrics.
    let key = |values: &Vec<Option<f64>>| format!("{values:?}");
    own.sort_by_key(key);
    ours.sort_by_key(key);
    assert_eq!(ours, own);
    assert!(ours.iter().flatten().flatten().count() > 0);
    assert_eq!(source.len(&index.paths()[0], span), ours[0].len() as u64);
}

#[test]
fn archives_come_and_go_and_a_damaged_one_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(folder.path());
    assert!(source.index().paths().is_empty());
    maker::write(&folder.path().join("a"), 2, 1, 5);
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
