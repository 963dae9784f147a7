//! What a command says on standard output and standard error.
//!
//! `print!` and `eprintln!` panic when the reader is gone, as in `| head`. Here
//! that is no failure: the command goes on and does what it was asked to do.
//! Clippy refuses the macros everywhere else.

use std::{
    fmt::Display,
    io::{self, ErrorKind, IsTerminal, Write},
    sync::OnceLock,
};

/// How a command writes, as its flags and the environment say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// What was done is not said, only what was asked for, and failures.
    pub(crate) is_quiet: bool,
    /// Colours always or never; `None`: on a terminal, unless `NO_COLOR` is set.
    pub(crate) is_coloured: Option<bool>,
}

/// Takes effect for all that is written after it; only the first call counts.
pub(crate) fn set_style(style: Style) {
    let _is_set_once = STYLE.set(style);
}

pub(crate) fn is_quiet() -> bool {
    STYLE.get().is_some_and(|style| style.is_quiet)
}

/// Whether what goes to `stream` is coloured.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    let wanted = STYLE.get().and_then(|style| style.is_coloured);
    wanted.unwrap_or_else(|| {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        stream.is_terminal() && !is_refused
    })
}

/// As [`print`], for what a command has done; nothing with `--quiet`.
///
/// # Errors
///
/// As for [`print`].
pub(crate) fn confirm(text: impl Display) -> Result<(), String> {
    match is_quiet() {
        true => Ok(()),
        false => print(text),
    }
}

static STYLE: OnceLock<Style> = OnceLock::new();

/// Writes `text` and a line end to standard output.
///
/// # Errors
///
/// The sentence for the user when it cannot be written, as on a full disk; a
/// reader that is gone is no error.
pub(crate) fn print(text: impl Display) -> Result<(), String> {
    print_while_read(text).map(|_is_read| ())
}

/// As [`print`], and whether somebody still reads: what repeats itself has to end then.
///
/// # Errors
///
/// As for [`print`].
pub(crate) fn print_while_read(text: impl Display) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    let is_read = !written
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
    forgive_closed_pipe(written).map(|()| is_read)
}

/// Writes `text` and a line end to standard error. There is nobody to tell when
/// that fails.
pub(crate) fn print_error(text: impl Display) {
    let _nobody_to_tell = writeln!(io::stderr().lock(), "{text}");
}

/// What writing to standard output has come to.
pub(crate) fn forgive_closed_pipe(written: io::Result<()>) -> Result<(), String> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}
