//! The result of `digest` as one number.

use crate::Output;

/// Each value counts with its series and its step.
#[derive(Debug, Default)]
pub struct DigestSum {
    count: u64,
    sum: f64,
}

impl DigestSum {
    /// Adds a value; NaN means that there is none.
    pub fn add(&mut self, series: u64, step: u64, value: f64) {
        if !value.is_nan() {
            self.count += 1;
            self.sum += value * (1 + (series * 31 + step) % 97) as f64;
        }
    }

    /// Prints the lines of `digest`, including the count of `what`.
    pub fn report(&self, digest_ms: f64, what: &'static str, count: u64) {
        let mut output = Output::default();
        output.figure("digest_ms", digest_ms);
        output.check(what, count);
        output.check("values", self.count);
        output.check_real("sum", self.sum);
        output.finish();
    }
}
