//! Work of a given length that touches no memory.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// So many steps take as long as was asked for, on this processor at this moment.
#[derive(Clone, Copy)]
pub struct Spin {
    steps: u64,
}

impl Spin {
    /// The quickest of some tries says how long a step takes: in the others something else
    /// ran, too.
    pub fn calibrated(work: Duration) -> Self {
        let time = |_| {
            let begin = Instant::now();
            spin(TRIED_STEPS);
            begin.elapsed()
        };
        let quickest = (0..TRIES).map(time).min().unwrap_or_default();
        let steps = u128::from(TRIED_STEPS) * work.as_nanos() / quickest.as_nanos().max(1);
        Self {
            steps: steps as u64,
        }
    }

    pub fn run(self) {
        spin(self.steps);
    }
}

/// Each step needs the one before.
fn spin(steps: u64) {
    let mut value = black_box(1u64);
    for _ in 0..steps {
        value = value
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    black_box(value);
}

const TRIES: u32 = 50;
const TRIED_STEPS: u64 = 100_000;
