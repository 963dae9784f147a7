//! The programs on the pages for those who come from other libraries, and in the README.

use crate::{
    library::{CRATE, scratch},
    program::{check, compile_file, run_python},
};
use std::{collections::BTreeSet, fs, path::PathBuf};

#[test]
fn the_examples_of_the_readme_run() {
    for language in ["c", "cpp"] {
        let printed = run_example("README.md", language);
        assert_eq!(printed, "the binding of alice has expired\n", "{language}");
    }
    let printed = run_python(&example("README.md", "py", 0)).stdout;
    assert_eq!(printed, b"the binding of alice has expired\n");
}

/// Which sleeps for ever until the timer of the other thread rings.
#[test]
fn the_epoll_loop_of_the_readme_is_woken() {
    let printed = run_nth_example("README.md", "c", 1);
    assert_eq!(printed, "the timer of another thread has expired\n");
}

#[test]
fn the_scheduler_of_asterisk_runs_on_ours() {
    let printed = run_example("../../docs/book/src/coming-from/asterisk.md", "c");
    assert_eq!(printed, "OPTIONS to alice\n".repeat(3));
}

/// Several hundred lines of it: `compat/asterisk`.
#[test]
fn what_the_unit_tests_of_asterisk_ask_for_holds() {
    let folder = format!("{CRATE}/../../compat/asterisk");
    let names = [
        "sched",
        "event",
        "taskpool",
        "listener",
        "serializer_pool",
        "threadpool",
        "console",
    ];
    let files = names.map(|name| format!("{folder}/{name}.c"));
    let memory_may_be_out = "-Wl,--wrap=malloc,--wrap=calloc";
    let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
    check("asterisk_sched.c", &files);
    files.push(memory_may_be_out);
    check("asterisk.c", &files);
}

#[test]
fn values_of_pcp_pin_the_buffer_that_they_lie_in() {
    let printed = run_example("../../docs/book/src/coming-from/pcp.md", "c");
    assert_eq!(printed, "alice\nbob\n");
}

#[test]
fn work_of_libuv_ends_in_its_loop() {
    let printed = run_example("../../docs/book/src/coming-from/libuv.md", "c");
    assert_eq!(printed, "385\n");
}

#[test]
fn timeouts_and_thread_pools_of_glib_run_on_ours() {
    let printed = run_example("../../docs/book/src/coming-from/glib.md", "c");
    assert_eq!(printed, "4950\n");
}

#[test]
fn a_session_on_a_strand_closes_itself() {
    let printed = run_example("../../docs/book/src/coming-from/asio-strands.md", "cpp");
    assert_eq!(printed, "4 lines\n");
}

#[test]
fn a_group_of_libdispatch_notifies_once() {
    let printed = run_example("../../docs/book/src/coming-from/libdispatch.md", "c");
    assert_eq!(printed, "90\n");
}

/// Also those that no program on a page uses.
#[test]
fn every_name_on_the_pages_is_in_the_header() {
    let read = |path: &str| fs::read_to_string(format!("{CRATE}/{path}")).unwrap();
    let names = |text: &str| -> BTreeSet<String> {
        let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
        let words = text.split(|letter| !is_letter(letter));
        let ours = words.filter(|word| word.starts_with("bh_") || word.starts_with("BH_"));
        // `bh_timers_…` stands for several.
        ours.filter(|word| !word.ends_with('_'))
            .map(str::to_owned)
            .collect()
    };
    let header = names(&read("include/busyhour.h"));
    let pages = fs::read_dir(format!("{CRATE}/../../docs/book/src/coming-from")).unwrap();
    let pages = pages.map(|page| fs::read_to_string(page.unwrap().path()).unwrap());
    let mut named = names(&read("README.md"));
    let mut count = 0;
    for page in pages {
        named.extend(names(&page));
        count += 1;
    }
    assert!(count >= 6 && named.len() > 100, "{count} pages, {named:?}");
    let unknown: Vec<_> = named.difference(&header).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Compiles the first program in this language on a page and runs it; returns what it printed.
fn run_example(page: &str, language: &str) -> String {
    run_nth_example(page, language, 0)
}

/// As a release is built, without `assert`: no program may need it for its work or its checks.
fn run_nth_example(page: &str, language: &str, nth: usize) -> String {
    let source = example(page, language, nth);
    let has_assert = fs::read_to_string(&source).unwrap().contains("assert(");
    assert!(!has_assert, "{page}: NDEBUG removes what is in an assert");
    let output = compile_file(&source, &["-DNDEBUG"]).run(&[]);
    String::from_utf8(output.stdout).unwrap()
}

/// A program in this language on a page, as a file.
fn example(page: &str, language: &str, nth: usize) -> PathBuf {
    let text = fs::read_to_string(format!("{CRATE}/{page}")).unwrap();
    let after = text.split(&format!("```{language}\n")).nth(nth + 1);
    let (example, _) = after.unwrap().split_once("```").unwrap();
    let name = page.rsplit('/').next().unwrap().replace(".md", "");
    let source = scratch("example").join(format!("{name}{nth}.{language}"));
    fs::write(&source, example).unwrap();
    source
}
