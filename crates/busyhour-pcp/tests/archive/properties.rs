//! What holds for every archive, shared by the fuzzer and the tests.

use busyhour::buffer::BufferPool;
use busyhour_pcp::{Archive, RenderOptions, Rendering, Window};
use std::{collections::HashMap, sync::LazyLock, time::Duration};

/// `bytes` are the files of an archive, each after two bytes that say how long
/// it is: `meta`, `index`, then the volumes. What follows the last belongs to it.
pub fn hold(bytes: &[u8]) {
    if let Ok(archive) = Archive::from_memory("a", files(bytes), &BUFFERS) {
        read_all(&archive);
    }
}

/// Asks for everything that an archive can say. There is an answer each time,
/// and at most one error about damage, after the last good record.
pub fn read_all(archive: &Archive) {
    let mut has_failed = false;
    for record in archive.records() {
        assert!(!has_failed, "a record after the error");
        match record {
            Ok(record) => drop(record.samples()),
            Err(_) => has_failed = true,
        }
    }
    for metric in archive.metrics() {
        if let Some(domain) = metric.domain.and_then(|domain| archive.domain(domain)) {
            let _ = domain.at(archive.end());
        }
    }
    let first = render(archive, Duration::ZERO);
    let later = render(archive, Duration::from_secs(95));
    for rendering in [first, later].into_iter().flatten() {
        assert_eq!(rendering.series().len(), archive.series().len());
    }
}

fn render(archive: &Archive, after: Duration) -> Option<Rendering> {
    let from = archive.start() + after;
    let window = Window::new(from, from + Duration::from_secs(600), STEP);
    let rendering = archive.render(&archive.series(), window, RenderOptions::default(), None);
    rendering.ok()
}

fn files(bytes: &[u8]) -> HashMap<String, Vec<u8>> {
    let mut rest = bytes;
    let mut files = HashMap::new();
    for suffix in ["meta", "index", "0", "1"] {
        let Some((len, after)) = rest.split_first_chunk() else {
            break;
        };
        let len = usize::from(u16::from_be_bytes(*len));
        let (file, after) = after.split_at_checked(len).unwrap_or((after, &[]));
        files.insert(format!("a.{suffix}"), file.to_vec());
        rest = after;
    }
    files
}

/// Small, so that what grows without bound is found out.
static BUFFERS: LazyLock<BufferPool> = LazyLock::new(|| {
    let pool = BufferPool::builder().budget_bytes(64 << 20).build();
    pool.expect("address space")
});

const STEP: Duration = Duration::from_secs(10);
