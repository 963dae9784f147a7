//! The files that engines read. They are read before each round, so that the first engine does
//! not wait for the disk while those after it find everything in memory.

use std::{fs, io, path::Path};

use crate::catalogue::bench_folder;

/// Reads the files of a scenario into the system's memory. A file that cannot be read is
/// left to the engines, which say so.
pub fn read_ahead(work: &str) {
    let data = bench_folder().join("data");
    for path in paths(work) {
        _ = read(&data.join(path));
    }
}

/// What the engines read in this scenario, below `data/`.
fn paths(work: &str) -> &'static [&'static str] {
    match work {
        "digest" => &["digest.meta", "digest.index", "digest.0"],
        "digest-folder" => &["archives"],
        _ => &[],
    }
}

/// Reads a file, or all files of a folder; returns how many bytes there were.
fn read(path: &Path) -> io::Result<u64> {
    if path.is_dir() {
        return fs::read_dir(path)?.map(|entry| read(&entry?.path())).sum();
    }
    io::copy(&mut fs::File::open(path)?, &mut io::sink())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn all_files_of_a_folder_are_read() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let one = fs::metadata(sources.join("data_files.rs")).unwrap().len();
        assert_eq!(read(&sources.join("data_files.rs")).unwrap(), one);
        let folder = sources.join("seeds_shares");
        let files = fs::read_dir(&folder).unwrap();
        let all: u64 = files
            .map(|file| file.unwrap().metadata().unwrap().len())
            .sum();
        assert!(all > 0);
        assert_eq!(read(&folder).unwrap(), all);
        assert!(read(&sources.join("none")).is_err());
    }

    #[test]
    fn the_scenarios_with_files_exist() {
        for work in ["digest", "digest-folder"] {
            assert!(!paths(work).is_empty());
            assert!(scenario::all().iter().any(|part| part.work == work));
        }
        assert!(paths("timers").is_empty());
    }
}
