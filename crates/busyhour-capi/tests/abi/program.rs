//! Compiles and runs the programs of `tests/c`.

use crate::library::{CRATE, folder, scratch};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Compiles a program of `tests/c`, with warnings as errors.
pub fn compile(source: &str) -> PathBuf {
    compile_file(&Path::new(CRATE).join("tests/c").join(source))
}

/// Compiles a C or C++ file, with warnings as errors.
pub fn compile_file(source: &Path) -> PathBuf {
    compile_into("bin", source, &["-O1"])
}

/// A program of `tests/c` with further files or libraries.
pub fn compile_with(source: &str, more: &[&str]) -> PathBuf {
    let flags: Vec<&str> = ["-O1"].iter().chain(more).copied().collect();
    compile_into(
        "bin",
        &Path::new(CRATE).join("tests/c").join(source),
        &flags,
    )
}

/// With AddressSanitizer and UBSan, which see the stack and the globals of the program, as valgrind does not.
pub fn compile_sanitized(source: &str) -> PathBuf {
    compile_sanitized_with(source, &[])
}

/// The same, with further files, libraries or options. It is not optimised, which would take the compiler twice as long and
/// hide faults from the sanitizers.
pub fn compile_sanitized_with(source: &str, more: &[&str]) -> PathBuf {
    let source = Path::new(CRATE).join("tests/c").join(source);
    let mut flags = vec!["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    flags.extend(more);
    compile_into("sanitized", &source, &flags)
}

fn compile_into(folder_name: &str, source: &Path, flags: &[&str]) -> PathBuf {
    let name = source.file_name().unwrap_or_default().to_string_lossy();
    let program = scratch(folder_name).join(name.replace('.', "-"));
    let is_cpp = source.extension().is_some_and(|ending| ending == "cpp");
    // Line numbers are enough to say where.
    let (compiler, standard) = match is_cpp {
        true => ("c++", "-std=c++17"),
        false => ("cc", "-std=c11"),
    };
    let library = folder().display();
    run(Command::new(compiler)
        .args([
            standard,
            "-D_GNU_SOURCE",
            "-g1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
        ])
        .arg(format!("-I{CRATE}/include"))
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args([format!("-L{library}"), format!("-Wl,-rpath,{library}")])
        .args(["-lbusyhour", "-lpthread"])
        .args(flags));
    program
}

/// Compiles a program, and runs it under valgrind and with the sanitizers; it must end with code 0.
pub fn check(source: &str) {
    check_with(source, &[], &[]);
}

/// The same, with further files or options for each of the two.
pub fn check_with(source: &str, plain: &[&str], sanitized: &[&str]) {
    run(&mut under_valgrind(&compile_with(source, plain), &[]));
    run(&mut bounded(
        &compile_sanitized_with(source, sanitized),
        &[],
    ));
}

/// A program that is ended, and fails, if it hangs.
pub fn bounded(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "120"])
        .arg(program)
        .args(arguments);
    command
}

pub fn under_valgrind(program: &Path, arguments: &[&str]) -> Command {
    let mut valgrind = bounded(Path::new("valgrind"), &["--quiet", "--error-exitcode=99"]);
    valgrind
        .env("BUSYHOUR_TEST_DIVISOR", "5")
        .args(["--leak-check=full", "--num-callers=30"])
        .args([
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ])
        .arg(program)
        .args(arguments);
    valgrind
}

/// Runs a command, which must succeed.
pub fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}: scripts/install-deps.sh build test installs it")
    });
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
