use super::{
    entry::{Reported, TableEntry},
    webhooks::secret_of,
};
use crate::server::{AppleKey, PushConfig, PushService, ServiceAccount, WebhookSecret};
use std::{sync::Arc, time::Duration};

/// Reads a `[[push]]`, and the files with its keys.
pub(in crate::config) fn read(entry: &mut TableEntry<'_>) -> Result<PushConfig, Reported> {
    let provider = entry.required("provider", TableEntry::text);
    let service = entry.required("service", TableEntry::text);
    let url = entry.text("url");
    let [wait, timeout, hourly] =
        ["wait_seconds", "timeout_seconds", "per_hour"].map(|field| entry.whole(field));
    let (provider, name) = (provider?, service?);
    let service = service_of(entry, &name)?;
    let default = match &service {
        PushService::Webhook(_) => None,
        PushService::Fcm(_) => Some(GOOGLE),
        PushService::Apns(_) => Some(APPLE),
    };
    let url = match url?.or(default.map(str::to_owned)) {
        Some(url) => url,
        None => return Err(entry.mistake("url is missing")),
    };
    let parsed = url
        .parse()
        .map_err(|mistake| format!("url: `{url}`: {mistake}"));
    let mut config = PushConfig::new(&provider, service, entry.check(parsed)?);
    let mut within = |given: Option<u64>, field: &str, range: std::ops::RangeInclusive<u64>| {
        let (min, max) = (*range.start(), *range.end());
        match given {
            Some(value) if !range.contains(&value) => {
                Err(entry.mistake(format!("{field}: give {min} to {max}")))
            }
            other => Ok(other),
        }
    };
    if let Some(seconds) = within(wait?, "wait_seconds", 1..=60)? {
        config.wait = Duration::from_secs(seconds);
    }
    if let Some(seconds) = within(timeout?, "timeout_seconds", 1..=30)? {
        config.time_limit = Duration::from_secs(seconds);
    }
    if let Some(count) = within(hourly?, "per_hour", 1..=3600)? {
        config.hourly_max = count as u32;
    }
    Ok(config)
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
            let pem = entry.required("key_file", secret_of)?;
            let team_id = entry.required("team_id", TableEntry::text)?;
            let key_id = entry.required("key_id", TableEntry::text)?;
            let key = AppleKey::read(&pem, &team_id, &key_id);
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
    "timeout_seconds",
    "per_hour",
];
const GOOGLE: &str = "https://fcm.googleapis.com";
const APPLE: &str = "https://api.push.apple.com";
