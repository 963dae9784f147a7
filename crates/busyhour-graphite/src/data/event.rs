use crate::Window;
use serde::Serialize;

/// Something that happened at a time, which graphs show as an annotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Event {
    /// In seconds since 1970.
    pub when: i64,
    /// In a few words: the path that it comes from.
    pub what: String,
    /// The text.
    pub data: String,
    /// Words to find it by.
    pub tags: Vec<String>,
}

/// Which events are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventQuery {
    /// When they happened.
    pub window: Window,
    /// Words that their tags must include.
    pub tags: Vec<String>,
    /// Whether one of these words is enough.
    pub any_tag: bool,
    /// A request for more is refused.
    pub count_max: usize,
}

impl EventQuery {
    /// Whether events with these tags are wanted.
    ///
    /// ```
    /// use busyhour_graphite::{EventQuery, Window};
    ///
    /// let query = EventQuery {
    ///     window: Window { from: 0, until: 60 },
    ///     tags: vec!["pcp".into(), "web1".into()],
    ///     any_tag: false,
    ///     count_max: 100,
    /// };
    /// assert!(query.wants(&["pcp", "web1", "kernel.uname.release"]));
    /// assert!(!query.wants(&["pcp", "web2"]));
    /// ```
    pub fn wants(&self, tags: &[&str]) -> bool {
        let has = |tag: &String| tags.contains(&tag.as_str());
        match self.any_tag && !self.tags.is_empty() {
            true => self.tags.iter().any(has),
            false => self.tags.iter().all(has),
        }
    }
}
