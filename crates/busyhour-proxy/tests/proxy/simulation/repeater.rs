//! A message that is sent again until something comes back (RFC 3261 §17).

/// Times are milliseconds.
#[derive(Debug, Clone)]
pub struct Repeater {
    pub text: String,
    pub due: u64,
    interval: u64,
    longest: u64,
    pub ends: u64,
}

impl Repeater {
    pub fn start(now: u64, text: &str, longest: u64) -> Self {
        Self {
            text: text.to_owned(),
            due: now + 500,
            interval: 500,
            longest,
            ends: now + 32_000,
        }
    }

    /// What is sent now.
    pub fn take(&mut self, now: u64) -> Option<String> {
        if self.due > now || self.is_over(now) {
            return None;
        }
        self.interval = (2 * self.interval).min(self.longest);
        self.due = now + self.interval;
        Some(self.text.clone())
    }

    pub fn is_over(&self, now: u64) -> bool {
        self.ends <= now
    }
}
