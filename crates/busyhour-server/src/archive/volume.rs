//! The data volumes, one after the other, in chunks of whole records.

use super::{
    Damage, Error, Problem,
    error::Flaw,
    fields::Version,
    files::{self, Files},
    frame::{Framing, RECORD_BYTES_MAX},
    label::{LABEL_BYTES_MAX, Label},
    record::Head,
};
use busyhour::buffer::{Buffer, BufferMut, BufferPool};
use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
};

/// Reads the volumes of one archive in order.
pub(super) struct Volumes {
    files: Arc<Files>,
    version: Version,
    next: usize,
    end: usize,
    open: Option<Volume>,
    /// The first label that did not fit.
    pub(super) damage: Option<Damage>,
}

/// One volume from its first record on.
struct Volume {
    index: usize,
    source: Box<dyn Read + Send>,
    /// Where in the file `carried` begins.
    offset: u64,
    /// The beginning of a record whose end was not read yet.
    carried: Vec<u8>,
    is_at_end: bool,
}

/// Whole records in a buffer of the pool.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Which of the archive's volumes.
    pub(super) volume: usize,
    /// Where in it `bytes` begin.
    pub(super) offset: u64,
    buffer: BufferMut,
    len: usize,
    /// Whether nothing follows, so that a record that is cut off stays so.
    pub(super) is_last: bool,
}

impl Chunk {
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// For values that are held on to.
    pub(super) fn freeze(mut self) -> Buffer {
        self.buffer.truncate(self.len);
        self.buffer.freeze()
    }

    /// The memory, for the next chunk: a fresh one would cost a page fault for
    /// every page.
    pub(super) fn into_spare(self) -> BufferMut {
        self.buffer
    }
}

impl Volumes {
    pub(super) fn new(files: Arc<Files>, version: Version) -> Self {
        Self {
            end: files.volumes.len(),
            files,
            version,
            next: 0,
            open: None,
            damage: None,
        }
    }

    /// The next chunk, or `None` after the last. It is read into `spare` if
    /// that is long enough.
    pub(super) fn next(
        &mut self,
        buffers: &BufferPool,
        mut spare: Option<BufferMut>,
    ) -> Result<Option<Chunk>, Error> {
        loop {
            let Some(volume) = &mut self.open else {
                if !self.open_next()? {
                    return Ok(None);
                }
                continue;
            };
            let path = &self.files.volumes[volume.index];
            if let Some(chunk) = volume.next(path, self.version, buffers, &mut spare)? {
                return Ok(Some(chunk));
            }
            self.open = None;
        }
    }

    /// Restricts the reading to one volume.
    pub(super) fn only(&mut self, number: usize) {
        self.next = number;
        self.end = number + 1;
    }

    /// The file of a chunk's volume.
    pub(super) fn path(&self, volume: usize) -> &Path {
        &self.files.volumes[volume]
    }

    fn open_next(&mut self) -> Result<bool, Error> {
        if self.next >= self.end {
            return Ok(false);
        }
        let Some(path) = self.files.volumes.get(self.next) else {
            return Ok(false);
        };
        let index = self.next;
        self.next += 1;
        match Volume::open(index, path, self.version)? {
            Ok(volume) => self.open = Some(volume),
            Err(flaw) => {
                self.damage.get_or_insert(flaw.of(path));
            }
        }
        Ok(true)
    }
}

impl Volume {
    fn open(index: usize, path: &Path, version: Version) -> Result<Result<Self, Flaw>, Error> {
        let mut source = files::open(path)?;
        let mut head = vec![0; LABEL_BYTES_MAX];
        let (len, _) = fill(&mut source, &mut head).map_err(|e| Error::unreadable(path, e))?;
        head.truncate(len);
        let flaw = |problem| Flaw { offset: 0, problem };
        let (label, label_len) = match Label::parse(&head) {
            Ok(label) => label,
            Err(problem) => return Ok(Err(flaw(problem))),
        };
        if label.version != version {
            return Ok(Err(flaw(Problem::Version {
                found: label.version.number(),
                expected: version.number(),
            })));
        }
        Ok(Ok(Self {
            index,
            source,
            offset: label_len as u64,
            carried: head.split_off(label_len),
            is_at_end: false,
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
        self.is_at_end = is_at_end;
        Ok(self.carried.len() + read)
    }
}

/// How result records lie in a volume.
pub(super) fn framing(version: Version) -> Framing<impl Fn(&[u8]) -> bool> {
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
    let mut fields = super::fields::Fields(head);
    let _ = fields.u32();
    let time = fields.time(version);
    let count = fields.i32();
    time.is_ok_and(|time| time.as_secs() >= PLAUSIBLE_SECONDS_MIN)
        && count.is_ok_and(|count| (0..=body_len as i64 / 8).contains(&i64::from(count)))
}

/// The heads of the records of a chunk that have one.
pub(super) fn heads(chunk: &Chunk, version: Version, mut on_head: impl FnMut(Head)) {
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
fn fill(source: &mut impl Read, into: &mut [u8]) -> io::Result<(usize, bool)> {
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
pub(super) const CHUNK_BYTES: usize = 512 << 10;

const HEAD_BYTES_MAX: usize = 16;

/// 1990: nothing was logged in this format before.
const PLAUSIBLE_SECONDS_MIN: u64 = 631_152_000;
