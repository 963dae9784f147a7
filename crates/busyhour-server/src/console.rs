//! What a command says on standard output and standard error.
//!
//! `print!` and `eprintln!` panic when the reader is gone, as in `| head`. Here
//! that is no failure: the command goes on and does what it was asked to do.
//! Clippy refuses the macros everywhere else.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

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
