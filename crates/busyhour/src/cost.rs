//! Measures the cost of a part beside the library that would be used otherwise.
//!
//! `scripts/parts.sh` runs the tests that print this; `cargo test` ignores them, since they assert nothing.

use std::time::Instant;

/// Runs both alternately, each as often as given, and prints the median time of
/// ours and the median ratio.
pub(crate) fn compare(what: &str, mut ours: impl FnMut(u64), theirs: (&str, &mut dyn FnMut(u64))) {
    const COUNT: u64 = 2_000_000;
    const ROUNDS: usize = 15;
    let timed = |run: &mut dyn FnMut(u64)| {
        let begin = Instant::now();
        run(COUNT);
        begin.elapsed().as_nanos() as f64 / COUNT as f64
    };
    let rounds = (0..ROUNDS).map(|_| (timed(&mut ours), timed(theirs.1)));
    let rounds: Vec<(f64, f64)> = rounds.collect();
    let median = |value: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    };
    println!(
        "{what}: ours {:.1} ns, {} {:.1} ns, ratio {:.2}",
        median(|(ours, _)| *ours),
        theirs.0,
        median(|(_, theirs)| *theirs),
        median(|(ours, theirs)| theirs / ours),
    );
}
