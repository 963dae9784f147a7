use busyhour_pcp::{Archive, SeriesId};
use globset::{Glob, GlobMatcher};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Which series are wanted.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    patterns: Arc<[Pattern]>,
}

#[derive(Debug)]
struct Pattern {
    text: String,
    glob: GlobMatcher,
    has_matched: AtomicBool,
}

impl Selection {
    /// Without a pattern, selects all series; otherwise those that match any pattern.
    pub(super) fn new(patterns: &[String]) -> Result<Self, String> {
        let patterns = patterns.iter().map(|text| {
            let glob = Glob::new(text);
            let glob = glob.map_err(|error| format!("--metrics {text}: {}", error.kind()))?;
            Ok(Pattern {
                text: text.clone(),
                glob: glob.compile_matcher(),
                has_matched: AtomicBool::new(false),
            })
        });
        Ok(Self {
            patterns: patterns.collect::<Result<_, String>>()?,
        })
    }

    /// The patterns that have matched in no archive so far.
    pub(super) fn unmatched(&self) -> impl Iterator<Item = &str> {
        let patterns = self.patterns.iter();
        let unmatched = patterns.filter(|pattern| !pattern.has_matched.load(Ordering::Relaxed));
        unmatched.map(|pattern| &*pattern.text)
    }

    /// The selected series of one archive.
    pub(super) fn of(&self, archive: &Archive) -> Vec<SeriesId> {
        let mut series = archive.series();
        if !self.patterns.is_empty() {
            series.retain(|id| self.wants(archive, *id));
        }
        series
    }

    /// Tries every pattern, so that a pattern that never matches is known.
    fn wants(&self, archive: &Archive, id: SeriesId) -> bool {
        let names = &archive.metrics()[id.metric].names;
        let full = series_name(archive, id);
        let mut is_wanted = false;
        for pattern in self.patterns.iter() {
            let is_match = |name: &str| pattern.glob.is_match(name);
            if names.iter().any(|name| is_match(name)) || is_match(&full) {
                pattern.has_matched.store(true, Ordering::Relaxed);
                is_wanted = true;
            }
        }
        is_wanted
    }
}

/// The metric's name, with its instance in brackets if it has instances.
pub(super) fn series_name(archive: &Archive, id: SeriesId) -> String {
    let metric = &archive.metrics()[id.metric];
    match metric.domain {
        None => metric.name().to_owned(),
        Some(_) => format!("{}[{}]", metric.name(), metric.instances[id.instance].name),
    }
}
