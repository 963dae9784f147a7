//! Which database, and what a commit promises.

use crate::store::{Durability, StoreError};
use postgres::{Client, Config, NoTls};
use std::{error::Error, path::PathBuf, time::Duration};

/// Where the database is and what a commit promises.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// Most changes that may wait for the writer.
    pub queue_capacity: usize,
    /// How long changes may wait for a database that is away, or does not answer;
    /// then they fail.
    pub patience: Duration,
    /// How long the first session waits for a lock that another session holds:
    /// PostgreSQL may not know yet that the server which held it is gone.
    pub lock_patience: Duration,
    config: Config,
    shown: String,
}

impl PostgresOptions {
    /// Full durability, a queue of 65,536 changes, five seconds of patience and
    /// 15 for the lock, for the database at `url`:
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or
    /// `postgres:///DATABASE?host=/FOLDER` for a socket in a folder.
    ///
    /// Unless the URL says otherwise, a peer that is silent for about eleven
    /// seconds is gone (`keepalives_idle`, `keepalives_interval`,
    /// `keepalives_retries`, `tcp_user_timeout`).
    ///
    /// # Errors
    ///
    /// A sentence, without the password, when it is no such URL.
    pub fn new(url: &str) -> Result<Self, String> {
        let is_url = ["postgres://", "postgresql://"]
            .iter()
            .any(|head| url.starts_with(head));
        let config: Result<Config, _> = url.parse();
        let mut config = config.ok().filter(|_| is_url).ok_or(NO_URL)?;
        config.application_name("busyhour");
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        notice_silence(&mut config, url);
        Ok(Self {
            durability: Durability::default(),
            queue_capacity: 65_536,
            patience: Duration::from_secs(5),
            lock_patience: LOCK_PATIENCE,
            config,
            shown: masked(url),
        })
    }

    /// The URL without its password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// A connection of its own, whose other end notices too when we are gone:
    /// it may hold locks that others wait for.
    pub(super) fn connect(&self) -> Result<Client, StoreError> {
        let wrap = |error| self.failed(&error);
        let mut client = self.config.connect(NoTls).map_err(wrap)?;
        client.batch_execute(NOTICE_SILENCE).map_err(wrap)?;
        Ok(client)
    }

    /// What went wrong, with the database that it went wrong with.
    pub(super) fn failed(&self, error: &postgres::Error) -> StoreError {
        StoreError::Postgres {
            url: self.shown.clone(),
            reason: reason(error),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.shown.clone().into()
    }
}

/// A URL whose password is not shown.
pub fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (login, place) = match rest.split_once('@') {
        Some((login, place)) => (masked_login(login), place),
        None => (String::new(), rest),
    };
    // Another `@` ends what somebody took for the password.
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let (place, query) = match place.split_once('?') {
        Some((place, query)) if query.contains("password=") => (place, "?***".to_owned()),
        Some((place, query)) => (place, format!("?{query}")),
        None => (place, String::new()),
    };
    format!("{scheme}://{login}{place}{query}")
}

/// What stands in front of the first `@`, where the client ends a password too,
/// whatever is in it.
fn masked_login(login: &str) -> String {
    let (user, password) = match login.split_once(':') {
        Some((user, _)) => (user, ":***"),
        None => (login, ""),
    };
    // A user name with a query in it is a URL whose `@` was not meant to end one.
    match user.contains(['/', '?']) {
        true => "***@".to_owned(),
        false => format!("{user}{password}@"),
    }
}

/// A peer that acknowledges nothing is gone, also one that owes only an answer:
/// its kernel has acknowledged COMMIT, so only keepalives can tell.
fn notice_silence(config: &mut Config, url: &str) {
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_MAX);
    }
    // Its value when nothing is said is two hours, as if that had been asked for.
    if !url.contains("keepalives_idle=") {
        config.keepalives_idle(KEEPALIVES_IDLE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(KEEPALIVES_INTERVAL);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(KEEPALIVES_RETRIES);
    }
}

/// The error with its causes: the first of them alone says little.
pub(super) fn reason(error: &postgres::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

const NO_URL: &str = "give postgres://USER:PASSWORD@HOST:PORT/DATABASE";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer that acknowledges nothing for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const KEEPALIVES_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVES_RETRIES: u32 = 3;
/// The same for PostgreSQL's end, in seconds and milliseconds; it leaves a socket
/// in a folder as it is, whose two ends never miss each other.
const NOTICE_SILENCE: &str = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; \
    SET tcp_keepalives_count = 3; SET tcp_user_timeout = 10000";
/// Longer than PostgreSQL takes to notice that a server is gone.
const LOCK_PATIENCE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let cases = [
            ("postgres://u:p@h:5432/d", "postgres://u:***@h:5432/d"),
            ("postgres://u:p@ss/w@h/d", "postgres://u:***@h/d"),
            ("postgres://u:p/w@h/d", "postgres://u:***@h/d"),
            ("postgres://u:p?w@h/d", "postgres://u:***@h/d"),
            ("postgres://u:p/w?x=y@h/d?a=b", "postgres://u:***@h/d?a=b"),
            ("postgres://u:p@s?w@h/d", "postgres://u:***@h/d"),
            ("postgres://h/d?password=p@h", "postgres://***@h"),
            ("postgres://u@h/d", "postgres://u@h/d"),
            ("postgres:///d?host=/run", "postgres:///d?host=/run"),
            ("postgres://h/d?user=u&password=p", "postgres://h/d?***"),
        ];
        for (url, shown) in cases {
            assert_eq!(masked(url), shown);
        }
        let options = PostgresOptions::new("postgres://u:topsecret@h/d").unwrap();
        assert!(!format!("{options:?}").contains("topsecret"));
        assert!(PostgresOptions::new("host=h password=p").is_err());
        assert!(PostgresOptions::new("postgres://h:port/d").is_err());
        let odd = PostgresOptions::new("postgres://busyhour:pa/ss@db/d").unwrap();
        assert!(!format!("{odd:?}").contains("pa/ss"));
    }

    #[test]
    fn a_silent_peer_is_given_up_soon_unless_the_url_says_otherwise() {
        let seconds = Duration::from_secs;
        let config = PostgresOptions::new("postgres://h/d").unwrap().config;
        assert!(config.get_keepalives());
        assert_eq!(config.get_keepalives_idle(), seconds(5));
        assert_eq!(config.get_keepalives_interval(), Some(seconds(2)));
        assert_eq!(config.get_keepalives_retries(), Some(3));
        assert_eq!(config.get_tcp_user_timeout(), Some(&seconds(10)));
        let url = "postgres://h/d?keepalives_idle=7200&keepalives_interval=60\
            &keepalives_retries=9&tcp_user_timeout=90";
        let config = PostgresOptions::new(url).unwrap().config;
        assert_eq!(config.get_keepalives_idle(), seconds(7200));
        assert_eq!(config.get_keepalives_interval(), Some(seconds(60)));
        assert_eq!(config.get_keepalives_retries(), Some(9));
        assert_eq!(config.get_tcp_user_timeout(), Some(&seconds(90)));
    }
}
