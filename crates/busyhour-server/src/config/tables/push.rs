use super::{
    entry::{Reported, TableEntry},
    webhooks::secret_of,
};
use crate::server::{AppleKey, PushConfig, PushService, ServiceAccount, WebhookSecret};
use std::{ops::RangeInclusive, sync::Arc, time::Duration};

/// Reads a `[[push]]`, and the files with its keys.
pub(in crate::config) fn read(entry: &mut TableEntry<'_>) -> Result<PushConfig, Reported> {
    let provider = entry.required("provider", TableEntry::text);
    let service = entry.required("service", TableEntry::text);
    let url = entry.text("url");
    let fields = [
        "wait_seconds",
        "awake_seconds",
        "timeout_seconds",
        "per_hour",
    ];
    let [wait, awake, timeout, hourly] = fields.map(|field| entry.whole(field));
    let wait = within(entry, wait, "wait_seconds", 1..=60);
    let awake = within(entry, awake, "awake_seconds", 1..=600);
    let timeout = within(entry, timeout, "timeout_seconds", 1..=30);
    let hourly = within(entry, hourly, "per_hour", 1..=3600);
    let default = match service.as_deref() {
        Ok("fcm") => Some(GOOGLE),
        Ok("apns") => Some(APPLE),
        _ => None,
    };
    let service = service.and_then(|name| service_of(entry, &name));
    let url = url.and_then(|url| match url.or(default.map(str::to_owned)) {
        Some(url) => {
            let parsed = url.parse();
            entry.check(parsed.map_err(|mistake| format!("url: `{url}`: {mistake}")))
        }
        None => Err(entry.mistake("url is missing")),
    });
    let mut config = PushConfig::new(&provider?, service?, url?);
    if let Some(seconds) = wait? {
        config.wait = Duration::from_secs(seconds);
    }
    if let Some(seconds) = awake? {
        config.awake_for = Duration::from_secs(seconds);
    }
    if let Some(seconds) = timeout? {
        config.time_limit = Duration::from_secs(seconds);
    }
    if let Some(count) = hourly? {
        config.hourly_max = count as u32;
    }
    Ok(config)
}

fn within(
    entry: &mut TableEntry<'_>,
    given: Result<Option<u64>, Reported>,
    field: &str,
    range: RangeInclusive<u64>,
) -> Result<Option<u64>, Reported> {
    let (min, max) = (*range.start(), *range.end());
    match given? {
        Some(value) if !range.contains(&value) => {
            Err(entry.mistake(format!("{field}: give {min} to {max}")))
        }
        other => Ok(other),
    }
}

fn service_of(entry: &mut TableEntry<'_>, name: &str) -> Result<PushService, Reported> {
    match name {
        "webhook" => {
            let secret = secret_of(entry, "secret_file")?;
            Ok(PushService::Webhook(
                secret.as_deref().map(WebhookSecret::read),
            ))
        }
        "fcm" => {
            let json = entry.required("service_account_file", secret_of)?;
            let account = ServiceAccount::read(&json);
            let account = account.map_err(|mistake| format!("service_account_file: {mistake}"));
            Ok(PushService::Fcm(Arc::new(entry.check(account)?)))
        }
        "apns" => {
            let pem = entry.required("key_file", secret_of);
            let [team_id, key_id] =
                ["team_id", "key_id"].map(|field| entry.required(field, TableEntry::text));
            let key = AppleKey::read(&pem?, &team_id?, &key_id?);
            let key = key.map_err(|mistake| format!("key_file: {mistake}"));
            Ok(PushService::Apns(Arc::new(entry.check(key)?)))
        }
        other => Err(entry.mistake(format!(
            "service: `{other}` is not allowed; give one of: webhook, fcm, apns"
        ))),
    }
}

pub(in crate::config) const FIELDS: &[&str] = &[
    "provider",
    "service",
    "url",
    "secret_file",
    "service_account_file",
    "key_file",
    "key_id",
    "team_id",
    "wait_seconds",
    "awake_seconds",
    "timeout_seconds",
    "per_hour",
];
const GOOGLE: &str = "https://fcm.googleapis.com";
const APPLE: &str = "https://api.push.apple.com";
