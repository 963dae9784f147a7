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
    /// How long changes may wait for a database that is away; then they fail.
    pub patience: Duration,
    config: Config,
    shown: String,
}

impl PostgresOptions {
    /// Full durability, a queue of 65,536 changes and five seconds of patience
    /// for the database at `url`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`,
    /// or `postgres:///DATABASE?host=/FOLDER` for a socket in a folder.
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
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE_MAX);
        }
        Ok(Self {
            durability: Durability::default(),
            queue_capacity: 65_536,
            patience: Duration::from_secs(5),
            config,
            shown: masked(url),
        })
    }

    /// The URL without its password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// A connection of its own.
    pub(super) fn connect(&self) -> Result<Client, StoreError> {
        self.config
            .connect(NoTls)
            .map_err(|error| self.failed(&error))
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
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let shown = match authority.rsplit_once('@') {
        Some((login, host)) => {
            let user = login.split(':').next().unwrap_or_default();
            let mark = if login.contains(':') { ":***" } else { "" };
            format!("{user}{mark}@{host}")
        }
        None => authority.to_owned(),
    };
    let tail = match tail.split_once('?') {
        Some((path, query)) if query.contains("password=") => format!("{path}?***"),
        _ => tail.to_owned(),
    };
    format!("{scheme}://{shown}{tail}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let cases = [
            ("postgres://u:p@h:5432/d", "postgres://u:***@h:5432/d"),
            ("postgres://u:p@ss/w@h/d", "postgres://u:***@ss/w@h/d"),
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
    }
}
