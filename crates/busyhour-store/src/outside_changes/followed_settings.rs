//! Mailboxes, hints and lists that several servers on one database set: what has become of each.
//!
//! **Each server ends with what the database has.** A server applies its own change at once, and the
//! database decides the order. So each change that the database counts is read, by name, and told,
//! whoever made it. What was read before a change of our own, and is told after it, would undo that
//! change for a moment. Therefore a setting is *ours* from before its change is given to the store
//! until a look has begun after the answer; meanwhile nothing is told of it, and it is *unsure*: the
//! next look reads it by its name, as it does after a change that failed. Whoever takes a setting
//! asks whether it is ours under the lock under which changes are given to the store, so none comes
//! in between.

use crate::{Change, Completion, SettingFollower, SettingKind};
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
}

/// What a look has to read for the follower.
pub(crate) struct SettingsToRead {
    pub(crate) follower: Arc<dyn SettingFollower>,
    pub(crate) revision: u64,
    pub(crate) unsure: Vec<SettingKey>,
}

impl FollowedSettings {
    /// Sets the follower, which knows the settings of `revision`.
    pub(crate) fn start(&self, revision: u64, follower: Box<dyn SettingFollower>) {
        let mut state = self.lock();
        state.follower = Some(follower.into());
        state.revision = revision;
    }

    /// A look begins: what is read from now on has all changes of ours that have an answer. `None`
    /// if nobody follows.
    pub(crate) fn begin_look(&self) -> Option<SettingsToRead> {
        let mut state = self.lock();
        state.ours.retain(|_, under_way| *under_way > 0);
        Some(SettingsToRead {
            follower: state.follower.clone()?,
            revision: state.revision,
            unsure: state.unsure.iter().cloned().collect(),
        })
    }

    /// Everything was told until this revision.
    pub(crate) fn caught_up(&self, revision: u64) {
        self.lock().revision = revision;
    }

    /// Tells what was read of a setting, unless it is ours.
    pub(crate) fn tell(
        &self,
        follower: &dyn SettingFollower,
        key: SettingKey,
        value: Option<&str>,
    ) {
        let is_ours = || self.lock().ours.contains_key(&key);
        if !is_ours() {
            follower.take(key.0, &key.1, value, &is_ours);
        }
        let mut state = self.lock();
        match state.ours.contains_key(&key) {
            true => drop(state.unsure.insert(key)),
            false => drop(state.unsure.remove(&key)),
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
                state.unsure.insert(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommitError;

    /// What was told.
    #[derive(Default)]
    struct Told(Mutex<Vec<Option<String>>>);

    impl SettingFollower for Arc<Told> {
        fn kinds(&self) -> &[SettingKind] {
            &[SettingKind::Hint]
        }

        fn names(&self, _: SettingKind) -> Vec<String> {
            Vec::new()
        }

        fn take(&self, _: SettingKind, _: &str, value: Option<&str>, _: &dyn Fn() -> bool) {
            self.0.lock().unwrap().push(value.map(str::to_owned));
        }
    }

    fn key() -> SettingKey {
        (SettingKind::Hint, "100".to_owned())
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
        let (settings, told) = (
            Arc::new(FollowedSettings::default()),
            Arc::new(Told::default()),
        );
        settings.start(1, Box::new(told.clone()));
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
        let (settings, told) = (
            Arc::new(FollowedSettings::default()),
            Arc::new(Told::default()),
        );
        settings.start(1, Box::new(told.clone()));
        drop(begin(&settings));
        assert_eq!(unsure(&settings), [key()]);
        let wanted = settings.begin_look().unwrap();
        settings.tell(&*wanted.follower, key(), None);
        assert!(unsure(&settings).is_empty());
        begin(&settings)(Err(CommitError::new("no room")));
        assert_eq!(unsure(&settings), [key()]);
        assert_eq!(*told.0.lock().unwrap(), [None]);
    }
}
