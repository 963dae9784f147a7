//! Where in the volumes reading can begin: what the temporal index says,
//! checked against the records themselves.

use crate::{
    IndexEntry,
    format::{
        fields::Version,
        frame::{RECORD_BYTES_MAX, word},
        label::LABEL_BYTES_MAX,
        record::Head,
    },
    read::{
        files::{Files, is_compressed},
        volume::{Position, Volumes, fill, label_len},
    },
};
use busyhour::clock::UnixTime;
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// Places in the volumes where a record begins, in order. The first is the
/// start of the first volume.
#[derive(Debug)]
pub(crate) struct Places {
    files: Arc<Files>,
    version: Version,
    list: Vec<(Position, Option<UnixTime>)>,
}

impl Places {
    /// The start of each volume, and the entries of the index that lead into
    /// volumes which are not compressed.
    pub(crate) fn new(files: Arc<Files>, version: Version, index: &[IndexEntry]) -> Self {
        let start_of = |volume| Position { volume, offset: 0 };
        let starts = (0..files.volumes.len().max(1)).map(|volume| (start_of(volume), None));
        let mut list: BTreeMap<Position, Option<UnixTime>> = starts.collect();
        for entry in index {
            let Some(volume) = files.volume(entry.volume) else {
                continue;
            };
            // What lies behind a volume's start is no earlier than the start.
            let start = list.entry(start_of(volume)).or_default();
            *start = Some(start.map_or(entry.time, |time| time.min(entry.time)));
            if !is_compressed(&files.volumes[volume]) && entry.data_offset > 0 {
                let offset = entry.data_offset;
                list.insert(Position { volume, offset }, Some(entry.time));
            }
        }
        Self {
            files,
            version,
            list: list.into_iter().collect(),
        }
    }

    /// The number of the last place before number `below` whose record is not later
    /// than `time`: whatever lies before it is no later either. The entries of the
    /// index are checked; the first place needs no check.
    pub(crate) fn last_until(&self, time: UnixTime, below: usize, bytes_read: &mut u64) -> usize {
        let before = self.list.iter().enumerate().take(below).skip(1).rev();
        let claimed = before.filter(|(_, (_, claim))| claim.is_none_or(|claim| claim <= time));
        let mut looked_at = claimed.take(LOOKED_AT_COUNT_MAX);
        let found = looked_at.find(|(_, (position, claim))| {
            let found = self.time_at(*position, bytes_read);
            found.is_some_and(|found| found <= time && claim.is_none_or(|claim| claim <= found))
        });
        found.map_or(0, |(number, _)| number)
    }

    /// The records from one place to another, or to the end.
    pub(crate) fn volumes(&self, part: Range<usize>) -> Volumes {
        let all_end = Position {
            volume: self.files.volumes.len(),
            offset: 0,
        };
        let end = self.list.get(part.end);
        let end = end.map_or(all_end, |(position, _)| *position);
        let (begin, _) = self.list[part.start];
        Volumes::between(Arc::clone(&self.files), self.version, begin..end)
    }

    /// The time of the record at a place, if a whole one lies there.
    fn time_at(&self, at: Position, bytes_read: &mut u64) -> Option<UnixTime> {
        let path = self.files.volumes.get(at.volume)?;
        let mut bytes = vec![0; LABEL_BYTES_MAX + HEAD_BYTES_MAX];
        if at.offset == 0 {
            let (len, _) = fill(&mut self.files.open(path).ok()?, &mut bytes).ok()?;
            *bytes_read += len as u64;
            let head = label_len(&bytes[..len], self.version).ok()?;
            return Some(Head::parse(&bytes[head..len], self.version).ok()?.time);
        }
        let mut read = |offset, bytes: &mut [u8]| -> Option<u32> {
            let mut source = self.files.open_at(path, offset).ok()?;
            let (len, _) = fill(&mut source, bytes).ok()?;
            *bytes_read += len as u64;
            word(&bytes[..len], 0)
        };
        bytes.truncate(HEAD_BYTES_MAX);
        let len = read(at.offset, &mut bytes).filter(|len| *len as usize <= RECORD_BYTES_MAX)?;
        let tail_at = at.offset.checked_add(u64::from(len.checked_sub(4)?))?;
        let tail = read(tail_at, &mut [0; 4])?;
        let head = Head::parse(&bytes, self.version).ok()?;
        (tail == len).then_some(head.time)
    }
}

/// A length, a time and a count.
const HEAD_BYTES_MAX: usize = 20;

/// It bounds the cost of an index whose entries are all wrong.
const LOOKED_AT_COUNT_MAX: usize = 4096;
