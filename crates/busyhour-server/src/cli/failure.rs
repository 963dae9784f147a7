use crate::{config::Problems, console};
use std::{fmt::Display, process::ExitCode};

/// Why the program ends with an exit code other than 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// Something failed while starting or running: exit code 1.
    pub fn running(message: impl Display) -> Self {
        Self {
            code: 1,
            message: message.to_string(),
        }
    }

    /// The program was used or configured wrongly: exit code 2.
    pub fn usage(message: impl Display) -> Self {
        Self {
            code: 2,
            message: message.to_string(),
        }
    }

    /// What is said.
    pub(super) fn into_message(self) -> String {
        self.message
    }

    /// It works, and something should be looked at: exit code 3.
    pub(super) fn warned(message: impl Display) -> Self {
        Self {
            code: 3,
            message: message.to_string(),
        }
    }

    /// The same failure with one more line.
    pub(super) fn and(mut self, line: impl Display) -> Self {
        self.message = format!("{}\n{line}", self.message);
        self
    }

    /// Writes the message to standard error, marks each line, and returns the exit
    /// code.
    pub(super) fn report(self) -> ExitCode {
        for line in self.message.lines() {
            console::print_error(format_args!("busyhour: {line}"));
        }
        ExitCode::from(self.code)
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::usage(problems)
    }
}
