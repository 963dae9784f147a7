use crate::{Semantics, Window, render::plan::Plan};

/// Turns the values of counters into their growth in a second since the
/// moment before, as `pmrep` does.
pub(crate) fn convert(plan: &Plan, window: &Window, values: &mut [f64]) {
    let seconds = window.step().as_secs_f64();
    let rows = values.chunks_exact_mut(window.count());
    for (row, reading) in rows.zip(plan.columns()) {
        if reading.semantics != Semantics::Counter {
            continue;
        }
        for index in (1..row.len()).rev() {
            let delta = row[index] - row[index - 1];
            let grown = if delta < 0.0 {
                reading.unwrap(delta).unwrap_or(f64::NAN)
            } else {
                delta
            };
            row[index] = grown / seconds;
        }
        if let Some(first) = row.first_mut() {
            *first = f64::NAN;
        }
    }
}
