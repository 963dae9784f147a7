//! Archives in several volumes, compressed archives, damaged archives, and
//! rendering on several threads.

use super::{open, peer};
use busyhour::{buffer::BufferPool, pool::TaskPool};
use busyhour_pcp::{
    Archive, Counters, Error, Problem, RenderOptions, Rendering, Window, archives_in,
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// Renders all series with a step of a minute.
fn render(archive: &Archive, options: RenderOptions, pool: Option<&TaskPool>) -> Rendering {
    let window = Window::new(archive.start(), archive.end(), Duration::from_secs(60));
    let rendering = archive.render(&archive.series(), window, options, pool);
    rendering.expect("a readable archive")
}

fn render_alone(archive: &Archive) -> Rendering {
    render(archive, RenderOptions::default(), None)
}

/// Checks that all values are equal to the last bit, including missing ones.
fn assert_same(a: &Rendering, b: &Rendering) {
    assert_eq!(a.series(), b.series());
    for index in 0..a.series().len() {
        assert!(a.points(index).eq(b.points(index)), "series {index}");
    }
}

#[test]
fn many_volumes_are_read_as_one() {
    let place = TempDir::new().unwrap();
    let (whole, split) = (place.path().join("whole"), place.path().join("split"));
    for version in [2, 3] {
        let whole = whole.with_extension(version.to_string());
        let split = split.with_extension(version.to_string());
        peer::write(&whole, version, 21, 150);
        peer::extract(&["-v", "20"], &[&whole], &split);
        let (whole, split) = (open(&whole), open(&split));
        assert!(split.volumes().len() > 5);
        assert_eq!(split.end(), whole.end());
        assert_same(&render_alone(&whole), &render_alone(&split));
    }
}

#[test]
fn compressed_files_are_read_like_others() {
    let place = TempDir::new().unwrap();
    for tool in ["xz", "gzip", "bzip2", "zstd"] {
        let base = place.path().join(tool);
        peer::write(&base, 3, 22, 60);
        let expected = render_alone(&open(&base));
        peer::compress(tool, &volume(&base));
        peer::compress(tool, &base.with_added_extension("meta"));
        let archive = open(&base);
        assert_eq!(archive.damage(), None);
        assert_same(&render_alone(&archive), &expected);
    }
    assert_eq!(archives_in(place.path()).unwrap().len(), 4);
}

fn volume(base: &Path) -> PathBuf {
    base.with_added_extension("0")
}

#[test]
fn any_number_of_threads_gives_the_same_values() {
    let place = TempDir::new().unwrap();
    let base = place.path().join("archive");
    // So many records that there are several chunks of half a mebibyte.
    peer::write(&base, 2, 23, 900);
    let archive = open(&base);
    assert!(archive.volume_bytes() > 1 << 20);
    for counters in [Counters::Rate, Counters::Raw] {
        let options = |threads| RenderOptions {
            counters,
            threads,
            ..RenderOptions::default()
        };
        let alone = render(&archive, options(1), None);
        let pool = TaskPool::builder().workers(8).build().unwrap();
        for threads in [2, 8] {
            for _ in 0..5 {
                assert_same(&render(&archive, options(threads), Some(&pool)), &alone);
            }
        }
    }
}

/// Help for a few series would cost more than it gives.
#[test]
fn workers_help_with_many_series_and_not_with_one() {
    let place = TempDir::new().unwrap();
    let base = place.path().join("archive");
    peer::write(&base, 2, 23, 900);
    let archive = open(&base);
    let window = Window::new(archive.start(), archive.end(), Duration::from_secs(60));
    let pool = TaskPool::builder().workers(2).build().unwrap();
    let options = RenderOptions {
        threads: 8,
        ..RenderOptions::default()
    };
    let asked = |series: &[_]| {
        let before = pool.stats().pushed;
        archive
            .render(series, window, options, Some(&pool))
            .unwrap();
        pool.stats().pushed - before
    };
    let all = archive.series();
    assert_eq!(asked(&all[..1]), 0);
    let cores = std::thread::available_parallelism().unwrap().get() as u64;
    assert_eq!(asked(&all) > 0, cores > 1, "{cores} cores");
    assert!(asked(&all) < cores);
}

#[test]
fn a_truncated_archive_gives_every_good_record_and_reports_the_place() {
    let place = TempDir::new().unwrap();
    let base = place.path().join("archive");
    peer::write(&base, 3, 24, 40);
    let bytes = fs::read(volume(&base)).unwrap();
    let whole: Vec<u64> = record_ends(&bytes);
    for len in (800..bytes.len()).step_by(37) {
        fs::write(volume(&base), &bytes[..len]).unwrap();
        let archive = open(&base);
        let (mut count, mut error) = (0, None);
        for record in archive.records() {
            match record {
                Ok(_) => count += 1,
                Err(found) => assert!(error.replace(found).is_none(), "one error"),
            }
        }
        let good = whole.iter().filter(|end| **end <= len as u64).count();
        assert_eq!(count, good.saturating_sub(1), "{len} bytes");
        let last = whole[..good].last().copied().unwrap_or(0);
        if last == len as u64 {
            assert_eq!(error, None);
            continue;
        }
        let Some(Error::Damaged(damage)) = error else {
            panic!("{len} bytes: {error:?}");
        };
        assert_eq!((damage.offset, damage.problem), (last, Problem::Truncated));
        assert_eq!(damage.file, volume(&base));
        assert_eq!(render_alone(&archive).damage(), Some(&damage));
    }
}

/// The ends of all records, including the label.
fn record_ends(bytes: &[u8]) -> Vec<u64> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some(len) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        at += u32::from_be_bytes(*len) as usize;
        ends.push(at as u64);
    }
    ends
}

#[test]
fn the_records_after_a_damaged_one_are_read() {
    let place = TempDir::new().unwrap();
    let base = place.path().join("archive");
    peer::write(&base, 2, 25, 60);
    let bytes = fs::read(volume(&base)).unwrap();
    let total = open(&base).records().count();
    let ends = record_ends(&bytes);
    for record in [1, 10, 30] {
        let begin = ends[record - 1] as usize;
        for broken in [begin, begin + 3, ends[record] as usize - 1] {
            let mut damaged = bytes.clone();
            damaged[broken] ^= 0x55;
            fs::write(volume(&base), &damaged).unwrap();
            let mut records: Vec<_> = open(&base).records().collect();
            let Some(Err(Error::Damaged(damage))) = records.pop() else {
                panic!("no error at byte {broken}");
            };
            assert_eq!(damage.offset, begin as u64);
            assert_eq!(records.len(), total - 1, "byte {broken}");
            assert!(records.iter().all(Result::is_ok));
        }
    }
}

#[test]
fn files_that_are_no_archive_are_reported() {
    let place = TempDir::new().unwrap();
    let buffers = BufferPool::builder().build().unwrap();
    let missing = place.path().join("missing");
    let error = Archive::open(&missing, &buffers).unwrap_err();
    assert_eq!(error, Error::NotFound { path: missing });
    fs::write(place.path().join("text.meta"), "this is no archive at all").unwrap();
    let error = Archive::open(place.path().join("text"), &buffers).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("text.meta: damaged at byte 0: this is not a PCP archive"),
        "{error}"
    );
}

#[test]
fn a_result_larger_than_allowed_is_refused() {
    let place = TempDir::new().unwrap();
    let base = place.path().join("archive");
    peer::write(&base, 2, 26, 40);
    let archive = open(&base);
    let window = Window::new(Default::default(), archive.end(), Duration::from_millis(1));
    let refused = archive.render(&archive.series(), window, RenderOptions::default(), None);
    assert!(matches!(refused, Err(Error::TooManyPoints { .. })));
}
