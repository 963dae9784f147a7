//! Callbacks that free their own handle, cancel themselves, shut down, throw and fork.

use crate::{
    library::{CRATE, scratch},
    program::{Checked, compile, run},
};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    sync::OnceLock,
};

const SOURCE: &str = "hostile.cpp";

fn program() -> &'static Checked {
    static PROGRAM: OnceLock<Checked> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(SOURCE, &[]))
}

/// Each mode in a process of its own, which the program forks.
fn check(modes: &[&str]) {
    program().run(modes);
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
    check(&["fork-before-a-pool"]);
    // What the threads had is lost in the child, which frees none of it.
    run(&mut program().command_without_leaks(&["fork-with-a-pool"]));
}

/// The process ends with a message: unwinding further would skip destructors of the library.
#[test]
fn an_exception_that_leaves_a_callback_ends_the_process() {
    for mode in [
        "throw-from-task",
        "throw-in-run-due",
        "throw-from-destructor",
    ] {
        let output = program().command(&[mode]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{mode}: {said}");
        assert!(
            said.contains("an exception has left a callback"),
            "{mode}: {said}"
        );
        assert!(output.stdout.is_empty(), "{mode}: it was caught");
    }
}

/// Their handler of `std::terminate` ends the process with 7; the library's message would end it with SIGABRT.
#[test]
fn a_closure_of_cpp_that_throws_ends_in_terminate() {
    for mode in [
        "throw-from-executor-closure",
        "throw-from-attribute-closure",
        "throw-from-subscription-closure",
    ] {
        let output = program().command(&[mode]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(7), "{mode}: {said}");
    }
}

/// Every callback that the header has, in every mode.
#[test]
fn every_callback_may_throw_fork_free_cancel_and_shut_down() {
    let program = compile("hostile_matrix.cpp", &[]);
    let listed = run(&mut program.command_without_leaks(&["list"])).stdout;
    let listed = String::from_utf8(listed).unwrap();
    let scenarios: BTreeSet<&str> = listed.lines().collect();
    let callbacks = callbacks_of_the_header();
    let callbacks: BTreeSet<&str> = callbacks.iter().map(String::as_str).collect();
    assert_eq!(scenarios, callbacks);
    assert!(callbacks.len() > 60, "{callbacks:?}");

    let list = scratch("hostile").join("callbacks");
    let lines: Vec<&str> = scenarios.into_iter().collect();
    fs::write(&list, lines.join("\n")).unwrap();
    for mode in ["throw", "fork", "free", "cancel", "shut-down"] {
        // A child frees nothing of what its parent has made.
        let mut command = match mode {
            "fork" => program.command_without_leaks(&["run", mode]),
            _ => program.command(&["run", mode]),
        };
        run(command.stdin(File::open(&list).unwrap()));
    }
}

/// `FUNCTION PARAMETER` or `OPTIONS FIELD` of each pointer to a function in `busyhour.h`.
fn callbacks_of_the_header() -> Vec<String> {
    let header = fs::read_to_string(format!("{CRATE}/include/busyhour.h")).unwrap();
    let code: Vec<&str> = header
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let code = code.join(" ");
    let mut found = Vec::new();
    for statement in code.split_inclusive([';', '{', '}']) {
        let words: Vec<&str> = statement
            .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .filter(|word| !word.is_empty())
            .collect();
        found.push((statement, words));
    }
    let mut owner = "";
    let mut callbacks = Vec::new();
    for (statement, words) in found {
        match words.as_slice() {
            ["typedef", "struct", name] if statement.ends_with('{') => owner = name,
            [kind, name] if kind.ends_with("_fn") && !statement.contains('(') => {
                callbacks.push(format!("{owner} {name}"));
            }
            _ if statement.contains('(') && !statement.contains("(*") => {
                let function = words
                    .iter()
                    .find(|word| statement.contains(&format!("{word}(")));
                for pair in words.windows(2).filter(|pair| pair[0].ends_with("_fn")) {
                    callbacks.push(format!("{} {}", function.unwrap(), pair[1]));
                }
            }
            _ => {}
        }
    }
    callbacks
}
