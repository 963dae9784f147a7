//! Windows inside long archives: only the needed parts are read, and the values
//! are the same as when the archive is read from the start.

use super::{open, peer};
use busyhour::clock::UnixTime;
use busyhour_pcp::{Archive, Counters, RenderOptions, Rendering, SeriesId, Window};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// The same archive twice.
struct Pair {
    _place: TempDir,
    /// In one volume without an index, so it can only be read from the start.
    plain: PathBuf,
    /// In many volumes, with an index.
    split: PathBuf,
}

impl Pair {
    fn new(version: u8, seed: u64, records: usize) -> Self {
        let place = TempDir::new().unwrap();
        let (plain, split) = (place.path().join("plain"), place.path().join("split"));
        peer::write(&plain, version, seed, records);
        peer::extract(&["-v", "25"], &[&plain], &split);
        fs::remove_file(plain.with_added_extension("index")).unwrap();
        Self {
            _place: place,
            plain,
            split,
        }
    }
}

/// A window of `parts` tenths of the archive that begins with tenth `from`,
/// with a step of 20 s.
fn window(archive: &Archive, from: u32, parts: u32) -> Window {
    let tenth = Duration::from_nanos(archive.end().as_nanos() - archive.start().as_nanos()) / 10;
    // Some nanoseconds later, so that no sample is at exactly that moment.
    let from = archive.start() + tenth * from + Duration::from_nanos(1003);
    Window::new(from, from + tenth * parts, Duration::from_secs(20))
}

fn render(archive: &Archive, series: &[SeriesId], window: Window) -> Rendering {
    let options = RenderOptions {
        counters: Counters::Raw,
        ..RenderOptions::default()
    };
    let rendering = archive.render(series, window, options, None).unwrap();
    assert_eq!(rendering.damage(), None);
    rendering
}

fn assert_same(a: &Rendering, b: &Rendering, what: &str) {
    for index in 0..a.series().len() {
        let same = a.points(index).eq(b.points(index));
        assert!(same, "{what}, series {index}");
    }
}

#[test]
fn values_are_the_same_as_when_read_from_the_start() {
    for (version, seed) in [(2, 51), (3, 52), (3, 53), (2, 54)] {
        let pair = Pair::new(version, seed, 300);
        let (plain, split) = (open(&pair.plain), open(&pair.split));
        assert!(split.volumes().len() > 8);
        for from in 1..10 {
            let window = window(&plain, from, 1);
            let ours = render(&split, &split.series(), window);
            let expected = render(&plain, &plain.series(), window);
            assert_same(&ours, &expected, &format!("seed {seed} from {from}/10"));
            assert!(ours.bytes_read() < expected.bytes_read(), "{from}/10");
        }
    }
}

/// Series with a value in every record: nothing earlier has to be read for
/// them.
fn frequent(archive: &Archive) -> Vec<SeriesId> {
    ["t.u32.counter.one", "t.f64.instant.one"]
        .map(|name| archive.find(name, None).expect("the metric was logged"))
        .into()
}

#[test]
fn a_window_at_the_end_reads_only_the_last_volumes() {
    let pair = Pair::new(3, 55, 1000);
    let split = open(&pair.split);
    let (total, window) = (split.volume_bytes(), window(&split, 9, 1));
    assert!(
        split.volumes().len() > 30 && total > 1 << 20,
        "{total} bytes"
    );
    let read = render(&split, &frequent(&split), window).bytes_read();
    assert!(
        read < total / 5,
        "{read} of {total} bytes for the last tenth"
    );
    let all = render(&split, &split.series(), window).bytes_read();
    assert!(all < total / 2, "{all} of {total} bytes with rare metrics");
}

#[test]
fn a_window_at_the_start_does_not_read_to_the_end() {
    let pair = Pair::new(3, 56, 1000);
    let split = open(&pair.split);
    let total = split.volume_bytes();
    let read = render(&split, &frequent(&split), window(&split, 0, 1)).bytes_read();
    assert!(
        read < total / 3,
        "{read} of {total} bytes for the first tenth"
    );
}

#[test]
fn an_index_is_enough_to_seek_in_a_single_volume() {
    let place = TempDir::new().unwrap();
    let base = place.path().join("archive");
    peer::write(&base, 3, 57, 1000);
    let with_index = open(&base);
    let window = window(&with_index, 9, 1);
    let series = frequent(&with_index);
    let quick = render(&with_index, &series, window);
    assert!(with_index.index().len() > 3, "{:?}", with_index.index());
    fs::remove_file(base.with_added_extension("index")).unwrap();
    let slow = render(&open(&base), &series, window);
    assert_same(&quick, &slow, "with and without an index");
    assert!(slow.bytes_read() >= with_index.volume_bytes());
    assert!(quick.bytes_read() < slow.bytes_read() / 2);
}

#[test]
fn a_wrong_index_changes_no_value() {
    let pair = Pair::new(3, 58, 300);
    let plain = open(&pair.plain);
    let window = window(&plain, 6, 2);
    let expected = render(&plain, &plain.series(), window);
    let index = pair.split.with_added_extension("index");
    let good = fs::read(&index).unwrap();
    for lie in [offsets_too_large, entries_too_early, offsets_of_the_end] {
        let mut bytes = good.clone();
        let (entries, _) = bytes[LABEL_BYTES..].as_chunks_mut();
        entries.iter_mut().for_each(lie);
        fs::write(&index, bytes).unwrap();
        let ours = render(&open(&pair.split), &plain.series(), window);
        assert_same(&ours, &expected, "with a false index");
    }
}

type Entry = [u8; 32];

/// At this offset there is no record.
fn offsets_too_large(entry: &mut Entry) {
    let offset = entry.last_chunk_mut::<8>().expect("32 bytes");
    *offset = (u64::from_be_bytes(*offset) + 4).to_be_bytes();
}

/// The records at these offsets are later than the index says.
fn entries_too_early(entry: &mut Entry) {
    let seconds = entry.first_chunk_mut::<4>().expect("32 bytes");
    *seconds = (u32::from_be_bytes(*seconds) - 3600).to_be_bytes();
}

fn offsets_of_the_end(entry: &mut Entry) {
    *entry.last_chunk_mut::<8>().expect("32 bytes") = u64::MAX.to_be_bytes();
}

const LABEL_BYTES: usize = 808;

#[test]
fn compressed_volumes_before_the_window_are_not_opened() {
    let pair = Pair::new(2, 59, 300);
    let expected = {
        let plain = open(&pair.plain);
        render(&plain, &plain.series(), window(&plain, 8, 1))
    };
    let split = open(&pair.split);
    let bytes = split.volume_bytes();
    let volumes: Vec<PathBuf> = split.volumes().to_vec();
    for volume in &volumes {
        peer::compress("xz", volume);
    }
    let split = open(&pair.split);
    let window = window(&split, 8, 1);
    let ours = render(&split, &split.series(), window);
    assert_same(&ours, &expected, "compressed");
    assert!(ours.bytes_read() < bytes);
}

#[test]
fn an_archive_in_memory_gives_the_same_values_as_on_disk() {
    let pair = Pair::new(3, 60, 100);
    let disk = open(&pair.split);
    let folder = pair.split.parent().expect("a folder");
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (name(&path), fs::read(&path).unwrap())
    });
    let buffers = busyhour::buffer::BufferPool::builder().build().unwrap();
    let memory = Archive::from_memory("split", files.collect(), &buffers).unwrap();
    assert_eq!(memory.label(), disk.label());
    assert_eq!(memory.index(), disk.index());
    assert_eq!(memory.end(), disk.end());
    assert_eq!(memory.volume_bytes(), disk.volume_bytes());
    let window = window(&disk, 5, 3);
    let (a, b) = (
        render(&memory, &memory.series(), window),
        render(&disk, &disk.series(), window),
    );
    assert_same(&a, &b, "in memory");
    assert_eq!(a.bytes_read(), b.bytes_read());
}

#[test]
fn a_window_before_or_behind_the_archive_is_empty() {
    let pair = Pair::new(3, 61, 60);
    let split = open(&pair.split);
    let far = split.end() + Duration::from_secs(86_400);
    for from in [UnixTime::from_secs(700_000_000), far] {
        let window = Window::new(
            from,
            from + Duration::from_secs(60),
            Duration::from_secs(20),
        );
        let rendering = render(&split, &split.series(), window);
        for index in 0..rendering.series().len() {
            assert!(rendering.values(index).iter().all(|value| value.is_nan()));
        }
    }
}
