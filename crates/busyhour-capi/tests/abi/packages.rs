//! Debian's packages, unpacked into one folder as an installation would.

use crate::{
    library::{CRATE, archive, scratch, script},
    program::run,
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn text(command: &mut Command) -> String {
    let printed = String::from_utf8(run(command).stdout).unwrap();
    printed.trim().to_owned()
}

/// Makes the two packages; returns that of the shared library, and that for development.
fn packages() -> [PathBuf; 2] {
    let folder = scratch("deb");
    run(Command::new(script("deb-capi.sh"))
        .arg(&folder)
        .arg(archive())
        .env("DEB_COMPRESSION", "none"));
    let architecture = text(Command::new("dpkg").arg("--print-architecture"));
    ["libbusyhour0", "libbusyhour-dev"]
        .map(|name| folder.join(format!("{name}_{VERSION}_{architecture}.deb")))
}

fn field(package: &Path, name: &str) -> String {
    text(Command::new("dpkg-deb").arg("-f").arg(package).arg(name))
}

/// The paths in a package that are no folders.
fn files(package: &Path) -> BTreeSet<String> {
    let listed = text(Command::new("dpkg-deb").arg("-c").arg(package));
    let files = listed.lines().filter(|line| !line.starts_with('d'));
    let path = |line: &str| line.split_whitespace().nth(5).unwrap().to_owned();
    files.map(path).collect()
}

/// Unpacks both, and builds and runs a program as one does after an installation.
#[test]
fn a_program_is_built_and_runs_with_the_packages_of_debian() {
    let [runtime, development] = packages();
    assert_eq!(field(&runtime, "Package"), "libbusyhour0");
    assert!(field(&runtime, "Depends").contains("libc6 (>= "));
    assert_eq!(
        field(&development, "Depends"),
        format!("libbusyhour0 (= {VERSION})")
    );
    let page = "./usr/share/doc/libbusyhour-dev/CONVENTIONS.md".to_owned();
    assert!(files(&development).contains(&page));
    assert!(files(&runtime).is_disjoint(&files(&development)));

    let root = scratch("deb-root");
    let lib = text(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"));
    let lib = root.join("usr/lib").join(lib);
    let unpack = |package: &Path| run(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root));
    fs::remove_dir_all(&root).unwrap();
    unpack(&development);
    let flags = text(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "busyhour"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
            .env("PKG_CONFIG_SYSROOT_DIR", &root)
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1"),
    );
    unpack(&runtime);
    let program = scratch("bin").join("by-deb");
    run(Command::new("cc")
        .args(["-std=c11", "-o"])
        .arg(&program)
        .arg(format!("{CRATE}/tests/c/installed/version.c"))
        .args(flags.split_whitespace()));
    let printed = text(Command::new(program).env("LD_LIBRARY_PATH", &lib));
    assert_eq!(printed, VERSION);
}
