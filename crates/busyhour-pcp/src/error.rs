use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why an archive cannot be opened or rendered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// There is no archive of that name.
    #[error(
        "{}: no archive there; an archive has the files NAME.meta and NAME.0: give NAME, or one of its files",
        path.display()
    )]
    NotFound {
        /// What was asked for.
        path: PathBuf,
    },
    /// A file is there and cannot be read.
    #[error("{}: cannot be read: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system, or the decompressor, said.
        reason: String,
    },
    /// The label, or all of the metadata, makes no sense.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The wanted result is larger than allowed.
    #[error(
        "{points} points are requested, but at most {points_max} are rendered at once: \
         choose a longer step, a shorter window or fewer metrics"
    )]
    TooManyPoints {
        /// Series times steps.
        points: u64,
        /// The limit.
        points_max: u64,
    },
    /// The caller's [`StopCheck`](crate::StopCheck) said that it is to end.
    #[error("stopped before the end, as the caller wished")]
    Stopped,
    /// A thread that decoded a part of it panicked.
    #[error("a part of the archive was lost: the thread that decoded it panicked")]
    Lost,
    /// The volumes did not fit into the pool's budget.
    #[error("no buffer for the archive's records: {0}")]
    Buffer(#[from] busyhour::buffer::Error),
}

impl Error {
    pub(super) fn unreadable(file: &Path, reason: impl ToString) -> Self {
        Self::Unreadable {
            file: file.to_owned(),
            reason: reason.to_string(),
        }
    }
}

/// The first place where a file is not what the format says. Everything that
/// is good before it and after it has been read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: damaged at byte {offset}: {problem}", file.display())]
pub struct Damage {
    /// The file; of a compressed one the offset counts uncompressed bytes.
    pub file: PathBuf,
    /// Where the record begins that makes no sense.
    pub offset: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong at one place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Problem {
    /// The first bytes are not those of an archive.
    #[error("this is not a PCP archive (magic {0:#010x}, expected 0x50052602 or 0x50052603)")]
    Magic(u32),
    /// The label of one file does not belong to the others.
    #[error("the label says version {found}, the metadata's label version {expected}")]
    Version {
        /// As this file says.
        found: u8,
        /// As the metadata says.
        expected: u8,
    },
    /// The file ends inside a record.
    #[error("the file ends in the middle of a record")]
    Truncated,
    /// A length that no record has.
    #[error("a record cannot have {0} bytes")]
    Length(u32),
    /// The length before a record and the one after it differ.
    #[error("the record begins with length {head} and ends with length {tail}")]
    Lengths {
        /// Before the record.
        head: u32,
        /// After it.
        tail: u32,
    },
    /// The record's type is unknown.
    #[error("a metadata record has the unknown type {0}")]
    Tag(u32),
    /// A count or an offset inside the record points out of it.
    #[error("a count or an offset in the record points outside of it")]
    Outside,
    /// Seconds or nanoseconds out of range.
    #[error("the record's time is impossible")]
    Time,
    /// A delta of an instance domain that was never given in full.
    #[error("a change of instance domain {0:#x} comes before the domain itself")]
    Delta(u32),
}

/// A problem and where it is, before the file's name is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flaw {
    pub(super) offset: u64,
    pub(super) problem: Problem,
}

impl Flaw {
    pub(super) fn of(self, file: &Path) -> Damage {
        Damage {
            file: file.to_owned(),
            offset: self.offset,
            problem: self.problem,
        }
    }
}
