//! Settings that the follower has not taken: they are told again, and that costs little.
//!
//! What is refused now may be taken later: a table that is full gets room. So a refused setting is
//! read again with each look that has news, and otherwise ever more seldom. Those beyond a bound are
//! not remembered by name; while there are some, all settings are read, and only in the seldom looks.

use super::SettingKey;
use std::collections::BTreeMap;

/// What was refused, and why.
#[derive(Debug, Default)]
pub(super) struct RefusedSettings {
    reasons: BTreeMap<SettingKey, String>,
    /// There are more than have room here.
    are_more: bool,
    /// Looks until they are tried again, and how many that were the last time.
    rest: u32,
    pause: u32,
}

impl RefusedSettings {
    /// A look begins. Whether what was refused is tried again though nothing has changed.
    pub(super) fn begin_look(&mut self) -> bool {
        if self.reasons.is_empty() && !self.are_more {
            (self.rest, self.pause) = (0, 0);
            return false;
        }
        self.rest = self.rest.saturating_sub(1);
        if self.rest > 0 {
            return false;
        }
        self.pause = (self.pause * 2).clamp(1, PAUSE_MAX);
        self.rest = self.pause;
        true
    }

    /// The names of those that are remembered.
    pub(super) fn names(&self) -> Vec<SettingKey> {
        self.reasons.keys().cloned().collect()
    }

    /// Whether some are not remembered by name.
    pub(super) fn are_more(&self) -> bool {
        self.are_more
    }

    /// All settings are told now, and there are no others.
    pub(super) fn begin_all(&mut self, is_there: impl Fn(&SettingKey) -> bool) {
        self.are_more = false;
        self.reasons.retain(|key, _| is_there(key));
    }

    pub(super) fn taken(&mut self, key: &SettingKey) {
        self.reasons.remove(key);
    }

    /// Whether that is news.
    pub(super) fn refused(&mut self, key: &SettingKey, reason: &str) -> bool {
        if self.reasons.get(key).is_some_and(|known| known == reason) {
            return false;
        }
        if self.reasons.len() >= COUNT_MAX && !self.reasons.contains_key(key) {
            return !std::mem::replace(&mut self.are_more, true);
        }
        self.reasons.insert(key.clone(), reason.to_owned());
        true
    }

    /// How many there are, as far as they are remembered.
    pub(super) fn len(&self) -> usize {
        self.reasons.len()
    }
}

/// Those that are remembered by name; a look at so many takes some milliseconds.
pub(super) const COUNT_MAX: usize = 1000;
/// A look is made once a second.
const PAUSE_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SettingKind;

    fn key(number: usize) -> SettingKey {
        (SettingKind::List, format!("list-{number}"))
    }

    #[test]
    fn what_was_refused_is_tried_ever_more_seldom() {
        let mut refused = RefusedSettings::default();
        assert!(!refused.begin_look());
        assert!(refused.refused(&key(1), "full"));
        assert!(!refused.refused(&key(1), "full"), "that was known");
        let tried: Vec<usize> = (0..300).filter(|_| refused.begin_look()).collect();
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255]);
        refused.taken(&key(1));
        assert!(!refused.begin_look());
        assert!(refused.refused(&key(2), "full"));
        assert!(refused.begin_look(), "what is new is tried again soon");
    }

    #[test]
    fn beyond_a_bound_they_are_not_remembered_by_name() {
        let mut refused = RefusedSettings::default();
        let told = (0..2 * COUNT_MAX).filter(|number| refused.refused(&key(*number), "full"));
        assert_eq!(told.count(), COUNT_MAX + 1, "once for all the others");
        assert_eq!(refused.len(), COUNT_MAX);
        assert!(refused.are_more());
        refused.begin_all(|there| *there == key(7));
        assert!(!refused.are_more());
        assert_eq!(refused.names(), [key(7)]);
    }
}
