use busyhour::pool::TaskPool;
use std::{num::NonZeroUsize, sync::OnceLock, thread};

/// How many workers of a pool to ask for help with `parts` parts of a work, beside the
/// thread that calls: at most `threads` threads work on it, and never more than the
/// machine has cores.
pub(crate) fn helper_count(threads: usize, parts: usize) -> usize {
    threads.min(cores()).saturating_sub(1).min(parts)
}

/// Asks `count` workers to run `work`. A pool that takes no task leaves the work to the
/// caller.
pub(crate) fn ask(pool: &TaskPool, count: usize, work: impl Fn() + Clone + Send + 'static) {
    (0..count).for_each(|_| ask_one(pool, work.clone()));
}

/// Asks one worker. The work may last for a while, so another thread takes the worker's
/// place meanwhile: what else the pool has to do waits for no archive.
pub(crate) fn ask_one(pool: &TaskPool, work: impl FnOnce() + Send + 'static) {
    let place = pool.clone();
    // A task that is refused is dropped, and the caller does its part.
    let _ = pool.push(move || place.blocking(work));
}

/// Asked once: on Linux each answer reads the files of the control groups.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
}
