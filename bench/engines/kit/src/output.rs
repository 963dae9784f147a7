//! The lines that an engine prints.

/// Collects checks; figures are printed at once.
#[derive(Default)]
pub struct Output {
    checks: Vec<(&'static str, u64)>,
}

impl Output {
    pub fn figure(&self, metric: &str, value: f64) {
        println!("{{\"metric\":\"{metric}\",\"value\":{value:.4}}}");
    }

    pub fn check(&mut self, name: &'static str, value: u64) {
        self.checks.push((name, value));
    }

    /// Prints the checks, the last line.
    pub fn finish(self) {
        let pairs: Vec<String> = self
            .checks
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        println!("{{\"checks\":{{{}}}}}", pairs.join(","));
    }
}
