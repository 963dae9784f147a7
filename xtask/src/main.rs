//! Checks and chores of the Busyhour tree: `cargo xtask tidy`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

mod crates;
mod examples;
mod forbidden_words;
mod fuzz_targets;
mod header;
mod invariants;
mod named_tests;
mod parts;
mod reexports;
mod rules;
mod seeds;
mod server_part_rules;
mod server_parts;
mod source;
mod tidy;

const HELP: &str = "\
Chores of the Busyhour tree.

Usage: cargo xtask <COMMAND>

Commands:
  tidy     Check what the compiler does not: dependency arrows between modules
           and between the parts of a module and of the server, files in a folder, the map, the walks
           and the invariants of ARCHITECTURE.md, the files of GLOSSARY.md,
           the tests that documents name, the rows of docs/seeds.md, names of types, the list of files that
           may hold unsafe code,
           unfinished code, paths of machines, lengths of files and functions,
           a component's example, the header of the C ABI.
  header   Write the header of the C ABI, crates/busyhour-capi/include/busyhour.h.
  lengths  Print the longest functions and the median of each crate.
";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => report(&tidy::check(&root())),
        Some("header") => report(&header::write(&root()).err().into_iter().collect::<Vec<_>>()),
        Some("lengths") => {
            print!("{}", tidy::lengths(&root()));
            ExitCode::SUCCESS
        }
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
    }
}

fn report(complaints: &[String]) -> ExitCode {
    for complaint in complaints {
        eprintln!("tidy: {complaint}");
    }
    if complaints.is_empty() {
        println!("tidy: no complaints");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().unwrap_or(manifest_dir).to_path_buf()
}
