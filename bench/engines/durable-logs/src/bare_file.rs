//! A file of fixed size, past the page cache, each group one write that returns when it is durable: the least that a
//! journal can be. It has no checksum, and nobody knows which of its records are needed.

use crate::{
    durable_log::{DurableLog, Outcome, Setup},
    newest::Newest,
    refresh::{HEAD_LEN, LOG_BYTES, Refresh, record_len},
};
use rustix::{
    fs::{Mode, OFlags, open},
    io::{ReadWriteFlags, pwritev2},
};
use std::{
    fs::{self, File},
    io::IoSlice,
    path::Path,
};

/// Without `IS_SYNCHRONISED` a write returns before it is durable, so that a check can show that it notices.
pub struct BareFile<const IS_SYNCHRONISED: bool> {
    file: File,
    number: u64,
    bytes: Vec<u8>,
    /// Begins at a multiple of a page inside of its bytes.
    space: Vec<u8>,
}

impl<const IS_SYNCHRONISED: bool> DurableLog for BareFile<IS_SYNCHRONISED> {
    fn open(folder: &Path, _: Setup) -> Outcome<Self> {
        let path = folder.join("log");
        fs::write(&path, vec![0; LOG_BYTES])?;
        File::open(&path)?.sync_all()?;
        Self::after(&path, 0)
    }

    fn recover(folder: &Path, setup: Setup) -> Outcome<(Self, Newest)> {
        let path = folder.join("log");
        let bytes = fs::read(&path)?;
        let records = Records::of(&bytes, setup)?;
        let mut newest = Newest::first(setup.bindings);
        for (_, record) in &records.0 {
            newest.extend(Refresh::all_in(&record[HEAD_LEN..]));
        }
        Ok((Self::after(&path, records.last())?, newest))
    }

    fn commit(&mut self, group: &[Refresh]) -> Outcome<()> {
        self.bytes.clear();
        self.bytes.resize(HEAD_LEN, 0);
        group.iter().for_each(|one| one.append_to(&mut self.bytes));
        self.number += 1;
        self.bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        let len = record_len(group.len());
        self.bytes.resize(len, 0);
        let at = (self.number as usize - 1) % (LOG_BYTES / len) * len;
        self.space.resize(len + PAGE, 0);
        let begin = self.space.as_ptr().align_offset(PAGE);
        let space = &mut self.space[begin..begin + len];
        space.copy_from_slice(&self.bytes);
        let flags = match IS_SYNCHRONISED {
            true => ReadWriteFlags::DSYNC,
            false => ReadWriteFlags::empty(),
        };
        let written = pwritev2(&self.file, &[IoSlice::new(space)], at as u64, flags)?;
        match written == len {
            true => Ok(()),
            false => Err("a part of the record was written".into()),
        }
    }

    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }

    fn seen(folder: &Path, setup: Setup) -> Outcome<u64> {
        let bytes = fs::read(folder.join("log"))?;
        Ok(Records::of(&bytes, setup)?.last() * setup.group)
    }
}

impl<const IS_SYNCHRONISED: bool> BareFile<IS_SYNCHRONISED> {
    fn after(path: &Path, number: u64) -> Outcome<Self> {
        let flags = OFlags::WRONLY | OFlags::DIRECT;
        Ok(Self {
            file: open(path, flags, Mode::empty())?.into(),
            number,
            bytes: Vec::new(),
            space: Vec::new(),
        })
    }
}

/// By their numbers.
struct Records<'a>(Vec<(u64, &'a [u8])>);

impl<'a> Records<'a> {
    /// Refused when one of the last ones is missing.
    fn of(bytes: &'a [u8], setup: Setup) -> Outcome<Self> {
        let slots = bytes.chunks_exact(record_len(setup.group as usize));
        let slots_count = slots.len() as u64;
        let numbered = slots.filter_map(|slot| {
            let number = u64::from_le_bytes(*slot.first_chunk()?);
            (number > 0).then_some((number, slot))
        });
        let mut records = Self(numbered.collect());
        records.0.sort_unstable_by_key(|(number, _)| *number);
        let last = records.last();
        let wanted = last - last.min(slots_count) + 1..=last;
        match wanted.eq(records.0.iter().map(|(number, _)| *number)) {
            true => Ok(records),
            false => Err("a record is missing".into()),
        }
    }

    fn last(&self) -> u64 {
        self.0.last().map_or(0, |(number, _)| *number)
    }
}

const PAGE: usize = 4096;
