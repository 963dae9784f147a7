//! The lines that an engine prints.

/// Collects checks; figures are printed immediately.
#[derive(Default)]
pub struct Output {
    checks: Vec<(&'static str, u64)>,
    reals: Vec<(&'static str, f64)>,
}

impl Output {
    pub fn figure(&self, metric: &str, value: f64) {
        println!("{{\"metric\":\"{metric}\",\"value\":{value:.4}}}");
    }

    pub fn check(&mut self, name: &'static str, value: u64) {
        self.checks.push((name, value));
    }

    /// A check that is no integer; it is printed with enough digits to be exact.
    pub fn check_real(&mut self, name: &'static str, value: f64) {
        self.reals.push((name, value));
    }

    /// Prints the checks as the last line.
    pub fn finish(self) {
        let whole = self.checks.iter();
        let whole = whole.map(|(name, value)| format!("\"{name}\":{value}"));
        let reals = self.reals.iter();
        let reals = reals.map(|(name, value)| format!("\"{name}\":{value:e}"));
        let pairs: Vec<String> = whole.chain(reals).collect();
        println!("{{\"checks\":{{{}}}}}", pairs.join(","));
    }
}
