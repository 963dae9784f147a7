//! Joining decoded chunks in their order: what lies between the last sample
//! of one and the first of the next.

use crate::{
    Semantics,
    error::Flaw,
    render::segment::{RawSample, Segment, Task, first_after},
};

/// All columns, as far as the chunks were joined.
#[derive(Debug)]
pub(crate) struct Merge {
    task: Task,
    joints: Vec<Joint>,
    /// By column, a value for each moment; NaN where there is none.
    values: Vec<f64>,
    marks: Vec<u64>,
    pub(crate) record_count: u64,
    /// The first damage, with its volume.
    pub(crate) flaw: Option<(usize, Flaw)>,
}

/// Where one column ends for now.
#[derive(Debug, Clone, Copy, Default)]
struct Joint {
    first: Option<RawSample>,
    last: Option<RawSample>,
    /// Moments at or before it.
    passed: usize,
}

impl Merge {
    pub(crate) fn new(task: Task) -> Self {
        let column_count = task.plan.columns().len();
        Self {
            joints: vec![Joint::default(); column_count],
            values: vec![f64::NAN; column_count * task.window.count()],
            marks: Vec::new(),
            record_count: 0,
            flaw: None,
            task,
        }
    }

    /// Joins the chunk that follows the last one, and says whether a later
    /// one can still change anything.
    pub(crate) fn add(&mut self, segment: &Segment, volume: usize) -> bool {
        self.marks.extend(&segment.marks);
        self.record_count += segment.record_count;
        if self.flaw.is_none() {
            self.flaw = segment.flaw.map(|flaw| (volume, flaw));
        }
        for column in 0..self.joints.len() {
            self.join(segment, column);
        }
        segment.end < self.task.window.until().as_nanos() || self.is_open()
    }

    fn join(&mut self, segment: &Segment, column: usize) {
        let cell = segment.cells[column];
        if cell.is_empty() {
            return;
        }
        let joint = self.joints[column];
        let first = self.task.window.passed(cell.first.time).max(joint.passed);
        self.bridge(column, first, Some(cell.first));
        let last = cell.passed.max(first);
        if first < last {
            let row = column * self.task.window.count();
            let local = column * segment.width;
            self.values[row + first..row + last].copy_from_slice(
                &segment.values[local + first - segment.from..local + last - segment.from],
            );
        }
        self.joints[column] = Joint {
            first: joint.first.or(Some(cell.first)),
            last: Some(cell.last),
            passed: last,
        };
    }

    /// Columns whose value at the window's start depends on a sample before
    /// those that were joined.
    pub(crate) fn without_prior(&self) -> Vec<usize> {
        let from = self.task.window.from().as_nanos();
        let joints = self.joints.iter().enumerate();
        joints
            .filter(|(_, joint)| joint.first.is_none_or(|first| first.time > from))
            .map(|(column, _)| column)
            .collect()
    }

    /// Takes in the last sample of a column before those that were joined,
    /// with no mark between.
    pub(crate) fn precede(&mut self, column: usize, prior: RawSample) {
        let joint = &mut self.joints[column];
        let Some(first) = joint.first else {
            joint.last = Some(prior);
            return;
        };
        let reading = self.task.plan.columns()[column];
        let mark = first_after(&self.marks, prior.time);
        let row = column * self.task.window.count();
        for index in 0..self.task.window.passed(first.time) {
            let value = self
                .task
                .value(reading, Some(prior), Some(first), mark, index);
            self.values[row + index] = value;
        }
    }

    /// Fills the moments after the column's last sample, up to number `until`.
    fn bridge(&mut self, column: usize, until: usize, next: Option<RawSample>) {
        let Joint { last, passed, .. } = self.joints[column];
        let reading = self.task.plan.columns()[column];
        let mark = last.and_then(|last| first_after(&self.marks, last.time));
        let row = column * self.task.window.count();
        for index in passed..until {
            self.values[row + index] = self.task.value(reading, last, next, mark, index);
        }
    }

    /// Whether a column still waits for a sample at the window's end or after it.
    /// None does after a mark behind the end.
    fn is_open(&self) -> bool {
        let until = self.task.window.until().as_nanos();
        if self.marks.last().is_some_and(|mark| *mark > until) {
            return false;
        }
        let readings = self.task.plan.columns();
        self.joints.iter().zip(readings).any(|(joint, reading)| {
            reading.semantics != Semantics::Discrete && joint.passed < self.task.window.count()
        })
    }

    /// The values as pmFetch(3) gives them in interpolation mode, from an
    /// archive that ends at `end`.
    pub(crate) fn finish(mut self, end: u64) -> Vec<f64> {
        let until = self.task.window.passed(end.saturating_add(SLOP_NANOS));
        for column in 0..self.joints.len() {
            if self.joints[column].passed < until {
                self.bridge(column, until, None);
            }
        }
        if !self.marks.is_empty() {
            self.cut_counters();
        }
        self.values
    }

    /// A counter that had a value has none at the first point after a mark, so that no
    /// rate is computed across it.
    fn cut_counters(&mut self) {
        let count = self.task.window.count();
        let cuts: Vec<usize> = self.marks.iter().map(|mark| self.moment(*mark)).collect();
        for group in self.task.plan.groups() {
            let is_counter =
                |column: &usize| self.task.plan.columns()[*column].semantics == Semantics::Counter;
            if !group
                .clone()
                .next()
                .is_some_and(|column| is_counter(&column))
            {
                continue;
            }
            for cut in cuts.iter().filter(|cut| (1..count).contains(*cut)) {
                let had_value = |column: usize| !self.values[column * count + cut - 1].is_nan();
                if group.clone().any(had_value) {
                    for column in group.clone() {
                        self.values[column * count + cut] = f64::NAN;
                    }
                }
            }
        }
    }

    /// The first moment at or after `time`.
    fn moment(&self, time: u64) -> usize {
        let passed = self.task.window.passed(time);
        let is_exact = passed > 0 && self.task.window.nanos(passed - 1) == time;
        passed - usize::from(is_exact)
    }
}

/// How far past the last record libpcp still answers.
const SLOP_NANOS: u64 = 1_000_000;
