//! Callbacks that free their own handle, cancel themselves, shut down, throw and fork.

use crate::program::{bounded, compile, compile_sanitized, run, under_valgrind};
use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

const SOURCE: &str = "hostile.cpp";

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(SOURCE))
}

fn sanitized() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile_sanitized(SOURCE))
}

/// Each mode in a process of its own, which the program forks.
fn check(modes: &[&str]) {
    run(&mut under_valgrind(program(), modes));
    run(&mut bounded(sanitized(), modes));
}

#[test]
fn a_callback_may_free_the_handles_of_what_runs_it() {
    check(&["free-own-handle", "free-own-pool", "free-in-run-due"]);
}

#[test]
fn a_callback_may_cancel_itself_shut_down_and_push() {
    check(&[
        "cancel-itself",
        "abort-itself",
        "shut-down-inside",
        "push-in-destructor",
    ]);
}

#[test]
fn a_call_that_fails_to_wait_leaves_nothing_behind() {
    check(&["withdraw", "displace"]);
}

#[test]
fn a_callback_may_free_the_handles_of_the_call_that_it_runs_in() {
    check(&[
        "free-topic-in-subscribe",
        "free-topics-in-forward",
        "free-in-replay",
        "free-in-on-earlier",
        "free-in-push",
    ]);
}

#[test]
fn what_the_library_refuses_of_a_callback_is_freed_once() {
    check(&["refuse-options", "fold-to-another-key"]);
}

#[test]
fn a_child_that_forked_is_refused_and_one_that_forked_before_is_not() {
    run(&mut under_valgrind(program(), &["fork-before-a-pool"]));
    // What the threads had is lost in the child, which frees none of it.
    let mut valgrind = bounded(Path::new("valgrind"), &["--quiet", "--error-exitcode=99"]);
    run(valgrind.arg(program()).arg("fork-with-a-pool"));
}

/// The process ends with a message: unwinding further would skip destructors of the library.
#[test]
fn an_exception_that_leaves_a_callback_ends_the_process() {
    for mode in [
        "throw-from-task",
        "throw-in-run-due",
        "throw-from-destructor",
    ] {
        let output = bounded(program(), &[mode]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{mode}: {said}");
        assert!(
            said.contains("an exception has left a callback"),
            "{mode}: {said}"
        );
        assert!(output.stdout.is_empty(), "{mode}: it was caught");
    }
}
