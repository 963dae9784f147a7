//! Finding the records of a journal again; bytes in, records out.

use super::{JournalHeader, RING_BEGIN, change_code, journal_record::RecordBytes};
use crate::Change;
use thiserror::Error;

/// How far a database has followed its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalPosition {
    /// Of which use of the journal this is said.
    pub epoch: u64,
    /// The last record that the database has; 0 if it has none.
    pub number: u64,
    /// Where that record ends.
    pub end: u64,
}

/// A group of changes that became durable together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalRecord {
    /// Counted up from 1 in each epoch.
    pub number: u64,
    /// Where it ends.
    pub end: u64,
    /// In their order.
    pub changes: Vec<Change>,
}

/// What a journal has that its database has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveredJournal {
    /// In their order, without a gap.
    pub records: Vec<JournalRecord>,
    /// Why there may have been more, which a power cut has taken. Only a journal that was not
    /// synchronised has this; of others it is an error.
    pub cut: Option<JournalDamage>,
}

/// Why a journal cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JournalDamage {
    /// It is no journal, or its beginning is damaged.
    #[error("{0}")]
    Header(&'static str),
    /// It was written after what is in the database, or for another one.
    #[error(
        "it belongs to another state of the database (epoch {journal}) than the one that is beside it (epoch {database})"
    )]
    Foreign {
        /// The epoch of the journal.
        journal: u64,
        /// The one that the database knows; 0 if it knows none.
        database: u64,
    },
    /// It is a copy of an earlier use: the database has followed a later one, which is lost.
    #[error(
        "it is older (epoch {journal}) than the database that is beside it (epoch {database}): what the lost one had that the \
         database has not is missing"
    )]
    Old {
        /// The epoch of the journal.
        journal: u64,
        /// The one that the database knows.
        database: u64,
    },
    /// Its end is missing.
    #[error("it has {len} bytes, and the database has followed to byte {end}: its end is missing")]
    Short {
        /// The bytes that are there.
        len: u64,
        /// Where the last record ends that the database has.
        end: u64,
    },
    /// A record was acknowledged and is not there any more.
    #[error("record {number} at byte {at} is damaged, but record {later} behind it is whole")]
    Record {
        /// Which record is missing.
        number: u64,
        /// Where it should begin.
        at: u64,
        /// A later one that is there.
        later: u64,
    },
    /// A record is whole, but not understood.
    #[error("record {number} at byte {at} has {reason}")]
    Unreadable {
        /// Which record.
        number: u64,
        /// Where it begins.
        at: u64,
        /// What is in it.
        reason: &'static str,
    },
}

/// Finds the records in the bytes of a journal that a database at `position` has not. A database
/// without a position has followed none.
///
/// A record at the end that is not whole was never acknowledged, so it is left out: the next record is
/// written only after the one before has been synchronised. So a whole record behind one that is
/// damaged proves that the damaged one was acknowledged, and that is an error.
///
/// # Errors
///
/// What is damaged, and where.
///
/// # Examples
///
/// ```
/// use busyhour_store::{JournalDamage, recover_journal};
///
/// let damage = recover_journal(&[0; 8192], None).unwrap_err();
/// assert_eq!(damage, JournalDamage::Header("it does not begin as one"));
/// ```
pub fn recover_journal(
    bytes: &[u8],
    position: Option<JournalPosition>,
) -> Result<RecoveredJournal, JournalDamage> {
    let header = JournalHeader::decode(bytes).map_err(JournalDamage::Header)?;
    let database = position.map_or(0, |position| position.epoch);
    let recovered = match position.filter(|position| position.epoch == header.epoch) {
        Some(position) => records_behind(bytes, position, header.step),
        None if header.epoch > database && header.is_open => {
            let journal = header.epoch;
            Err((Vec::new(), JournalDamage::Foreign { journal, database }))
        }
        // The header is synchronised before the first record, so a record of the later epoch proves that another
        // file had it.
        None if position
            .is_some_and(|position| position.epoch > header.epoch && position.number > 0) =>
        {
            let journal = header.epoch;
            Err((Vec::new(), JournalDamage::Old { journal, database }))
        }
        // The database has had all of it.
        None => Ok(Vec::new()),
    };
    match recovered {
        Ok(records) => Ok(RecoveredJournal { records, cut: None }),
        Err((records, damage)) if !header.is_synced => Ok(RecoveredJournal {
            records,
            cut: Some(damage),
        }),
        Err((_, damage)) => Err(damage),
    }
}

/// With damage comes what is before it.
fn records_behind(
    bytes: &[u8],
    position: JournalPosition,
    step: usize,
) -> Result<Vec<JournalRecord>, (Vec<JournalRecord>, JournalDamage)> {
    let (len, end) = (bytes.len() as u64, position.end);
    if end > len {
        return Err((Vec::new(), JournalDamage::Short { len, end }));
    }
    let (mut number, mut at) = (position.number, position.end);
    let mut records = Vec::new();
    while let Some((begin, found)) = next(bytes, position.epoch, number + 1, at) {
        match change_code::decode_all(found.body) {
            Ok(changes) => {
                (number, at) = (number + 1, begin + found.len(step));
                let end = at;
                records.push(JournalRecord {
                    number,
                    end,
                    changes,
                });
            }
            Err(reason) => {
                let (number, at) = (number + 1, begin);
                return Err((records, JournalDamage::Unreadable { number, at, reason }));
            }
        }
    }
    match later(bytes, position.epoch, number, step) {
        None => Ok(records),
        Some(later) => {
            let number = number + 1;
            Err((records, JournalDamage::Record { number, at, later }))
        }
    }
}

/// The record of this number, which is behind the one before it or at the begin.
fn next(bytes: &[u8], epoch: u64, number: u64, at: u64) -> Option<(u64, RecordBytes<'_>)> {
    [at, RING_BEGIN].into_iter().find_map(|at| {
        let rest = bytes.get(usize::try_from(at).ok()?..)?;
        let record = RecordBytes::first_of(rest)?;
        let is_it = at >= RING_BEGIN && (record.epoch, record.number) == (epoch, number);
        is_it.then_some((at, record))
    })
}

/// A record of a higher number, wherever it is.
fn later(bytes: &[u8], epoch: u64, number: u64, step: usize) -> Option<u64> {
    let ring = bytes.get(RING_BEGIN as usize..)?;
    let mut records = (0..ring.len())
        .step_by(step)
        .filter_map(|at| RecordBytes::first_of(&ring[at..]));
    let is_later = |record: &RecordBytes<'_>| record.epoch == epoch && record.number > number;
    records.find(is_later).map(|record| record.number)
}
