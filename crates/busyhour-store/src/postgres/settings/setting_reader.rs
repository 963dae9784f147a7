//! The thread that reads what other programs and servers have set. It has a connection of its own,
//! so no commit waits for it. While the count of changes stays as it is, a look is one small query.

use crate::{
    SettingFollower, SettingKind, StoreError,
    outside_changes::{FollowedSettings, Pace, SettingKey, SettingWatch, SettingsToRead},
    postgres::{
        PostgresOptions,
        load::{self, SettingNews},
    },
    queue::Queue,
};
use postgres::{Client, Error, Statement};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// Owns the connection, which begins when somebody wants to know.
pub(in crate::postgres) struct SettingReader {
    options: PostgresOptions,
    queue: Arc<Queue>,
    watch: Arc<SettingWatch>,
    followed: Arc<FollowedSettings>,
    client: Option<SettingSession>,
    /// At the last look.
    revision: Option<u64>,
    /// Why the last look failed, so that it is not logged each second.
    last_error: String,
}

/// The connection, with what is asked each second.
struct SettingSession {
    client: Client,
    revision: Statement,
}

impl SettingReader {
    pub(in crate::postgres) fn new(
        options: PostgresOptions,
        queue: Arc<Queue>,
        watch: Arc<SettingWatch>,
        followed: Arc<FollowedSettings>,
    ) -> Self {
        Self {
            options,
            queue,
            watch,
            followed,
            client: None,
            revision: None,
            last_error: String::new(),
        }
    }

    /// Until the writer has ended.
    pub(in crate::postgres) fn run(mut self) {
        let mut pace = Pace::default();
        while !self.queue.wait_for_end(pace.rest()) {
            let begun = Instant::now();
            let took = match self.look() {
                Ok(()) => {
                    self.last_error.clear();
                    begun.elapsed()
                }
                Err(error) => {
                    self.failed(error.to_string());
                    // One try a second is enough, however long it takes.
                    Duration::ZERO
                }
            };
            pace.took(took);
        }
    }

    fn failed(&mut self, error: String) {
        self.client = None;
        if error != self.last_error {
            tracing::warn!(error, "settings cannot be read; trying again");
            self.last_error = error;
        }
    }

    fn look(&mut self) -> Result<(), StoreError> {
        let wanted = self.followed.begin_look();
        if wanted.is_none() && self.watch.followed().is_empty() {
            return Ok(());
        }
        let connected = connected(&mut self.client, &self.options)?;
        let read = read(
            connected,
            self.revision,
            &self.watch,
            &self.followed,
            wanted,
        );
        let revision = read.map_err(|error| self.options.failed(&error))?;
        self.revision = Some(revision);
        Ok(())
    }
}

/// Reads what has changed and tells it; returns the revision of the settings before that.
fn read(
    connected: &mut SettingSession,
    known: Option<u64>,
    watch: &SettingWatch,
    followed: &FollowedSettings,
    wanted: Option<SettingsToRead>,
) -> Result<u64, Error> {
    let SettingSession { client, revision } = connected;
    let revision = load::revision(client, revision)?;
    let kinds = match known == Some(revision) {
        true => watch.unknown(),
        false => watch.followed(),
    };
    for kind in kinds {
        watch.found(kind, load::settings_of(client, kind)?);
    }
    if let Some(wanted) = wanted.filter(|wanted| wanted.has_news(revision)) {
        let kinds = wanted.follower.kinds();
        let (news, at) = load::setting_news(client, kinds, wanted.known(), &wanted.named())?;
        tell(followed, &*wanted.follower, news);
        followed.caught_up(&wanted, at);
    }
    Ok(revision)
}

fn tell(followed: &FollowedSettings, follower: &dyn SettingFollower, news: SettingNews) {
    let rows = match news {
        SettingNews::Changed(rows) => rows,
        SettingNews::All(rows) => {
            let there: BTreeSet<&SettingKey> = rows.iter().map(|(key, _)| key).collect();
            followed.begin_all(|key| there.contains(key));
            let known = follower
                .kinds()
                .iter()
                .flat_map(|kind| known(follower, *kind));
            let gone: Vec<SettingKey> = known.filter(|key| !there.contains(key)).collect();
            for key in gone {
                followed.tell(follower, key, None);
            }
            rows
        }
    };
    // What is gone makes room.
    let (gone, there): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, value)| value.is_none());
    for (key, value) in gone.into_iter().chain(there) {
        followed.tell(follower, key, value.as_deref());
    }
}

fn known(follower: &dyn SettingFollower, kind: SettingKind) -> impl Iterator<Item = SettingKey> {
    let names = follower.names(kind).into_iter();
    names.map(move |name| (kind, name))
}

fn connected<'c>(
    connected: &'c mut Option<SettingSession>,
    options: &PostgresOptions,
) -> Result<&'c mut SettingSession, StoreError> {
    match connected {
        Some(connected) => Ok(connected),
        None => {
            let wrap = |error| options.failed(&error);
            let mut client = options.connect()?;
            client.batch_execute(SESSION).map_err(wrap)?;
            let revision = client.prepare(load::SETTING_REVISION).map_err(wrap)?;
            Ok(connected.insert(SettingSession { client, revision }))
        }
    }
}

/// A table that somebody has locked is tried again later.
const SESSION: &str = "SET statement_timeout = '10s'";
