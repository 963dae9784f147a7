use super::LatenessHistogram;
use crate::cost::compare;
use hdrhistogram::Histogram;
use std::hint::black_box;

/// Durations from a microsecond to a second.
#[test]
#[ignore = "prints what it costs, for scripts/parts.sh"]
fn cost_of_a_recorded_duration() {
    let mut ours = LatenessHistogram::new();
    let Ok(mut theirs) = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 1) else {
        unreachable!("its bounds are in order");
    };
    println!(
        "the other histogram takes {} bytes",
        8 * theirs.distinct_values()
    );
    let nanos =
        |number: u64| 1_000 + black_box(number).wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000_000;
    compare(
        "duration in a histogram",
        |count| (0..count).for_each(|number| ours.record(nanos(number))),
        ("hdrhistogram", &mut |count| {
            (0..count).for_each(|number| theirs.saturating_record(nanos(number)));
        }),
    );
}
