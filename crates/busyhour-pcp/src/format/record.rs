//! Result records: what one fetch saw.

use crate::{
    MetricId, Problem, ValueType,
    error::Flaw,
    format::{
        fields::{Fields, Version},
        frame::word,
    },
};
use busyhour::{buffer::Buffer, clock::UnixTime};

/// The head of a result record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) time: UnixTime,
    /// Metrics in it; none in a mark record, which says that logging was interrupted.
    pub(crate) count: usize,
}

impl Head {
    /// Reads the head of a record, which begins with its own length. The rest
    /// of the record need not be there.
    #[inline]
    pub(crate) fn parse(record: &[u8], version: Version) -> Result<Self, Problem> {
        let mut fields = Fields(record);
        let len = fields.u32()? as usize;
        let time = fields.time(version)?;
        let count = fields.i32()?;
        let count = usize::try_from(count).map_err(|_| Problem::Outside)?;
        // Each takes eight bytes at least.
        if count > len / 8 {
            return Err(Problem::Outside);
        }
        Ok(Self { time, count })
    }
}

/// Where in a record the sets of values begin.
#[inline]
pub(crate) fn sets_at(version: Version) -> usize {
    match version {
        Version::V2 => 16,
        Version::V3 => 20,
    }
}

/// The bytes of the value block to which `pointer` points, without its head.
/// Pointers count words, from where the record lay in its writer's packet.
#[inline]
pub(crate) fn block(record: &[u8], pointer: u32) -> Option<&[u8]> {
    let at = (pointer as usize).checked_sub(WORDS_BEFORE)? * 4;
    let block = record.get(at..)?;
    let len = word(block, 0)? & 0x00ff_ffff;
    block.get(4..len as usize)
}

/// One result record, as [`Archive::records`](crate::Archive::records) gives
/// it. Its bytes stay pinned as long as it, or a value of it, is held.
#[derive(Debug, Clone)]
pub struct Record {
    pub(crate) time: UnixTime,
    pub(crate) bytes: Buffer,
    pub(crate) version: Version,
}

/// One value in a [`Record`].
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Whose.
    pub metric: MetricId,
    /// Of which instance; −1 when the metric has no instance domain.
    pub instance: i32,
    /// The value.
    pub value: Value,
}

/// A value as it was logged.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A word that stands in the record itself: a 32-bit integer, or the
    /// bits of a `float` of an old archive.
    Word(u32),
    /// The bytes of anything longer, big-endian, still where the file's reader
    /// put them.
    Block(Buffer),
}

impl Value {
    /// As a number, if `value_type` is that of one and the value is long enough for it.
    pub fn number(&self, value_type: ValueType) -> Option<f64> {
        let bits = match self {
            Self::Word(word) => crate::format::bits::of_word(*word, value_type)?,
            Self::Block(bytes) => crate::format::bits::of_block(bytes, value_type)?,
        };
        Some(crate::format::bits::number(bits, value_type))
    }

    /// As text without the zero that ends it, for a value of [`ValueType::String`].
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Word(_) => None,
            Self::Block(bytes) => Some(crate::format::fields::until_zero(bytes)),
        }
    }
}

impl Record {
    /// When the values were fetched.
    pub fn time(&self) -> UnixTime {
        self.time
    }

    /// Whether this is a mark: logging was interrupted here, so do not interpolate
    /// between the two sides.
    pub fn is_mark(&self) -> bool {
        Head::parse(&self.bytes, self.version).is_ok_and(|head| head.count == 0)
    }

    /// The values, in the order of the record.
    ///
    /// # Errors
    ///
    /// [`Problem::Outside`] when a count or a pointer leads out of the record.
    pub fn samples(&self) -> Result<Vec<Sample>, Problem> {
        let head = Head::parse(&self.bytes, self.version)?;
        let mut fields = Fields(&self.bytes);
        fields.take(sets_at(self.version))?;
        let mut samples = Vec::new();
        for _ in 0..head.count {
            self.set(&mut fields, &mut samples)?;
        }
        Ok(samples)
    }

    fn set(&self, fields: &mut Fields<'_>, samples: &mut Vec<Sample>) -> Result<(), Problem> {
        let metric = MetricId(fields.u32()?);
        let count = fields.i32()?;
        if count <= 0 {
            return Ok(());
        }
        let is_pointer = fields.u32()? != IN_PLACE;
        for _ in 0..count {
            let (instance, word) = (fields.i32()?, fields.u32()?);
            let value = if is_pointer {
                Value::Block(self.block(word)?)
            } else {
                Value::Word(word)
            };
            samples.push(Sample {
                metric,
                instance,
                value,
            });
        }
        Ok(())
    }

    fn block(&self, pointer: u32) -> Result<Buffer, Problem> {
        let block = block(&self.bytes, pointer).ok_or(Problem::Outside)?;
        self.bytes.slice_ref(block).map_err(|_| Problem::Outside)
    }
}

/// The value format of values that stand in the set itself.
pub(crate) const IN_PLACE: u32 = 0;

/// Words of the packet that the writer put in front.
const WORDS_BEFORE: usize = 2;

/// What was found while looking at records, with offsets into the chunk.
pub(crate) fn earlier(a: Option<Flaw>, b: Option<Flaw>) -> Option<Flaw> {
    a.into_iter().chain(b).min_by_key(|flaw| flaw.offset)
}
