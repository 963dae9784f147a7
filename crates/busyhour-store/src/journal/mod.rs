#![doc = include_str!("README.md")]

mod change_code;
mod commit_delay;
mod journal_file;
mod journal_header;
mod journal_record;
mod journal_ring;
mod journal_writer;
mod recovery;

pub(crate) use commit_delay::CommitDelay;
#[cfg(test)]
pub(crate) use journal_file::failing;
pub(crate) use journal_file::{JournalFile, SyncedFile};
pub(crate) use journal_header::JournalHeader;
pub(crate) use journal_ring::{JournalRing, RING_BEGIN};
pub(crate) use journal_writer::JournalWriter;
pub use recovery::{
    JournalDamage, JournalPosition, JournalRecord, RecoveredJournal, recover_journal,
};

#[cfg(test)]
mod tests;
