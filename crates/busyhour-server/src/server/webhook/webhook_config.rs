//! What a webhook is, as the configuration and HTTP say it.

use super::WebhookSecret;
use crate::server::{ChangeFilter, HttpUrl};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// A webhook, checked.
#[derive(Debug, Clone)]
pub struct WebhookConfig {
    pub(super) entry: WebhookEntry,
    pub(super) url: HttpUrl,
    pub(super) filter: ChangeFilter,
    pub(super) secret: Option<WebhookSecret>,
}

/// A webhook as it is written; the same fields in TOML, in JSON and in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookEntry {
    /// Where to post to.
    pub url: String,
    /// Which kinds of changes; all if there are none.
    pub kinds: Vec<String>,
    /// Only those of this user, mailbox, extension or address of record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Elements that a change must have, or `name=value`.
    pub having: Vec<String>,
    /// Whether the last value of each subject is posted first, and again after a loss.
    pub snapshot: bool,
    /// The key of the signature. It is never shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The value of the header Authorization. It is never shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorization: Option<String>,
    /// Events in one request at most.
    pub batch: usize,
    /// How long the first event waits for others.
    pub batch_milliseconds: u64,
    /// How long a request may take.
    pub timeout_seconds: u64,
    /// How long a batch is tried.
    pub give_up_seconds: u64,
}

/// What is wrong with a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebhookMistake {
    /// Its name.
    #[error("name: give 1 to 64 letters, digits, or any of -_.")]
    Name,
    /// Its URL.
    #[error("url: `{0}`: {1}")]
    Url(String, super::super::HttpUrlMistake),
    /// Its filter.
    #[error("{0}")]
    Filter(String),
    /// A number is out of its range.
    #[error("{field}: give {min} to {max}")]
    Range {
        /// Of this field.
        field: &'static str,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A secret that cannot be in a header, or is too short.
    #[error("{0}")]
    Secret(&'static str),
}

impl Default for WebhookEntry {
    fn default() -> Self {
        Self {
            url: String::new(),
            kinds: Vec::new(),
            user: None,
            having: Vec::new(),
            snapshot: false,
            secret: None,
            authorization: None,
            batch: 100,
            batch_milliseconds: 50,
            timeout_seconds: 10,
            give_up_seconds: 86_400,
        }
    }
}

impl WebhookEntry {
    /// Checks all of it.
    ///
    /// # Errors
    ///
    /// The first of its [mistakes](Self::mistakes).
    pub fn check(self, name: &str) -> Result<WebhookConfig, WebhookMistake> {
        if let Some(first) = self.mistakes(name).into_iter().next() {
            return Err(first);
        }
        let url = self.url.parse();
        Ok(WebhookConfig {
            url: url.map_err(|mistake| WebhookMistake::Url(self.url.clone(), mistake))?,
            filter: self.filter().map_err(WebhookMistake::Filter)?,
            secret: self.secret.as_deref().map(WebhookSecret::read),
            entry: self,
        })
    }

    /// All that is wrong.
    pub fn mistakes(&self, name: &str) -> Vec<WebhookMistake> {
        let mut mistakes = Vec::new();
        if !is_name(name) {
            mistakes.push(WebhookMistake::Name);
        }
        if let Err(mistake) = self.url.parse::<HttpUrl>() {
            mistakes.push(WebhookMistake::Url(self.url.clone(), mistake));
        }
        let ranges = [
            ("batch", self.batch as u64, 1, 1000),
            ("batch_milliseconds", self.batch_milliseconds, 0, 60_000),
            ("timeout_seconds", self.timeout_seconds, 1, 120),
            ("give_up_seconds", self.give_up_seconds, 1, 604_800),
        ];
        for (field, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                mistakes.push(WebhookMistake::Range { field, min, max });
            }
        }
        mistakes.extend(self.filter().err().map(WebhookMistake::Filter));
        let is_short = |secret: &String| secret.trim().len() < SECRET_LEN_MIN;
        if self.secret.as_ref().is_some_and(is_short) {
            mistakes.push(WebhookMistake::Secret("secret: give 16 characters or more"));
        }
        let is_header = |text: &String| text.parse::<hyper::header::HeaderValue>().is_ok();
        if !self.authorization.as_ref().is_none_or(is_header) {
            mistakes.push(WebhookMistake::Secret(
                "authorization: give one line of text",
            ));
        }
        mistakes
    }

    fn filter(&self) -> Result<ChangeFilter, String> {
        let joined = |texts: &[String]| (!texts.is_empty()).then(|| texts.join(","));
        let (kinds, having) = (joined(&self.kinds), joined(&self.having));
        ChangeFilter::read(kinds.as_deref(), self.user.as_deref(), having.as_deref())
    }
}

impl PartialEq for WebhookConfig {
    /// The rest follows from how it is written.
    fn eq(&self, other: &Self) -> bool {
        self.entry == other.entry
    }
}

impl WebhookConfig {
    /// As it was written.
    pub fn entry(&self) -> &WebhookEntry {
        &self.entry
    }

    pub(super) fn batch_delay(&self) -> Duration {
        Duration::from_millis(self.entry.batch_milliseconds)
    }

    pub(super) fn time_limit(&self) -> Duration {
        Duration::from_secs(self.entry.timeout_seconds)
    }

    pub(super) fn give_up_after(&self) -> Duration {
        Duration::from_secs(self.entry.give_up_seconds)
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

const NAME_LEN_MAX: usize = 64;
const SECRET_LEN_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_says_what_to_do() {
        let url = || "https://hooks.example/".to_owned();
        let right = WebhookEntry {
            url: url(),
            ..WebhookEntry::default()
        };
        assert!(right.clone().check("crm").is_ok());
        let entry = |change: fn(&mut WebhookEntry)| {
            let mut entry = right.clone();
            change(&mut entry);
            entry.check("crm").unwrap_err().to_string()
        };
        assert!(
            right
                .clone()
                .check("a b")
                .unwrap_err()
                .to_string()
                .starts_with("name: give")
        );
        for (change, said) in [
            (
                (|it| it.url = "hooks".into()) as fn(&mut WebhookEntry),
                "url: `hooks`: give a URL",
            ),
            (
                |it| it.kinds = vec!["calls".into()],
                "kind: `calls` is not one of",
            ),
            (
                |it| it.having = vec!["x".into()],
                "having: there is no element `x`",
            ),
            (|it| it.batch = 0, "batch: give 1 to 1000"),
            (|it| it.secret = Some("short".into()), "secret: give 16"),
            (
                |it| it.authorization = Some("a\nb".into()),
                "authorization: give one line",
            ),
        ] {
            assert!(entry(change).starts_with(said), "{}", entry(change));
        }
    }
}
