//! What is installed, as a program finds it by pkg-config and by CMake; and the ABI beside the committed one.

use crate::{
    library::{CRATE, built, folder, scratch, script},
    program::run,
};
use std::{collections::BTreeSet, env, fs, path::PathBuf, process::Command, sync::OnceLock};

const PREFIX: &str = "/opt/busyhour";

/// Installs once; returns DESTDIR.
fn installed() -> &'static PathBuf {
    static DESTDIR: OnceLock<PathBuf> = OnceLock::new();
    DESTDIR.get_or_init(|| {
        let destdir = scratch("destdir");
        run(Command::new(script("install-capi.sh"))
            .arg(built())
            .env("PREFIX", PREFIX)
            .env("DESTDIR", &destdir)
            .env_remove("LIBDIR")
            .env_remove("DOCDIR"));
        destdir
    })
}

fn text(command: &mut Command) -> String {
    String::from_utf8(run(command).stdout).unwrap()
}

#[test]
fn a_program_is_built_with_what_pkg_config_says() {
    assert_eq!(
        pkg_config(&["--modversion"]).trim(),
        env!("CARGO_PKG_VERSION")
    );
    let program = build("by-pkg-config", &[], &["--cflags", "--libs"]);
    let lib = format!("{}{PREFIX}/lib", installed().display());
    let printed = text(Command::new(program).env("LD_LIBRARY_PATH", lib));
    assert_eq!(printed.trim(), env!("CARGO_PKG_VERSION"));
}

/// It needs no shared library, not even that of the compiler.
#[test]
fn a_static_program_is_built_with_what_pkg_config_says() {
    let flags = ["--static", "--cflags", "--libs"];
    let program = build("static-by-pkg-config", &["-static"], &flags);
    let needed = text(Command::new("readelf").arg("-d").arg(&program));
    assert!(!needed.contains("NEEDED"), "{needed}");
    let printed = text(&mut Command::new(program));
    assert_eq!(printed.trim(), env!("CARGO_PKG_VERSION"));
}

/// Builds the smallest program with these options and with what pkg-config says.
fn build(name: &str, options: &[&str], asked: &[&str]) -> PathBuf {
    let program = scratch("bin").join(name);
    run(Command::new("cc")
        .args(["-std=c11", "-o"])
        .arg(&program)
        .args(options)
        .arg(format!("{CRATE}/tests/c/installed/version.c"))
        .args(pkg_config(asked).split_whitespace()));
    program
}

fn pkg_config(arguments: &[&str]) -> String {
    let lib = format!("{}{PREFIX}/lib", installed().display());
    text(
        Command::new("pkg-config")
            .args(arguments)
            .arg("busyhour")
            .env("PKG_CONFIG_PATH", format!("{lib}/pkgconfig"))
            .env("PKG_CONFIG_SYSROOT_DIR", installed()),
    )
}

#[test]
fn a_program_is_built_by_cmake_with_either_library() {
    let build = scratch("cmake");
    let _there_may_be_none = fs::remove_dir_all(&build);
    run(Command::new("cmake")
        .args(["-S", &format!("{CRATE}/tests/c/installed"), "-B"])
        .arg(&build)
        .arg(format!(
            "-DCMAKE_PREFIX_PATH={}{PREFIX}",
            installed().display()
        )));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["shared", "static"] {
        let printed = text(&mut Command::new(build.join(program)));
        assert_eq!(printed.trim(), env!("CARGO_PKG_VERSION"), "{program}");
    }
}

#[test]
fn no_file_names_the_folder_that_it_was_staged_in() {
    let lib = installed().join(&PREFIX[1..]).join("lib");
    let staged = installed().display().to_string();
    for file in [
        "pkgconfig/busyhour.pc",
        "cmake/busyhour/busyhour-config.cmake",
    ] {
        let text = fs::read_to_string(lib.join(file)).unwrap();
        assert!(
            !text.contains(&staged) && !text.contains('@'),
            "{file}: {text}"
        );
    }
}

#[test]
fn the_conventions_are_installed_with_the_header() {
    let page = installed()
        .join(&PREFIX[1..])
        .join("share/doc/busyhour/CONVENTIONS.md");
    let page = fs::read_to_string(page).unwrap();
    for word in ["**Results.**", "**Data.**", "**Fork.**"] {
        assert!(page.contains(word), "no {word}");
    }
    assert!(!page.contains("]("), "a link would lead nowhere");
}

/// Root installs, and compiles nothing.
#[test]
fn an_installation_of_what_was_not_built_says_what_to_do_and_writes_nothing() {
    let (nothing, destdir) = (scratch("built-nothing"), scratch("destdir-of-nothing"));
    let refused = Command::new(script("install-capi.sh"))
        .arg(&nothing)
        .env("DESTDIR", &destdir)
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && said.contains("make lib"),
        "{said}"
    );
    assert_eq!(fs::read_dir(&destdir).unwrap().count(), 0);
}

fn header(name: &str) -> String {
    fs::read_to_string(format!("{CRATE}/include/{name}")).unwrap()
}

/// The functions that `busyhour.h` declares.
fn declared() -> BTreeSet<String> {
    let header = header("busyhour.h");
    let functions = header.split("extern \"C\" {").nth(1).unwrap();
    functions
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_header_for_cpp_uses_every_function() {
    let cpp = header("busyhour.hpp");
    let words: BTreeSet<&str> = cpp
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .collect();
    let mut functions = declared();
    functions.retain(|name| !words.contains(name.as_str()));
    assert_eq!(functions, BTreeSet::new());
}

#[test]
fn the_library_has_the_functions_of_the_header_and_no_other_symbol() {
    let declared: BTreeSet<String> = declared()
        .iter()
        .map(|name| format!("{name}@@BUSYHOUR_0"))
        .collect();
    let library = folder().join("libbusyhour.so");
    let symbols = text(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    );
    let defined: BTreeSet<String> = symbols
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .filter(|name| *name != "BUSYHOUR_0")
        .map(str::to_owned)
        .collect();
    assert_eq!(defined, declared);
    assert!(declared.len() > 150, "{declared:?}");
}

#[test]
fn the_abi_is_the_committed_one() {
    run(&mut Command::new(script("abi.sh")));
}

/// glibc keeps 1,664 bytes for libraries that find thread-local values by an offset, for all that a process loads.
#[test]
fn the_thread_local_values_of_the_library_need_little_of_the_room_for_them() {
    let library = folder().join("libbusyhour.so.0");
    let printed = run(Command::new("readelf").arg("-lW").arg(library)).stdout;
    let printed = String::from_utf8(printed).unwrap();
    let line = printed
        .lines()
        .find(|line| line.trim_start().starts_with("TLS"));
    let size = line.unwrap().split_whitespace().nth(5).unwrap();
    let size = u64::from_str_radix(size.trim_start_matches("0x"), 16).unwrap();
    assert!(size <= 832, "{size} bytes");
}
