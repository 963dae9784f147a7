use std::{fmt, io, path::Path};

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A place in the file; line and column count from 1, the column in characters.
    File {
        /// The name of the file, as the user gave it.
        file: String,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// The file as a whole.
    WholeFile(String),
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

/// One thing that is wrong with the configuration, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The place to repair.
    pub origin: SettingOrigin,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// What is wrong with a setting that names something outside, such as a service or a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {reason}")]
pub struct SettingProblem {
    /// Which one.
    pub setting: &'static str,
    pub(super) reason: String,
}

/// All that is wrong with the configuration: never empty, one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problem {
    pub(super) fn new(origin: SettingOrigin, message: impl Into<String>) -> Self {
        Self {
            origin,
            message: message.into(),
        }
    }

    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let origin = SettingOrigin::WholeFile(path.display().to_string());
        Self::new(origin, format!("cannot be read: {error}"))
    }
}

impl Problems {
    pub(super) fn none_or(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self(problems))
        }
    }

    /// The problems, in the order of the file, then environment and flags.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl SettingOrigin {
    /// The place of byte `offset` in the `text` of `file`.
    pub(super) fn in_file(file: &str, text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self::File {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// Line and column, for sorting; a problem without them comes first.
    pub(super) fn position(&self) -> (usize, usize) {
        match self {
            Self::File { line, column, .. } => (*line, *column),
            _ => (0, 0),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::WholeFile(name) | Self::Environment(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "a = 1\nname = \"é\" x\n";
        let offset = text.find('x').unwrap();
        let origin = SettingOrigin::in_file("f.toml", text, offset);
        assert_eq!(origin.to_string(), "f.toml:2:12");
        assert_eq!(
            SettingOrigin::in_file("f.toml", text, 0).to_string(),
            "f.toml:1:1"
        );
    }
}
