use crate::{
    Error, Problem, Record,
    error::Flaw,
    format::{
        fields::Version,
        frame::Frame,
        record::{Head, earlier},
    },
    read::volume::{Chunk, Volumes, framing},
};
use busyhour::buffer::{Buffer, BufferPool};
use std::collections::VecDeque;

/// The result records of an archive in order. Damaged ones are left out; the
/// error about the first of them comes after the last good one.
pub struct Records {
    volumes: Volumes,
    version: Version,
    buffers: BufferPool,
    ready: VecDeque<Record>,
    error: Option<Error>,
    is_over: bool,
}

impl Records {
    pub(crate) fn new(volumes: Volumes, version: Version, buffers: BufferPool) -> Self {
        Self {
            volumes,
            version,
            buffers,
            ready: VecDeque::new(),
            error: None,
            is_over: false,
        }
    }

    fn read(&mut self) {
        match self.volumes.next(&self.buffers, None) {
            Ok(Some(chunk)) => self.cut(chunk),
            Ok(None) => {
                let damage = self.volumes.damage.take().map(Error::from);
                self.error = self.error.take().or(damage);
                self.is_over = true;
            }
            Err(error) => {
                self.error.get_or_insert(error);
                self.is_over = true;
            }
        }
    }

    fn cut(&mut self, chunk: Chunk) {
        let (volume, offset, is_last) = (chunk.volume, chunk.offset, chunk.is_last);
        let bytes = chunk.freeze();
        let (mut bad_frame, mut bad_record) = (None, None);
        let (version, ready) = (self.version, &mut self.ready);
        framing(version).walk(
            &bytes,
            is_last,
            |frame| match record(&bytes, frame, version) {
                Ok(record) => ready.push_back(record),
                Err(problem) => {
                    let offset = frame.at as u64;
                    bad_record.get_or_insert(Flaw { offset, problem });
                }
            },
            |flaw| {
                bad_frame.get_or_insert(flaw);
            },
        );
        if let Some(mut flaw) = earlier(bad_frame, bad_record) {
            flaw.offset += offset;
            let damage = flaw.of(self.volumes.path(volume));
            self.error.get_or_insert(damage.into());
        }
    }
}

fn record(bytes: &Buffer, frame: Frame<'_>, version: Version) -> Result<Record, Problem> {
    let head = Head::parse(frame.bytes, version)?;
    let bytes = bytes.slice_ref(frame.bytes);
    Ok(Record {
        time: head.time,
        bytes: bytes.map_err(|_| Problem::Outside)?,
        version,
    })
}

impl Iterator for Records {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record));
            }
            if self.is_over {
                return self.error.take().map(Err);
            }
            self.read();
        }
    }
}
