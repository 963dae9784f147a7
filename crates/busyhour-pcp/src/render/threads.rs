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
    for _ in 0..count {
        if pool.push(work.clone()).is_err() {
            break;
        }
    }
}

/// Asked once: on Linux each answer reads the files of the control groups.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
}
