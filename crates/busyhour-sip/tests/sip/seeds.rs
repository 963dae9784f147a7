//! The fuzzer's seeds, every small change of them, and some larger changes.

use std::fs;
use std::path::Path;

use busyhour_sip::Message;

use crate::{any_bytes, properties::hold};

fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/sip_message");
    let files = fs::read_dir(folder).expect("the seeds are in the repository");
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("readable").path();
        (
            path.display().to_string(),
            fs::read(&path).expect("readable"),
        )
    };
    files.map(read).collect()
}

#[test]
fn seeds_are_messages() {
    let seeds = seeds();
    assert!(seeds.len() >= 10);
    for (name, bytes) in &seeds {
        let message = Message::parse(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(message.validate(), Ok(()), "{name}");
        hold(bytes);
    }
}

#[test]
fn the_shared_property_holds_for_every_prefix_of_a_seed() {
    for (_, bytes) in seeds() {
        (0..bytes.len()).for_each(|length| hold(&bytes[..length]));
    }
}

#[test]
fn the_shared_property_holds_for_every_changed_byte_of_a_seed() {
    let each = match std::env::var_os("BUSYHOUR_TEST_SCALE") {
        Some(_) => 1,
        None => 2,
    };
    for (_, seed) in seeds() {
        for at in 0..seed.len() {
            // Half of them, and the other half at the next place, unless all are asked for.
            for byte in CHANGED.iter().skip(at % each).step_by(each) {
                let mut bytes = seed.clone();
                bytes[at] = *byte;
                hold(&bytes);
            }
        }
    }
}

#[test]
fn the_shared_property_holds_for_any_bytes() {
    any_bytes::hold_for("sip_message", 20_000, hold);
}

/// What means something in a message, and what is no text.
const CHANGED: &[u8] = b"\0\r\n \"<>,;:=%@\xff";
