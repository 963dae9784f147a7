use super::{
    Error, Record,
    fields::Version,
    frame::Frame,
    record::Head,
    volume::{Chunk, Volumes, framing},
};
use busyhour::buffer::BufferPool;
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
    pub(super) fn new(volumes: Volumes, version: Version, buffers: BufferPool) -> Self {
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
        match self.volumes.next(&self.buffers) {
            Ok(Some(chunk)) => self.cut(&chunk),
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

    fn cut(&mut self, chunk: &Chunk) {
        let mut frames = Vec::new();
        let mut flaw = None;
        framing(self.version).walk(
            &chunk.bytes,
            chunk.is_last,
            |frame| frames.push(frame),
            |found| {
                flaw.get_or_insert(found);
            },
        );
        for frame in frames {
            match self.record(chunk, frame) {
                Ok(record) => self.ready.push_back(record),
                Err(problem) => {
                    let offset = frame.at as u64;
                    flaw =
                        super::record::earlier(flaw, Some(super::error::Flaw { offset, problem }));
                }
            }
        }
        if let Some(mut flaw) = flaw {
            flaw.offset += chunk.offset;
            let damage = flaw.of(self.volumes.path(chunk.volume));
            self.error.get_or_insert(damage.into());
        }
    }

    fn record(&self, chunk: &Chunk, frame: Frame<'_>) -> Result<Record, super::Problem> {
        let head = Head::parse(frame.bytes, self.version)?;
        let bytes = chunk.bytes.slice_ref(frame.bytes);
        Ok(Record {
            time: head.time,
            bytes: bytes.map_err(|_| super::Problem::Outside)?,
            version: self.version,
        })
    }
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
