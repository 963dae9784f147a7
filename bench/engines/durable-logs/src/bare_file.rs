//! A file of fixed size, past the page cache, each group one write that returns when it is durable: the least that a
//! journal can be. It has no checksum, and nobody knows which of its records are needed.

use crate::{
    durable_log::{DurableLog, Outcome, Setup},
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

pub struct BareFile {
    file: File,
    number: u64,
    bytes: Vec<u8>,
    /// Begins at a multiple of a page inside of its bytes.
    space: Vec<u8>,
}

impl DurableLog for BareFile {
    fn open(folder: &Path, _: Setup) -> Outcome<Self> {
        let path = folder.join("log");
        fs::write(&path, vec![0; LOG_BYTES])?;
        File::open(&path)?.sync_all()?;
        let flags = OFlags::WRONLY | OFlags::DIRECT;
        Ok(Self {
            file: open(&path, flags, Mode::empty())?.into(),
            number: 0,
            bytes: Vec::new(),
            space: Vec::new(),
        })
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
        let written = pwritev2(
            &self.file,
            &[IoSlice::new(space)],
            at as u64,
            ReadWriteFlags::DSYNC,
        )?;
        match written == len {
            true => Ok(()),
            false => Err("a part of the record was written".into()),
        }
    }

    fn settle(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// By the highest number, when no record of the last ones is missing.
    fn seen(folder: &Path, setup: Setup) -> Outcome<u64> {
        let len = record_len(setup.group as usize);
        let bytes = fs::read(folder.join("log"))?;
        let records = bytes.chunks_exact(len);
        let slots = records.len() as u64;
        let mut numbers: Vec<u64> = records
            .filter_map(|record| {
                record
                    .first_chunk()
                    .map(|number| u64::from_le_bytes(*number))
            })
            .filter(|number| *number > 0)
            .collect();
        numbers.sort_unstable();
        let last = numbers.last().copied().unwrap_or(0);
        let wanted = last - last.min(slots) + 1..=last;
        match wanted.eq(numbers) {
            true => Ok(last * setup.group),
            false => Err("a record is missing".into()),
        }
    }
}

const PAGE: usize = 4096;
