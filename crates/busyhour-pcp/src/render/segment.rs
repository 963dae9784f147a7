//! Decoding one chunk: the values between its own samples, and what the
//! chunks around it need to know.

use crate::{
    Problem,
    error::Flaw,
    format::{
        bits::{self, Interpolation, Point},
        fields::Version,
        frame::{Frame, word},
        record::{Head, IN_PLACE, block, earlier, sets_at},
    },
    read::volume::{Chunk, framing, heads},
    render::{
        plan::Plan,
        shape::{Shape, Slot},
        window::Window,
    },
};
use std::sync::Arc;

/// What every chunk of one scan is decoded for.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) plan: Arc<Plan>,
    pub(crate) window: Window,
    pub(crate) version: Version,
    /// The archive's start: from there libpcp counts its seconds.
    pub(crate) origin: u64,
}

/// One column's samples in a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) first: RawSample,
    pub(crate) last: RawSample,
    /// How many moments of the window are at or before the last sample.
    pub(crate) passed: usize,
}

/// When, in nanoseconds since 1970, and the bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawSample {
    pub(crate) time: u64,
    pub(crate) bits: u64,
}

/// A decoded chunk.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) cells: Vec<Cell>,
    /// The first moment for which `values` has places.
    pub(crate) from: usize,
    pub(crate) width: usize,
    /// By column, `width` each: what lies between two samples of the chunk.
    pub(crate) values: Vec<f64>,
    pub(crate) marks: Vec<u64>,
    /// The latest record.
    pub(crate) end: u64,
    pub(crate) record_count: u64,
    /// Wanted values that were decoded.
    pub(crate) sample_count: u64,
    /// The first damage, counted from the chunk's start.
    pub(crate) flaw: Option<Flaw>,
}

/// Decodes chunks, with what it remembers from one to the next.
pub(crate) struct Decoder {
    task: Task,
    shape: Shape,
}

impl Cell {
    /// No sample yet.
    const EMPTY: Self = Self {
        first: RawSample::NONE,
        last: RawSample::NONE,
        passed: 0,
    };

    pub(crate) fn is_empty(&self) -> bool {
        self.last == RawSample::NONE
    }
}

impl RawSample {
    /// Later than any that a file can hold.
    const NONE: Self = Self {
        time: u64::MAX,
        bits: 0,
    };
}

impl Task {
    fn point(&self, sample: RawSample) -> Point {
        Point {
            seconds: self.seconds(sample.time),
            bits: sample.bits,
        }
    }

    fn seconds(&self, time: u64) -> f64 {
        time.wrapping_sub(self.origin).cast_signed() as f64 / 1e9
    }

    /// The value at the moment `index`, which is after `prior` and at or
    /// before `next`; NaN if there is none. `mark` is the first one after `prior`.
    pub(crate) fn value(
        &self,
        reading: Interpolation,
        prior: Option<RawSample>,
        next: Option<RawSample>,
        mark: Option<u64>,
        index: usize,
    ) -> f64 {
        let time = self.window.nanos(index);
        if let Some(next) = next.filter(|next| next.time == time) {
            return bits::number(next.bits, reading.value_type);
        }
        let Some(prior) = prior else {
            return f64::NAN;
        };
        if reading.semantics == crate::Semantics::Discrete {
            let is_cut = mark.is_some_and(|mark| mark <= time);
            let value = bits::number(prior.bits, reading.value_type);
            return if is_cut { f64::NAN } else { value };
        }
        match next {
            Some(next) if mark.is_none_or(|mark| mark > next.time) => {
                let (prior, next) = (self.point(prior), self.point(next));
                reading.between(prior, next, self.seconds(time))
            }
            _ => f64::NAN,
        }
    }
}

impl Segment {
    /// What a chunk without any good record gives.
    fn empty(task: &Task) -> Self {
        Self {
            cells: vec![Cell::EMPTY; task.plan.columns().len()],
            from: 0,
            width: 0,
            values: Vec::new(),
            marks: Vec::new(),
            end: 0,
            record_count: 0,
            sample_count: 0,
            flaw: None,
        }
    }

    /// Whether decoding a chunk of `len` bytes took long enough, compared with reading
    /// it, that another thread would make the next ones faster.
    pub(crate) fn is_dense(&self, len: usize) -> bool {
        self.sample_count * DENSE_BYTES_PER_SAMPLE >= len as u64
    }

    /// Makes room for the moments within the chunk.
    fn reserve(&mut self, task: &Task, chunk: &Chunk) {
        let (mut begin, mut end) = (u64::MAX, 0);
        heads(chunk, task.version, |head| {
            let time = head.time.as_nanos();
            begin = begin.min(time);
            end = end.max(time);
        });
        self.from = task.window.passed(begin);
        self.width = task.window.passed(end).saturating_sub(self.from);
        self.values = vec![f64::NAN; self.width * self.cells.len()];
        self.end = end;
    }

    /// Takes in a sample at a time before which the window has `passed` moments.
    #[inline]
    fn sample(&mut self, task: &Task, column: usize, sample: RawSample, passed: usize) {
        let Some(cell) = self.cells.get_mut(column) else {
            return;
        };
        if cell.is_empty() {
            cell.first = sample;
        } else if cell.passed < passed {
            let reading = task.plan.columns()[column];
            let mark = first_after(&self.marks, cell.last.time);
            for index in cell.passed..passed {
                let value = task.value(reading, Some(cell.last), Some(sample), mark, index);
                self.values[column * self.width + index - self.from] = value;
            }
        } else if cell.last.time > sample.time {
            // Time ran backwards, which loggers do not write: the earlier record
            // counts.
            return;
        }
        cell.last = sample;
        cell.passed = passed;
    }
}

impl Decoder {
    pub(crate) fn new(task: Task) -> Self {
        Self {
            task,
            shape: Shape::default(),
        }
    }

    /// Decodes the records of `chunk`.
    pub(crate) fn decode(&mut self, chunk: &Chunk) -> Segment {
        let mut segment = Segment::empty(&self.task);
        segment.reserve(&self.task, chunk);
        let (mut bad_frame, mut bad_record) = (None, None);
        framing(self.task.version).walk(
            chunk.bytes(),
            chunk.is_last,
            |frame| {
                if let Err(problem) = self.record(frame, &mut segment) {
                    let offset = frame.at as u64;
                    bad_record.get_or_insert(Flaw { offset, problem });
                }
            },
            |flaw| {
                bad_frame.get_or_insert(flaw);
            },
        );
        segment.flaw = earlier(bad_frame, bad_record);
        segment
    }

    fn record(&mut self, frame: Frame<'_>, segment: &mut Segment) -> Result<(), Problem> {
        let head = Head::parse(frame.bytes, self.task.version)?;
        segment.record_count += 1;
        let time = head.time.as_nanos();
        if head.count == 0 {
            segment.marks.push(time);
            return Ok(());
        }
        let passed = self.task.window.passed(time);
        let mut sets = Sets {
            record: frame.bytes,
            at: sets_at(self.task.version),
            index: 0,
        };
        for _ in 0..head.count {
            if let Some(set) = sets.next()? {
                self.set(&set, frame.bytes, time, passed, segment)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn set(
        &mut self,
        set: &ValueSet<'_>,
        record: &[u8],
        time: u64,
        passed: usize,
        segment: &mut Segment,
    ) -> Result<(), Problem> {
        let Self { task, shape } = self;
        let len = set.values.len();
        let Some(slots) = shape.set(&task.plan, set.index, set.metric, len) else {
            return Ok(());
        };
        let mut is_whole = true;
        for (value, slot) in set.values.iter().zip(slots) {
            let (instance, word) = halves(*value);
            if slot.instance != instance.cast_signed() {
                *slot = Slot::find(&task.plan, set.metric, instance.cast_signed());
            }
            if slot.column == Slot::UNWANTED {
                continue;
            }
            let column = slot.column as usize;
            let value_type = task.plan.columns()[column].value_type;
            let bits = if set.format == IN_PLACE {
                bits::of_word(word, value_type)
            } else {
                block(record, word).and_then(|block| bits::of_block(block, value_type))
            };
            match bits {
                Some(bits) => {
                    segment.sample_count += 1;
                    segment.sample(task, column, RawSample { time, bits }, passed);
                }
                None => is_whole = false,
            }
        }
        if is_whole {
            Ok(())
        } else {
            Err(Problem::Outside)
        }
    }
}

/// The sets of values of one record.
struct Sets<'a> {
    record: &'a [u8],
    at: usize,
    /// Of the next set that has values.
    index: usize,
}

/// The values of one metric.
struct ValueSet<'a> {
    index: usize,
    metric: u32,
    format: u32,
    /// An instance and a word each.
    values: &'a [[u8; 8]],
}

impl<'a> Sets<'a> {
    /// The next set; `None` for one without values, or with an error instead.
    #[inline]
    fn next(&mut self) -> Result<Option<ValueSet<'a>>, Problem> {
        let head = self
            .record
            .get(self.at..)
            .and_then(|rest| rest.first_chunk());
        let (metric, count) = halves(*head.ok_or(Problem::Outside)?);
        self.at += 8;
        let count = usize::try_from(count.cast_signed()).unwrap_or(0);
        if count == 0 {
            return Ok(None);
        }
        let format = word(self.record, self.at).ok_or(Problem::Outside)?;
        let begin = self.at + 4;
        // A count has 31 bits, so this does not overflow.
        let values = self.record.get(begin..begin + 8 * count);
        let (values, _) = values.ok_or(Problem::Outside)?.as_chunks();
        self.at = begin + 8 * count;
        self.index += 1;
        Ok(Some(ValueSet {
            index: self.index - 1,
            metric,
            format,
            values,
        }))
    }
}

#[inline]
fn halves(bytes: [u8; 8]) -> (u32, u32) {
    let both = u64::from_be_bytes(bytes);
    ((both >> 32) as u32, both as u32)
}

/// The first of the ascending `marks` that is after `time`.
pub(crate) fn first_after(marks: &[u64], time: u64) -> Option<u64> {
    let before = marks.partition_point(|mark| *mark <= time);
    marks.get(before).copied()
}

/// Reading a chunk is work for one thread at a time. With fewer wanted values a chunk than
/// one in so many bytes, threads hand the reading to each other more often than they
/// decode side by side, and two take longer than one (README.md, "One pass, many threads").
const DENSE_BYTES_PER_SAMPLE: u64 = 160;
