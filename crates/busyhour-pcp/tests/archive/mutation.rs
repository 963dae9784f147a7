//! Archives with randomly changed bytes: nothing panics, and nothing uses more
//! memory than its limits allow.

use super::{any_bytes, peer, properties};
use busyhour::buffer::BufferPool;
use busyhour_pcp::Archive;
use proptest::prelude::*;
use std::{fs, path::Path, sync::LazyLock};
use tempfile::TempDir;

/// The three files of an archive, by suffix.
type Files = [(&'static str, Vec<u8>); 3];

/// A good archive of each version.
static GOOD: LazyLock<Vec<Files>> = LazyLock::new(|| {
    let place = TempDir::new().unwrap();
    [2, 3]
        .map(|version| {
            let base = place.path().join(format!("{version}"));
            peer::write(&base, version, 31, 30);
            ["meta", "index", "0"].map(|suffix| {
                let bytes = fs::read(base.with_added_extension(suffix)).unwrap();
                (suffix, bytes)
            })
        })
        .into()
});

/// A change of one file.
#[derive(Debug, Clone)]
enum Change {
    /// Changes a byte to this value.
    Byte(usize, u8),
    /// Changes a word to a value that is likely to matter.
    Word(usize, u32),
    Cut(usize),
    Repeat(usize, usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: usize| at % bytes.len().max(1);
        match *self {
            _ if bytes.is_empty() => {}
            Self::Byte(at, byte) => {
                let at = place(at);
                bytes[at] = byte;
            }
            Self::Word(at, word) => {
                let at = place(at) & !3;
                let end = bytes.len().min(at + 4);
                bytes[at..end].copy_from_slice(&word.to_be_bytes()[..end - at]);
            }
            Self::Cut(at) => bytes.truncate(place(at)),
            Self::Repeat(at, len) => {
                let at = place(at);
                let part = bytes[at..bytes.len().min(at + len)].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
}

fn change() -> impl Strategy<Value = (usize, Change)> {
    let word = prop_oneof![
        Just(0),
        Just(1),
        Just(u32::MAX),
        Just(i32::MAX as u32),
        0u32..2000,
        any::<u32>()
    ];
    let change = prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<usize>(), word).prop_map(|(at, word)| Change::Word(at, word)),
        any::<usize>().prop_map(Change::Cut),
        (any::<usize>(), 1usize..64).prop_map(|(at, len)| Change::Repeat(at, len)),
    ];
    (0usize..3, change)
}

fn read_all(base: &Path) {
    let buffers = BufferPool::builder()
        .budget_bytes(64 << 20)
        .build()
        .unwrap();
    if let Ok(archive) = Archive::open(base, &buffers) {
        properties::read_all(&archive);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_bytes_do_not_make_the_reader_panic(
        version in 0usize..2,
        changes in proptest::collection::vec(change(), 1..6),
    ) {
        let place = TempDir::new().unwrap();
        let base = place.path().join("archive");
        for (index, (suffix, bytes)) in GOOD[version].iter().enumerate() {
            let mut bytes = bytes.clone();
            for (_, change) in changes.iter().filter(|(file, _)| *file == index) {
                change.apply(&mut bytes);
            }
            fs::write(base.with_added_extension(suffix), bytes).unwrap();
        }
        read_all(&base);
    }
}

#[test]
fn the_shared_property_holds_for_any_bytes() {
    any_bytes::hold_for("archive", 300, properties::hold);
}
