//! Mailboxes, hints and lists that several servers on one database set: what has become of each.
//!
//! **Each server ends with what the database has.** A server applies its own change at once, and the
//! database decides the order. So each change that the database counts is read, by name, and told,
//! whoever made it. What was read before a change of our own, and is told after it, would undo that
//! change for a moment. Therefore a setting is *ours* from before its change is given to the store
//! until a look has begun after the answer; meanwhile nothing is told of it, and it is *unsure*: the
//! next look reads it by its name, as it does after a change that failed. Whoever takes a setting
//! asks whether it is ours under the lock under which changes are given to the store, so none comes
//! in between. What the follower has refused is told again ([`RefusedSettings`]).

use super::refused_settings::RefusedSettings;
use crate::{Change, Completion, SettingFollower, SettingKind, SettingRefused};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

/// Which setting.
pub(crate) type SettingKey = (SettingKind, String);

/// The one follower of a store, and what it knows.
#[derive(Default)]
pub(crate) struct FollowedSettings(Mutex<FollowState>);

#[derive(Default)]
struct FollowState {
    follower: Option<Arc<dyn SettingFollower>>,
    /// What the follower knows.
    revision: u64,
    /// How many changes of each are on their way; 0 if they have ended since the last look began.
    ours: BTreeMap<SettingKey, usize>,
    /// What the next look has to read, whether it has changed or not.
    unsure: BTreeSet<SettingKey>,
    /// How often those were too many to remember, so that all have to be read.
    overflows: u64,
    /// What `overflows` was when all were read.
    overflows_read: u64,
    refused: RefusedSettings,
}

/// What a look has to read for the follower.
pub(crate) struct SettingsToRead {
    pub(crate) follower: Arc<dyn SettingFollower>,
    pub(crate) revision: u64,
    pub(crate) unsure: Vec<SettingKey>,
    /// What the follower has refused, which is worth another try if anything has changed.
    refused: Vec<SettingKey>,
    /// Or though nothing has changed.
    is_retry_due: bool,
    reads_all: bool,
    overflows: u64,
}

impl SettingsToRead {
    /// Whether there is something to read while the database counts this revision.
    pub(crate) fn has_news(&self, revision: u64) -> bool {
        let is_unsure = !self.unsure.is_empty() || self.is_retry_due;
        self.revision != revision || is_unsure || self.reads_all
    }

    /// From which revision on changes are read; `None` if everything has to be.
    pub(crate) fn known(&self) -> Option<u64> {
        (!self.reads_all).then_some(self.revision)
    }

    /// What has to be read whether it has changed or not.
    pub(crate) fn named(&self) -> Vec<SettingKey> {
        let named = self.unsure.iter().chain(&self.refused);
        let named: BTreeSet<&SettingKey> = named.collect();
        named.into_iter().cloned().collect()
    }
}

impl FollowedSettings {
    /// Sets the follower, which knows the settings of `revision`, or not all of any.
    pub(crate) fn start(&self, revision: Option<u64>, follower: Box<dyn SettingFollower>) {
        let mut state = self.lock();
        state.follower = Some(follower.into());
        match revision {
            Some(revision) => state.revision = revision,
            None => state.overflows += 1,
        }
    }

    /// A look begins: what is read from now on has all changes of ours that have an answer. `None`
    /// if nobody follows.
    pub(crate) fn begin_look(&self) -> Option<SettingsToRead> {
        let mut state = self.lock();
        state.ours.retain(|_, under_way| *under_way > 0);
        let follower = state.follower.clone()?;
        let is_retry_due = state.refused.begin_look();
        let are_more_refused = is_retry_due && state.refused.are_more();
        Some(SettingsToRead {
            follower,
            revision: state.revision,
            unsure: state.unsure.iter().cloned().collect(),
            refused: state.refused.names(),
            is_retry_due,
            reads_all: state.overflows != state.overflows_read || are_more_refused,
            overflows: state.overflows,
        })
    }

    /// All settings of the follower are told now, and there are no others.
    pub(crate) fn begin_all(&self, is_there: impl Fn(&SettingKey) -> bool) {
        self.lock().refused.begin_all(is_there);
    }

    /// Everything that was wanted was told, as it was at this revision.
    pub(crate) fn caught_up(&self, wanted: &SettingsToRead, revision: u64) {
        wanted.follower.caught_up();
        let mut state = self.lock();
        state.revision = revision;
        if wanted.reads_all {
            state.overflows_read = wanted.overflows;
        }
    }

    /// How many settings the follower has refused, as far as they are remembered.
    pub(crate) fn refused_len(&self) -> usize {
        self.lock().refused.len()
    }

    /// Tells what was read of a setting, unless it is ours.
    pub(crate) fn tell(
        &self,
        follower: &dyn SettingFollower,
        key: SettingKey,
        value: Option<&str>,
    ) {
        let is_ours = || self.lock().ours.contains_key(&key);
        let taken = match is_ours() {
            true => Ok(()),
            false => follower.take(key.0, &key.1, value, &is_ours),
        };
        let mut state = self.lock();
        if state.ours.contains_key(&key) {
            return state.must_read(key);
        }
        state.unsure.remove(&key);
        let refused = &mut state.refused;
        match taken {
            Ok(()) => refused.taken(&key),
            Err(SettingRefused(reason)) => {
                if refused.refused(&key, &reason) {
                    drop(state);
                    warn_of_refused(&key, &reason);
                }
            }
        }
    }

    /// These changes are about to be given to the store: the completion to give with them.
    pub(crate) fn note(self: &Arc<Self>, changes: &[Change], done: Completion) -> Completion {
        let Some(ours) = self.begin(changes) else {
            return done;
        };
        Box::new(move |outcome| {
            ours.end(outcome.is_ok());
            done(outcome);
        })
    }

    fn begin(self: &Arc<Self>, changes: &[Change]) -> Option<OursUnderWay> {
        let settings = changes.iter().filter_map(Change::setting);
        let mut settings = settings.filter(|(kind, _)| kind.is_counted()).peekable();
        settings.peek()?;
        let mut state = self.lock();
        let follower = state.follower.clone()?;
        let followed = settings.filter(|(kind, _)| follower.kinds().contains(kind));
        let keys: Vec<SettingKey> = followed.map(|(kind, name)| (kind, name.into())).collect();
        for key in &keys {
            *state.ours.entry(key.clone()).or_default() += 1;
        }
        Some(OursUnderWay {
            settings: self.clone(),
            keys,
            is_stored: false,
        })
    }

    fn lock(&self) -> MutexGuard<'_, FollowState> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl FollowState {
    /// Too many names are not remembered: then all settings are read, once.
    fn must_read(&mut self, key: SettingKey) {
        if self.unsure.len() >= UNSURE_MAX && !self.unsure.contains(&key) {
            self.unsure.clear();
            self.overflows += 1;
        }
        self.unsure.insert(key);
    }
}

fn warn_of_refused((kind, name): &SettingKey, reason: &str) {
    let kind = kind.name();
    tracing::warn!(
        event = "setting_of_another_node_has_no_effect",
        kind,
        name,
        reason,
        "a setting of another node has no effect here; it is tried again"
    );
}

/// Settings that are ours until it is dropped: with the answer of the store, or because the store
/// did not take them.
struct OursUnderWay {
    settings: Arc<FollowedSettings>,
    keys: Vec<SettingKey>,
    is_stored: bool,
}

impl OursUnderWay {
    fn end(mut self, is_stored: bool) {
        self.is_stored = is_stored;
    }
}

impl Drop for OursUnderWay {
    fn drop(&mut self) {
        let mut state = self.settings.lock();
        for key in self.keys.drain(..) {
            if let Some(under_way) = state.ours.get_mut(&key) {
                *under_way -= 1;
            }
            if !self.is_stored {
                state.must_read(key);
            }
        }
    }
}

/// Changes that failed, as while the database is away, and of which nothing is known.
const UNSURE_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommitError;

    /// What was told, and taken.
    #[derive(Default)]
    struct Told(Mutex<Vec<Option<String>>>);

    const UNWANTED: &str = "unwanted";

    impl SettingFollower for Arc<Told> {
        fn kinds(&self) -> &[SettingKind] {
            &[SettingKind::Hint]
        }

        fn names(&self, _: SettingKind) -> Vec<String> {
            Vec::new()
        }

        fn take(
            &self,
            _: SettingKind,
            _: &str,
            value: Option<&str>,
            _: &dyn Fn() -> bool,
        ) -> Result<(), SettingRefused> {
            if value == Some(UNWANTED) {
                return Err(SettingRefused(UNWANTED.to_owned()));
            }
            self.0.lock().unwrap().push(value.map(str::to_owned));
            Ok(())
        }
    }

    fn key() -> SettingKey {
        (SettingKind::Hint, "100".to_owned())
    }

    fn following() -> (Arc<FollowedSettings>, Arc<Told>) {
        let (settings, told) = (
            Arc::new(FollowedSettings::default()),
            Arc::new(Told::default()),
        );
        settings.start(Some(1), Box::new(told.clone()));
        (settings, told)
    }

    fn begin(settings: &Arc<FollowedSettings>) -> Completion {
        let (kind, name) = key();
        let value = "ours".to_owned();
        let put = Change::PutSetting { kind, name, value };
        settings.note(&[put], Box::new(|_| {}))
    }

    fn unsure(settings: &FollowedSettings) -> Vec<SettingKey> {
        settings.begin_look().expect("somebody follows").unsure
    }

    #[test]
    fn what_was_read_before_our_own_change_is_read_again_and_not_told() {
        let (settings, told) = following();
        let wanted = settings.begin_look().unwrap();
        let done = begin(&settings);
        let tell = |value| settings.tell(&*wanted.follower, key(), value);
        tell(Some("older"));
        done(Ok(()));
        // It may have been read before that.
        tell(Some("older"));
        assert!(told.0.lock().unwrap().is_empty());
        assert_eq!(unsure(&settings), [key()]);
        tell(Some("ours"));
        assert_eq!(*told.0.lock().unwrap(), [Some("ours".to_owned())]);
        assert!(unsure(&settings).is_empty());
    }

    #[test]
    fn what_the_store_did_not_take_or_could_not_write_is_read_again() {
        let (settings, told) = following();
        drop(begin(&settings));
        assert_eq!(unsure(&settings), [key()]);
        let wanted = settings.begin_look().unwrap();
        settings.tell(&*wanted.follower, key(), None);
        assert!(unsure(&settings).is_empty());
        begin(&settings)(Err(CommitError::new("no room")));
        assert_eq!(unsure(&settings), [key()]);
        assert_eq!(*told.0.lock().unwrap(), [None]);
    }

    #[test]
    fn what_is_refused_is_read_again_until_it_is_taken() {
        let (settings, told) = following();
        let tell = |wanted: &SettingsToRead, value| {
            settings.tell(&*wanted.follower, key(), Some(value));
            settings.caught_up(wanted, 1);
        };
        let first = settings.begin_look().unwrap();
        assert!(!first.has_news(1) && first.has_news(2));
        tell(&first, UNWANTED);
        assert_eq!(settings.refused_len(), 1);
        // Soon, then seldom, and whenever something has changed.
        let tries: Vec<bool> = (0..3)
            .map(|_| {
                let wanted = settings.begin_look().unwrap();
                assert!(wanted.has_news(2));
                assert_eq!(wanted.named(), [key()]);
                let has_news = wanted.has_news(1);
                tell(&wanted, UNWANTED);
                has_news
            })
            .collect();
        assert_eq!(tries, [true, true, false]);
        tell(&settings.begin_look().unwrap(), "wanted");
        assert_eq!(settings.refused_len(), 0);
        assert_eq!(*told.0.lock().unwrap(), [Some("wanted".to_owned())]);
        let last = settings.begin_look().unwrap();
        assert!(!last.has_news(1) && last.named().is_empty());
    }

    #[test]
    fn after_too_many_failures_all_is_read_once() {
        let (settings, _told) = following();
        let fail = |count: usize| {
            for number in 0..count {
                let (kind, name) = (SettingKind::Hint, number.to_string());
                let forget = Change::RemoveSetting { kind, name };
                settings.note(&[forget], Box::new(|_| {}))(Err(CommitError::new("away")));
            }
        };
        fail(UNSURE_MAX);
        assert_eq!(settings.begin_look().unwrap().known(), Some(1));
        fail(3 * UNSURE_MAX);
        let wanted = settings.begin_look().unwrap();
        assert!(wanted.unsure.len() <= UNSURE_MAX);
        assert!(wanted.has_news(1));
        assert_eq!(wanted.known(), None);
        // What fails meanwhile is read by the next look.
        fail(2 * UNSURE_MAX);
        settings.begin_all(|_| true);
        settings.caught_up(&wanted, 1);
        let wanted = settings.begin_look().unwrap();
        assert_eq!(wanted.known(), None);
        settings.caught_up(&wanted, 1);
        assert_eq!(settings.begin_look().unwrap().known(), Some(1));
    }
}
