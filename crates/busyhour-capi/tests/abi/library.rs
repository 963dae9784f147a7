//! The shared library, linked as it is installed: from the static one, with the version script.

use crate::program::run;
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The folder of the crate.
pub const CRATE: &str = env!("CARGO_MANIFEST_DIR");
/// Where the tests may write.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

/// The folder with `libbusyhour.so` and `libbusyhour.so.0`; linked once.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(link)
}

fn link() -> PathBuf {
    let folder = scratch("lib");
    run(Command::new(script("link-capi.sh"))
        .arg(archive())
        .arg(&folder));
    folder
}

/// The folder with what is installed: both libraries, stripped; built once.
pub fn built() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = scratch("built");
        run(Command::new(script("build-capi.sh"))
            .arg(&folder)
            .arg(archive()));
        folder
    })
}

/// A script of the workspace.
pub fn script(name: &str) -> PathBuf {
    Path::new(CRATE).join("../../scripts").join(name)
}

/// The static library. Cargo builds it for this test, beside it; of several, the one built last is at least as new as the
/// source. `scripts/sanitize.sh capi` brings another one.
pub fn archive() -> PathBuf {
    if let Some(given) = env::var_os("BUSYHOUR_TEST_ARCHIVE") {
        return given.into();
    }
    let program = env::current_exe().unwrap();
    let beside = fs::read_dir(program.parent().unwrap()).unwrap();
    let paths = beside.map(|entry| entry.unwrap().path());
    let archives = paths.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libbusyhour_capi-") && name.ends_with(".a")
    });
    let newest = archives.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    newest.expect("cargo builds libbusyhour_capi.a for this test")
}

pub fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(SCRATCH).join("capi").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}
