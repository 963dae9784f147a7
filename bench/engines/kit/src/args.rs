//! The command line of an engine: words for the variant, the scenario, and
//! parameters.

/// `[VARIANT] SCENARIO key=value …`
pub struct Args {
    words: Vec<String>,
}

impl Args {
    pub fn from_command_line() -> Self {
        Self {
            words: std::env::args().skip(1).collect(),
        }
    }

    pub fn variant_and_scenario(&self) -> (&str, &str) {
        match self.plain().as_slice() {
            [variant, scenario, ..] => (variant, scenario),
            [scenario] => ("", scenario),
            [] => ("", ""),
        }
    }

    /// The parameter `key`; without it, ends the process with a message.
    pub fn number(&self, key: &str) -> u64 {
        self.optional(key)
            .unwrap_or_else(|| refuse(&format!("parameter {key}=NUMBER is missing")))
    }

    /// The parameter `key`, if it is a word.
    pub fn word(&self, key: &str) -> Option<&str> {
        let mut pairs = self.words.iter().filter_map(|word| word.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    pub fn optional(&self, key: &str) -> Option<u64> {
        let value = |word: &String| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok();
        self.words.iter().find_map(value)
    }

    fn plain(&self) -> Vec<&str> {
        self.words
            .iter()
            .map(String::as_str)
            .filter(|word| !word.contains('='))
            .collect()
    }
}

/// Ends the process: this engine does not have the scenario.
pub fn refuse(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(3);
}
