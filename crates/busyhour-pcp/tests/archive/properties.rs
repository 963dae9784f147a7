//! What must hold for every archive; fuzzer and tests share it.

use busyhour::buffer::BufferPool;
use busyhour_pcp::{Archive, RenderOptions, Rendering, Window};
use std::{collections::HashMap, ops::ControlFlow, sync::LazyLock, time::Duration};

/// Takes `bytes` as the files of an archive, `meta`, `index` and the volumes,
/// each after two bytes with its length. The rest belongs to the last file.
pub fn hold(bytes: &[u8]) {
    if let Ok(archive) = Archive::from_memory("a", files(bytes), &BUFFERS) {
        read_all(&archive);
    }
}

/// Reads everything in an archive. Each call must return, with at most one
/// error about damage, after the last good record.
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
    let mut texts = 0;
    let _ = archive.annotations(archive.start(), archive.end(), |annotation| {
        let metric = &archive.metrics()[annotation.series.metric];
        assert!(metric.value_type.is_annotation());
        texts += 1;
        match texts < 1000 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    assert!(texts <= 1000);
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

/// So small that unbounded memory is noticed.
static BUFFERS: LazyLock<BufferPool> = LazyLock::new(|| {
    let pool = BufferPool::builder().budget_bytes(64 << 20).build();
    pool.expect("there is address space")
});

const STEP: Duration = Duration::from_secs(10);
