//! Compiles and runs the programs of `tests/c`.

use crate::library::{CRATE, folder, scratch};
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// Compiles a program of `tests/c` as [`check_file`] runs it, with warnings as errors, and with further files, libraries or
/// options.
pub fn compile(source: &str, more: &[&str]) -> Checked {
    compile_file(&Path::new(CRATE).join("tests/c").join(source), more)
}

/// The same of any C or C++ file.
pub fn compile_file(source: &Path, more: &[&str]) -> Checked {
    let checker = match env::var_os("BUSYHOUR_TEST_VALGRIND") {
        Some(_) => Checker::Valgrind,
        None => Checker::Sanitizers,
    };
    let (folder, flags): (_, &[&str]) = match checker {
        Checker::Valgrind => ("valgrind", &["-O1"]),
        // It is not optimised, which would take the compiler twice as long and hide faults from the sanitizers.
        Checker::Sanitizers => (
            "sanitized",
            &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
        ),
    };
    let flags: Vec<&str> = flags.iter().chain(more).copied().collect();
    let program = compile_into(folder, source, &flags);
    Checked { program, checker }
}

/// A program of `tests/c` as programs are built elsewhere.
pub fn compile_plain(source: &str, more: &[&str]) -> PathBuf {
    let flags: Vec<&str> = ["-O1"].iter().chain(more).copied().collect();
    let source = Path::new(CRATE).join("tests/c").join(source);
    compile_into("bin", &source, &flags)
}

/// A program whose memory is checked as it runs.
pub struct Checked {
    program: PathBuf,
    checker: Checker,
}

/// What checks it. Valgrind sees every access of the library too, and takes thirty times as long: `scripts/valgrind-capi.sh`
/// runs these tests with it. The sanitizers see the stack and the globals of the program, as valgrind does not, and every
/// memory that is freed twice or never.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Checker {
    Sanitizers,
    Valgrind,
}

impl Checked {
    /// The command that runs it; the program's faults end it with a code that is not 0.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_with(arguments, &["--leak-check=full"])
    }

    /// The same for a program that forks: a child frees nothing of what the threads had.
    pub fn command_without_leaks(&self, arguments: &[&str]) -> Command {
        self.command_with(arguments, &["--leak-check=no"])
    }

    fn command_with(&self, arguments: &[&str], leaks: &[&str]) -> Command {
        if self.checker == Checker::Sanitizers {
            let mut command = bounded(&self.program, arguments);
            command.env("ASAN_OPTIONS", FILLS_WHAT_IS_FREED);
            return command;
        }
        let seconds = 30 * HANG_SECONDS;
        let mut valgrind = ended_after(seconds, Path::new("valgrind"), &["--quiet"]);
        valgrind
            .env("BUSYHOUR_TEST_DIVISOR", "5")
            .args(["--error-exitcode=99", "--num-callers=30"])
            .args(leaks)
            .args([
                "--show-leak-kinds=definite",
                "--errors-for-leak-kinds=definite",
            ])
            .arg(&self.program)
            .args(arguments);
        valgrind
    }

    /// Runs it; it must end with code 0.
    pub fn run(&self, arguments: &[&str]) -> Output {
        run(&mut self.command(arguments))
    }
}

/// AddressSanitizer keeps what is freed for a while. The library is compiled without it, and so does not find there what it
/// needs, if it looks.
const FILLS_WHAT_IS_FREED: &str = "max_free_fill_size=4096:free_fill_byte=221";

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

/// Compiles a program of `tests/c`, and runs it; it must end with code 0.
pub fn check(source: &str, more: &[&str]) {
    compile(source, more).run(&[]);
}

/// Runs a program with the header and the library as its arguments in Debian's Python, which has Debian's cffi. AddressSanitizer, which must be loaded first, sees
/// memory that is freed twice; what Python itself leaves is no leak of ours.
pub fn run_python(program: &Path) -> Output {
    let sanitizer = run(Command::new("cc").arg("-print-file-name=libasan.so")).stdout;
    let sanitizer = String::from_utf8(sanitizer).unwrap();
    let options = format!("detect_leaks=0:{FILLS_WHAT_IS_FREED}");
    run(bounded(Path::new("/usr/bin/python3"), &[])
        .env("LD_PRELOAD", sanitizer.trim())
        .env("ASAN_OPTIONS", options)
        .env("PYTHONMALLOC", "malloc")
        .arg(program)
        .arg(format!("{CRATE}/include/busyhour.h"))
        .arg(folder().join("libbusyhour.so")))
}

/// A program that is ended, and fails, if it hangs. The time decides nothing else: none of them takes a twentieth of it, and a
/// machine may do twenty times as much beside it.
pub fn bounded(program: &Path, arguments: &[&str]) -> Command {
    ended_after(HANG_SECONDS, program, arguments)
}

const HANG_SECONDS: u32 = 1200;

fn ended_after(seconds: u32, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &seconds.to_string()])
        .arg(program)
        .args(arguments);
    command
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
