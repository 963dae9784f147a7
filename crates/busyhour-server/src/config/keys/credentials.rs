//! The settings of the section `credentials`.

use super::{
    Allowed, OFF, SettingKey, milliseconds, path_or, put, seconds, show_or, show_path_or, whole,
};
use crate::{
    config::credentials::{FILE, URL},
    server::HttpUrl,
};

pub(super) const CREDENTIALS: &[SettingKey] = &[
    SettingKey {
        path: URL,
        allowed: Allowed::Text("a URL of http or https without a password, or off"),
        help: "A service that has accounts: it is asked for the hashes of users without an account here",
        assign: |config, text| put(&mut config.credentials.url, http_url_or_off(text)),
        show: |config| show_or(OFF, config.credentials.url.as_ref()),
    },
    SettingKey {
        path: FILE,
        allowed: Allowed::Text("the path of a file, or off"),
        help: "The file with the value of the header Authorization for that service, such as Bearer and a token",
        assign: |config, text| {
            let path = path_or(OFF, text);
            put(&mut config.credentials.authorization_file, path)
        },
        show: |config| show_path_or(OFF, config.credentials.authorization_file.as_ref()),
    },
    SettingKey {
        path: "credentials.timeout_milliseconds",
        allowed: whole(100, 10_000, "milliseconds"),
        help: "How long its answer may take; the request of the device waits meanwhile",
        assign: |config, text| put(&mut config.credentials.time_limit, milliseconds(text)),
        show: |config| config.credentials.time_limit.as_millis().to_string(),
    },
    SettingKey {
        path: "credentials.cache_seconds",
        allowed: whole(1, 86_400, "seconds"),
        help: "How long the hashes of an account count without being asked for again, and so how long a removed account may still log in",
        assign: |config, text| put(&mut config.credentials.cache, seconds(text)),
        show: |config| config.credentials.cache.as_secs().to_string(),
    },
    SettingKey {
        path: "credentials.missing_seconds",
        allowed: whole(1, 3600, "seconds"),
        help: "How long it counts that there is no such account",
        assign: |config, text| put(&mut config.credentials.missing, seconds(text)),
        show: |config| config.credentials.missing.as_secs().to_string(),
    },
    SettingKey {
        path: "credentials.stale_seconds",
        allowed: whole(0, 604_800, "seconds"),
        help: "How much longer an account counts while the service does not answer",
        assign: |config, text| put(&mut config.credentials.stale, seconds(text)),
        show: |config| config.credentials.stale.as_secs().to_string(),
    },
];

fn http_url_or_off(text: &str) -> Option<Option<String>> {
    match text {
        OFF => Some(None),
        text => text.parse::<HttpUrl>().ok().map(|_| Some(text.to_owned())),
    }
}
