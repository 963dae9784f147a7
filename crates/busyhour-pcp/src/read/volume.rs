//! The data volumes, one after the other, in chunks of whole records.

use crate::{
    Damage, Error, Problem, StopCheck,
    error::Flaw,
    format::{
        fields::Version,
        frame::{Framing, RECORD_BYTES_MAX},
        label::{LABEL_BYTES_MAX, Label},
        record::Head,
    },
    read::files::Files,
};
use busyhour::buffer::{Buffer, BufferMut, BufferPool};
use std::{
    io::{self, Read},
    mem,
    ops::Range,
    path::Path,
    sync::Arc,
};

/// Reads the volumes of one archive in order, or a part of them.
pub(crate) struct Volumes {
    files: Arc<Files>,
    version: Version,
    /// Where the next volume is read from.
    next: Position,
    end: Position,
    open: Option<Volume>,
    stop: StopCheck,
    /// Of the volumes, decompressed.
    pub(crate) bytes_read: u64,
    /// The first label that did not fit.
    pub(crate) damage: Option<Damage>,
}

/// A place in the volumes: a record begins there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    /// Which of the archive's volumes.
    pub(crate) volume: usize,
    /// Bytes from the volume's start; 0 stands for the first record.
    pub(crate) offset: u64,
}

/// One volume from some record on.
struct Volume {
    index: usize,
    source: Box<dyn Read + Send>,
    /// Where in the file `carried` begins.
    offset: u64,
    /// The beginning of a record whose end was not read yet.
    carried: Vec<u8>,
    is_at_end: bool,
    /// Since somebody asked.
    bytes_read: u64,
}

/// Whole records in a buffer of the pool.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Which of the archive's volumes.
    pub(crate) volume: usize,
    /// Where in it `bytes` begin.
    pub(crate) offset: u64,
    buffer: BufferMut,
    len: usize,
    /// Whether nothing follows, so that a record that is cut off stays so.
    pub(crate) is_last: bool,
}

impl Chunk {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// For values that are held on to.
    pub(crate) fn freeze(mut self) -> Buffer {
        self.buffer.truncate(self.len);
        self.buffer.freeze()
    }

    /// The memory, for the next chunk: a fresh one would cost a page fault for
    /// every page.
    pub(crate) fn into_spare(self) -> BufferMut {
        self.buffer
    }
}

impl Volumes {
    /// All of them.
    pub(crate) fn new(files: Arc<Files>, version: Version) -> Self {
        let end = Position {
            volume: files.volumes.len(),
            offset: 0,
        };
        Self::between(files, version, Position::default()..end)
    }

    /// The records that begin in `part`.
    pub(crate) fn between(files: Arc<Files>, version: Version, part: Range<Position>) -> Self {
        Self {
            files,
            version,
            next: part.start,
            end: part.end,
            open: None,
            stop: StopCheck::never(),
            bytes_read: 0,
            damage: None,
        }
    }

    /// The same, until `stop` ends the reading.
    pub(crate) fn until(self, stop: &StopCheck) -> Self {
        let stop = stop.clone();
        Self { stop, ..self }
    }

    /// The next chunk, or `None` after the last. It is read into `spare` if
    /// that is long enough.
    pub(crate) fn next(
        &mut self,
        buffers: &BufferPool,
        mut spare: Option<BufferMut>,
    ) -> Result<Option<Chunk>, Error> {
        self.stop.check()?;
        loop {
            let Some(volume) = &mut self.open else {
                if !self.open_next()? {
                    return Ok(None);
                }
                continue;
            };
            let path = &self.files.volumes[volume.index];
            let chunk = volume.next(path, self.version, buffers, &mut spare);
            self.bytes_read += mem::take(&mut volume.bytes_read);
            if let Some(chunk) = chunk? {
                return Ok(Some(chunk));
            }
            self.open = None;
        }
    }

    /// The file of a chunk's volume.
    pub(crate) fn path(&self, volume: usize) -> &Path {
        &self.files.volumes[volume]
    }

    fn open_next(&mut self) -> Result<bool, Error> {
        let begin = self.next;
        let Some(path) = self.files.volumes.get(begin.volume) else {
            return Ok(false);
        };
        if begin >= self.end {
            return Ok(false);
        }
        self.next = Position {
            volume: begin.volume + 1,
            offset: 0,
        };
        let end = (begin.volume == self.end.volume).then_some(self.end.offset);
        match Volume::open(&self.files, begin, end, self.version)? {
            Ok(volume) => self.open = Some(volume),
            Err(flaw) => {
                self.damage.get_or_insert(flaw.of(path));
            }
        }
        Ok(true)
    }
}

impl Volume {
    /// The records from `begin` on that begin before the offset `end`.
    fn open(
        files: &Files,
        begin: Position,
        end: Option<u64>,
        version: Version,
    ) -> Result<Result<Self, Flaw>, Error> {
        let path = &files.volumes[begin.volume];
        let unreadable = |error| Error::unreadable(path, error);
        let mut source = files.open(path)?;
        let mut head = vec![0; LABEL_BYTES_MAX];
        let (len, _) = fill(&mut source, &mut head).map_err(unreadable)?;
        head.truncate(len);
        let label_len = match label_len(&head, version) {
            Ok(len) => len,
            Err(problem) => return Ok(Err(Flaw { offset: 0, problem })),
        };
        let (mut offset, mut carried) = (label_len as u64, head.split_off(label_len));
        if begin.offset > offset {
            source = files.open_at(path, begin.offset).map_err(unreadable)?;
            (offset, carried) = (begin.offset, Vec::new());
        }
        if let Some(end) = end {
            let left = end.saturating_sub(offset);
            carried.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            source = Box::new(source.take(left - carried.len() as u64));
        }
        Ok(Ok(Self {
            index: begin.volume,
            source,
            offset,
            carried,
            is_at_end: false,
            bytes_read: len as u64,
        }))
    }

    fn next(
        &mut self,
        path: &Path,
        version: Version,
        buffers: &BufferPool,
        spare: &mut Option<BufferMut>,
    ) -> Result<Option<Chunk>, Error> {
        let mut len = CHUNK_BYTES.max(self.carried.len() * 2);
        while !(self.is_at_end && self.carried.is_empty()) {
            let mut buffer = match spare.take().filter(|spare| spare.len() >= len) {
                Some(spare) => spare,
                None => buffers.alloc(len)?,
            };
            let filled = self.fill(&mut buffer);
            let filled = filled.map_err(|error| Error::unreadable(path, error))?;
            let bytes = buffer.get(..filled).unwrap_or_default();
            let mut whole = framing(version).walk(bytes, self.is_at_end, |_| (), |_| ());
            if whole == 0 && filled > 2 * RECORD_BYTES_MAX {
                // Nothing in all this can be a record: it is given up as damage.
                whole = filled;
            }
            self.carried = bytes[whole..].to_vec();
            if whole == 0 {
                len = filled * 2;
                continue;
            }
            let offset = self.offset;
            self.offset += whole as u64;
            return Ok(Some(Chunk {
                volume: self.index,
                offset,
                buffer,
                len: whole,
                is_last: self.is_at_end,
            }));
        }
        Ok(None)
    }

    /// What was carried over, and as much after it as there is room for.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (carried, rest) = buffer.split_at_mut(self.carried.len());
        carried.copy_from_slice(&self.carried);
        let (read, is_at_end) = fill(&mut self.source, rest)?;
        self.bytes_read += read as u64;
        self.is_at_end = is_at_end;
        Ok(self.carried.len() + read)
    }
}

/// How long the label is with which a volume of an archive of that version begins.
pub(crate) fn label_len(head: &[u8], version: Version) -> Result<usize, Problem> {
    let (label, len) = Label::parse(head)?;
    if label.version != version {
        return Err(Problem::Version {
            found: label.version.number(),
            expected: version.number(),
        });
    }
    Ok(len)
}

/// How result records lie in a volume.
pub(crate) fn framing(version: Version) -> Framing<impl Fn(&[u8]) -> bool> {
    Framing {
        alignment: 4,
        is_plausible: move |body: &[u8]| {
            // The head expects the length in front, whatever it is.
            let head = [&[0; 4], &body[..body.len().min(HEAD_BYTES_MAX)]].concat();
            head_of(&head, body.len(), version)
        },
    }
}

fn head_of(head: &[u8], body_len: usize, version: Version) -> bool {
    let mut fields = crate::format::fields::Fields(head);
    let _ = fields.u32();
    let time = fields.time(version);
    let count = fields.i32();
    time.is_ok_and(|time| time.as_secs() >= PLAUSIBLE_SECONDS_MIN)
        && count.is_ok_and(|count| (0..=body_len as i64 / 8).contains(&i64::from(count)))
}

/// The heads of the records of a chunk that have one.
pub(crate) fn heads(chunk: &Chunk, version: Version, mut on_head: impl FnMut(Head)) {
    framing(version).walk(
        chunk.bytes(),
        chunk.is_last,
        |frame| {
            if let Ok(head) = Head::parse(frame.bytes, version) {
                on_head(head);
            }
        },
        |_| (),
    );
}

/// Reads until `into` is full or nothing is left; says which.
pub(crate) fn fill(source: &mut impl Read, into: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut len = 0;
    while len < into.len() {
        match source.read(&mut into[len..]) {
            Ok(0) => return Ok((len, true)),
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok((len, false))
}

/// As much as stays in a core's own cache while it is decoded.
pub(crate) const CHUNK_BYTES: usize = 512 << 10;

const HEAD_BYTES_MAX: usize = 16;

/// 1990: nothing was logged in this format before.
const PLAUSIBLE_SECONDS_MIN: u64 = 631_152_000;
