//! The result of `digest` as one number.

use crate::Output;

/// Each value counts by which series it belongs to and at which step.
#[derive(Debug, Default)]
pub struct DigestSum {
    count: u64,
    sum: f64,
}

impl DigestSum {
    /// NaN says that there is no value.
    pub fn add(&mut self, series: u64, step: u64, value: f64) {
        if !value.is_nan() {
            self.count += 1;
            self.sum += value * (1 + (series * 31 + step) % 97) as f64;
        }
    }

    /// Prints the lines of `digest`, among them how many there were of `what`.
    pub fn report(&self, digest_ms: f64, what: &'static str, count: u64) {
        let mut output = Output::default();
        output.figure("digest_ms", digest_ms);
        output.check(what, count);
        output.check("values", self.count);
        output.check_real("sum", self.sum);
        output.finish();
    }
}
