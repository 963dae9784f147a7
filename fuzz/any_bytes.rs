//! Checks in `cargo test` a property that must hold for any bytes. The fuzz target of
//! the same name searches further with the same body.

use std::{fs, path::Path, thread};

/// Calls `hold` with every seed of the target and with `tries` other inputs: changed,
/// cut, doubled and joined seeds, and random bytes. The inputs are the same each
/// time. If the property fails, the input is shown. A quarter of them are tried, unless
/// `BUSYHOUR_TEST_SCALE` says more.
pub fn hold_for(target: &str, tries: usize, hold: impl Fn(&[u8])) {
    let seeds = seeds(target);
    let scale = std::env::var("BUSYHOUR_TEST_SCALE");
    let tries = tries * scale.map_or(1, |scale| scale.parse().expect("a number")) / 4;
    let mut choices = Choices(1);
    let others = (0..tries).map(|_| choices.bytes(&seeds));
    for bytes in seeds.iter().cloned().chain(others) {
        let tried = Tried(bytes);
        hold(&tried.0);
    }
}

/// The inputs with which the fuzzer begins; a target of operations has none.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let program = root.join("fuzz_targets").join(target).with_extension("rs");
    assert!(program.is_file(), "no fuzz target {target}");
    let Ok(folder) = fs::read_dir(root.join("seeds").join(target)) else {
        return Vec::new();
    };
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no seeds of {target}");
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Shown when the property fails.
struct Tried(Vec<u8>);

impl Drop for Tried {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("it does not hold for b\"{}\"", self.0.escape_ascii());
        }
    }
}

/// splitmix64.
struct Choices(u64);

impl Choices {
    fn bytes(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        if seeds.is_empty() || self.below(8) == 0 {
            let len = self.below(OUT_OF_THE_BLUE_LEN_MAX);
            return (0..len).map(|_| self.below(256) as u8).collect();
        }
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, seeds);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + self.below(32)).min(bytes.len());
        match self.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.extend_from_within(at..end),
            3 => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            4 => bytes.insert(at, self.byte()),
            _ if at < bytes.len() => bytes[at] = self.byte(),
            _ => {}
        }
    }

    /// Every second byte has a meaning in some parser.
    fn byte(&mut self) -> u8 {
        match self.below(2) {
            0 => TELLING[self.below(TELLING.len())],
            _ => self.below(256) as u8,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

const TELLING: &[u8] = b"\0\x01\x7f\x80\xff\r\n\t \"<>(){}[],;:=%@*.-09";
const OUT_OF_THE_BLUE_LEN_MAX: usize = 600;
