//! libpcp on our buffers: `compat/pdubuf` before Debian's libpcp, by LD_PRELOAD.

use crate::{
    library::{CRATE, archive, scratch},
    program::{bounded, compile_plain, run},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Built once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = scratch("pdubuf");
        let built = folder.join("libpdubuf.so");
        let _there_may_be_none = fs::remove_file(&built);
        run(Command::new("make")
            .args(["--silent", "-C"])
            .arg(format!("{CRATE}/../../compat/pdubuf"))
            .arg(format!("ARCHIVE={}", archive().display()))
            .arg(format!("OUT={}", folder.display())));
        built
    })
}

/// An archive of all types, written by PCP's import library.
fn pcp_archive() -> &'static str {
    static ARCHIVE: OnceLock<String> = OnceLock::new();
    ARCHIVE.get_or_init(|| {
        let base = scratch("pcp-archive").join("values");
        for part in ["0", "index", "meta"] {
            let _there_may_be_none = fs::remove_file(base.with_extension(part));
        }
        let peer = format!("{CRATE}/../busyhour-pcp/tests/archive/peer.py");
        run(Command::new("/usr/bin/python3")
            .args([&peer, "write"])
            .arg(&base)
            .args(["2", "1", "200"]));
        base.display().to_string()
    })
}

/// What a program prints, with libpcp's own buffers, and with ours; both runs must succeed.
fn both(program: &Path, arguments: &[&str]) -> [String; 2] {
    let plain = run(&mut bounded(program, arguments));
    let preloaded = run(bounded(program, arguments).env("LD_PRELOAD", library()));
    [plain, preloaded].map(|output| String::from_utf8(output.stdout).unwrap())
}

fn same(program: &Path, arguments: &[&str]) -> String {
    let [plain, preloaded] = both(program, arguments);
    assert!(!plain.is_empty());
    assert_eq!(plain, preloaded, "{program:?} {arguments:?}");
    preloaded
}

#[test]
fn the_functions_answer_as_those_of_libpcp() {
    let program = compile_plain("pdubuf.c", &["-l:libpcp.so.3"]);
    let said = same(&program, &[]);
    assert!(said.contains("beyond the end 0, before the start 0, the last integer 1"));
    assert!(said.ends_with("the child ended with 0, the parent unpins 1\n"));
}

/// `pmrep` without discrete metrics: of these libpcp forgets values, others with each layout of the heap, also alone.
#[test]
fn the_tools_of_pcp_print_the_same() {
    let archive = pcp_archive();
    let names = names("t");
    let mut pmrep = vec![
        "/usr/bin/pmrep",
        "-z",
        "-o",
        "csv",
        "-t",
        "7",
        "-a",
        archive,
    ];
    pmrep.extend(names.lines().filter(|name| !name.contains("discrete")));
    same(Path::new("/usr/bin/python3"), &pmrep);
    same(Path::new("pminfo"), &["-z", "-d", "-f", "-a", archive, "t"]);
    same(Path::new("pmlogsummary"), &["-z", "-a", archive, "t"]);
}

#[test]
fn eight_threads_that_fetch_read_the_same() {
    let program = compile_plain("fetch.c", &["-lpcp"]);
    let names = names("t");
    let mut arguments = vec![pcp_archive()];
    arguments.extend(names.lines());
    let said = same(&program, &arguments);
    assert!(said.lines().count() > 8 * 100);
}

/// The names of the metrics below one, a line each.
fn names(root: &str) -> String {
    let listed = run(Command::new("pminfo").args(["-a", pcp_archive(), root])).stdout;
    let names = String::from_utf8(listed).unwrap();
    names.replace(' ', "")
}

/// Without this the other tests could compare libpcp with itself.
#[test]
fn the_linker_binds_libpcp_to_our_functions() {
    let output = run(
        bounded(Path::new("pminfo"), &["-f", "-a", pcp_archive(), "t"])
            .env("LD_PRELOAD", library())
            .envs([("LD_DEBUG", "bindings"), ("LD_BIND_NOW", "1")]),
    );
    let bindings = String::from_utf8_lossy(&output.stderr);
    for function in ["__pmFindPDUBuf", "__pmPinPDUBuf", "__pmUnpinPDUBuf"] {
        let is_ours = |line: &str| {
            line.contains("libpcp.so.3 [0] to ")
                && line.contains("libpdubuf.so [0]: normal symbol")
                && line.contains(function)
        };
        assert!(bindings.lines().any(is_ours), "{function}");
    }
}
