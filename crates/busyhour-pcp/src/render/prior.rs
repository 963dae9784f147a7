//! Reading back from where a pass began, for series that had no sample yet at
//! the window's start.

use crate::{
    Damage, Error, Metric, SeriesId, StopCheck, Window,
    read::place::Places,
    render::{
        merge::Merge,
        plan::Plan,
        segment::{Decoder, RawSample, Task},
    },
};
use busyhour::buffer::BufferPool;
use std::{ops::Range, sync::Arc, time::Duration};

/// What a reading back needs.
pub(crate) struct Priors<'a> {
    pub(crate) places: &'a Places,
    pub(crate) buffers: &'a BufferPool,
    pub(crate) metrics: &'a [Metric],
    pub(crate) series: &'a [SeriesId],
    /// Of the pass.
    pub(crate) task: &'a Task,
    pub(crate) stop: &'a StopCheck,
    pub(crate) bytes_read: u64,
    /// The first damage on the way.
    pub(crate) damage: Option<Damage>,
}

/// The records between two places.
struct Block {
    /// By wanted column.
    lasts: Vec<Option<RawSample>>,
    is_marked: bool,
}

impl Priors<'_> {
    /// Gives `merge` the sample before the place number `begin` for each column that
    /// needs one. Nothing is interpolated across a mark, so the search ends at a mark.
    pub(crate) fn complete(&mut self, merge: &mut Merge, begin: usize) -> Result<(), Error> {
        let mut wanted = merge.without_prior();
        let (mut end, mut stride) = (begin, 1);
        while end > 0 && !wanted.is_empty() {
            let below = (end + 1).saturating_sub(stride);
            let from = self.task.window.from();
            let begin = self.places.last_until(from, below, &mut self.bytes_read);
            let block = self.block(&wanted, begin..end)?;
            let mut lasts = block.lasts.into_iter();
            wanted.retain(|column| match lasts.next().flatten() {
                Some(last) => {
                    merge.precede(*column, last);
                    false
                }
                None => true,
            });
            if block.is_marked {
                break;
            }
            end = begin;
            // A series that was logged once, long ago, is found in few steps.
            stride *= 2;
        }
        Ok(())
    }

    fn block(&mut self, wanted: &[usize], part: Range<usize>) -> Result<Block, Error> {
        let mut block = Block {
            lasts: vec![None; wanted.len()],
            is_marked: false,
        };
        let mut decoder = Decoder::new(self.task_for(wanted));
        let mut volumes = self.places.volumes(part).until(self.stop);
        let mut spare = None;
        while let Some(chunk) = volumes.next(self.buffers, spare.take())? {
            let segment = decoder.decode(&chunk);
            for (last, cell) in block.lasts.iter_mut().zip(&segment.cells) {
                if !cell.is_empty() {
                    *last = Some(cell.last);
                }
            }
            if let Some(mark) = segment.marks.last() {
                block.cut(*mark);
            }
            if let Some(mut flaw) = segment.flaw {
                flaw.offset += chunk.offset;
                let damage = flaw.of(volumes.path(chunk.volume));
                volumes.damage.get_or_insert(damage);
            }
            spare = Some(chunk.into_spare());
        }
        self.bytes_read += volumes.bytes_read;
        self.damage = volumes.damage.or(self.damage.take());
        Ok(block)
    }

    /// The same, for these columns and one moment: only samples are wanted.
    fn task_for(&self, columns: &[usize]) -> Task {
        let series = columns.iter().map(|column| self.series[*column]);
        let series: Vec<SeriesId> = series.collect();
        let from = self.task.window.from();
        Task {
            plan: Arc::new(Plan::new(self.metrics, &series, false)),
            window: Window::new(from, from, Duration::from_secs(1)),
            ..self.task.clone()
        }
    }
}

impl Block {
    fn cut(&mut self, mark: u64) {
        self.is_marked = true;
        for last in &mut self.lasts {
            *last = last.filter(|last| last.time >= mark);
        }
    }
}
