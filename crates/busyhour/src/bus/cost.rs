use super::cache::pinned;
use crate::cost::compare;
use std::hint::black_box;

/// The cost of pinning and unpinning a reader.
#[test]
#[ignore = "prints what it costs, for scripts/parts.sh"]
fn cost_of_a_pin() {
    compare(
        "pin of an epoch",
        |count| (0..count).for_each(|number| pinned(|_| _ = black_box(number))),
        ("crossbeam-epoch", &mut |count| {
            (0..count).for_each(|number| {
                let _pin = crossbeam_epoch::pin();
                black_box(number);
            });
        }),
    );
}
