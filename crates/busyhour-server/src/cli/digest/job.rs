use super::{
    Failure, Output, Selection, TimeArgument,
    progress::{Progress, REDRAW},
};
use busyhour::{buffer::BufferPool, pool::TaskPool};
use busyhour_pcp::{Archive, Error, RenderOptions, Rendering, Window};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

/// How each archive is rendered.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) from: Option<TimeArgument>,
    pub(super) until: Option<TimeArgument>,
    pub(super) step: Duration,
    pub(super) selection: Selection,
    pub(super) options: RenderOptions,
    pub(super) buffers: BufferPool,
    pub(super) pool: TaskPool,
    /// Whether the values are kept, or only their number.
    pub(super) keeps_values: bool,
}

/// One archive, rendered.
pub(super) struct Digested {
    pub(super) archive: Archive,
    pub(super) series_count: usize,
    pub(super) took: Duration,
    /// Absent if only the number is wanted.
    pub(super) rendering: Option<Rendering>,
    /// The first damage in any of its files.
    pub(super) damage: Option<Error>,
}

type Outcome = (usize, Result<Digested, Error>);

impl Job {
    /// Renders `archives` on the pool and gives them to `output` in their order.
    ///
    /// With values, no more than a few archives for each thread are held at a time.
    pub(super) fn run(
        self,
        archives: Vec<PathBuf>,
        threads: usize,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let progress = Progress::new(archives.len());
        let batch_len = match self.keeps_values {
            true => threads * ARCHIVES_A_THREAD,
            false => archives.len(),
        };
        let mut problems = Vec::new();
        let mut names = BTreeSet::new();
        let mut bytes_read = 0;
        for batch in archives.chunks(batch_len) {
            let digested = self.batch(batch, &progress, &mut bytes_read);
            for outcome in digested {
                match outcome {
                    Ok(digested) => {
                        problems.extend(digested.damage.clone());
                        if self.selection.unmatched().next().is_some() {
                            let metrics = digested.archive.metrics().iter();
                            names.extend(metrics.flat_map(|metric| metric.names.iter().cloned()));
                        }
                        output.add(&digested).map_err(Failure::running)?;
                    }
                    Err(error) => problems.push(error),
                }
            }
        }
        progress.finish();
        let unmatched = self.selection.unmatched();
        let unmatched: Vec<String> = unmatched.map(|text| no_metric(text, &names)).collect();
        match problems.is_empty() {
            true if !unmatched.is_empty() => Err(Failure::usage(unmatched.join("\n"))),
            true => Ok(()),
            false => Err(Failure::running(lines(&problems))),
        }
    }

    fn batch(
        &self,
        archives: &[PathBuf],
        progress: &Progress,
        bytes_read: &mut u64,
    ) -> Vec<Result<Digested, Error>> {
        let (sender, receiver) = mpsc::channel();
        for (index, path) in archives.iter().enumerate() {
            let (job, path, sender) = (self.clone(), path.clone(), sender.clone());
            let pushed = self.pool.push(move || {
                // If the receiver is gone, no one waits for the result any more.
                let _ = sender.send((index, job.digest(&path)));
            });
            debug_assert!(pushed.is_ok(), "the pool has no bound and runs");
        }
        drop(sender);
        let mut outcomes = receive(
            &receiver,
            |outcome| {
                if let Ok(digested) = &outcome.1 {
                    *bytes_read += digested.archive.volume_bytes();
                }
                progress.advance(*bytes_read >> 20);
            },
            || progress.tick(),
        );
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    fn digest(&self, path: &Path) -> Result<Digested, Error> {
        let begin = Instant::now();
        let archive = Archive::open(path, &self.buffers)?;
        let from = self.from.map(|moment| moment.resolve(&archive));
        let until = self.until.map(|moment| moment.resolve(&archive));
        let window = Window::new(
            from.unwrap_or(archive.start()),
            until.unwrap_or(archive.end()),
            self.step,
        );
        let series = self.selection.of(&archive);
        let rendering = archive.render(&series, window, self.options, Some(&self.pool))?;
        let damage = archive.damage().or(rendering.damage()).cloned();
        Ok(Digested {
            series_count: series.len(),
            took: begin.elapsed(),
            damage: damage.map(Error::from),
            rendering: self.keeps_values.then_some(rendering),
            archive,
        })
    }
}

fn receive(
    receiver: &Receiver<Outcome>,
    mut on_outcome: impl FnMut(&Outcome),
    on_wait: impl Fn(),
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    loop {
        match receiver.recv_timeout(REDRAW) {
            Ok(outcome) => {
                on_outcome(&outcome);
                outcomes.push(outcome);
            }
            Err(RecvTimeoutError::Timeout) => on_wait(),
            Err(RecvTimeoutError::Disconnected) => return outcomes,
        }
    }
}

/// A pattern that matches nothing is usually a typing mistake.
fn no_metric(pattern: &str, names: &BTreeSet<String>) -> String {
    let likeness = |name: &&String| (strsim::jaro_winkler(pattern, name) * 1000.0) as u32;
    let nearest = names.iter().max_by_key(likeness);
    let nearest = nearest.filter(|name| likeness(name) > LIKE_ENOUGH);
    let hint = nearest.map_or(String::new(), |name| format!(" (did you mean {name}?)"));
    format!("--metrics {pattern}: no numeric metric matches{hint}")
}

fn lines(problems: &[Error]) -> String {
    let lines: Vec<String> = problems.iter().map(Error::to_string).collect();
    lines.join("\n")
}

/// Out of a thousand.
const LIKE_ENOUGH: u32 = 800;
/// Enough archives that threads do not wait for each other at the end of every batch.
const ARCHIVES_A_THREAD: usize = 4;
