//! Parses settings from their text form; `None` if the text is not allowed.

use super::{Auth, Durability, LogFormat, LogLevel, SocketPlace, StreamListen};
use crate::web::PmcdAddress;
use busyhour_iax2::CallTokens;
use busyhour_registrar::Advertised;
use busyhour_sip::auth::Algorithm;
use busyhour_store::{PostgresOptions, check_username};
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

pub(super) fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

pub(super) fn seconds(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_secs)
}

pub(super) fn milliseconds(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_millis)
}

pub(super) fn addresses(text: &str) -> Option<Vec<SocketAddr>> {
    text.split(',').map(|one| one.trim().parse().ok()).collect()
}

/// As [`addresses`], and no addresses for `word`.
pub(super) fn addresses_or(word: &str, text: &str) -> Option<Vec<SocketAddr>> {
    if text == word {
        return Some(Vec::new());
    }
    addresses(text)
}

/// At most three, with the port of DNS if none is given.
pub(super) fn dns_servers(text: &str) -> Option<Vec<SocketAddr>> {
    let server = |one: &str| {
        let ip = one.parse().map(|ip: IpAddr| SocketAddr::new(ip, DNS_PORT));
        let server: SocketAddr = ip.or_else(|_| one.parse()).ok()?;
        (server.port() != 0 && !server.ip().is_unspecified()).then_some(server)
    };
    if text == SYSTEM {
        return Some(Vec::new());
    }
    let servers: Vec<_> = text.split(',').map(|one| server(one.trim())).collect();
    let servers: Option<Vec<_>> = servers.into_iter().collect();
    servers.filter(|servers| servers.len() <= DNS_SERVERS_MAX)
}

pub(super) fn stream_listen(text: &str) -> Option<StreamListen> {
    match text {
        SAME => Some(StreamListen::Same),
        other => addresses_or(OFF, other).map(StreamListen::At),
    }
}

pub(super) fn show_stream_listen(listen: &StreamListen) -> String {
    match listen {
        StreamListen::Same => SAME.into(),
        StreamListen::At(addresses) => join_or(OFF, addresses),
    }
}

/// As [`join`], and `word` for no values.
pub(super) fn join_or<T: ToString>(word: &str, values: &[T]) -> String {
    match values.is_empty() {
        true => word.into(),
        false => join(values),
    }
}

pub(super) fn show_or<T: ToString>(word: &str, value: Option<&T>) -> String {
    value.map_or(word.into(), T::to_string)
}

pub(super) fn show_path_or(word: &str, path: Option<&PathBuf>) -> String {
    path.map_or(word.into(), |path| path.display().to_string())
}

pub(super) fn socket_place(text: &str) -> Option<SocketPlace> {
    match text {
        AUTO => Some(SocketPlace::Auto),
        OFF => Some(SocketPlace::Off),
        "" => None,
        path => Some(SocketPlace::At(path.into())),
    }
}

pub(super) fn show_socket_place(place: &SocketPlace) -> String {
    match place {
        SocketPlace::Auto => AUTO.into(),
        SocketPlace::Off => OFF.into(),
        SocketPlace::At(path) => path.display().to_string(),
    }
}

pub(super) fn call_tokens(text: &str) -> Option<CallTokens> {
    match text {
        "required" => Some(CallTokens::Required),
        "optional" => Some(CallTokens::Optional),
        _ => None,
    }
}

pub(super) fn hosts(text: &str) -> Option<Vec<String>> {
    let named = text
        .split(',')
        .map(str::trim)
        .filter(|host| !host.is_empty());
    named.map(host).collect()
}

/// A name, an IPv4 address or an IPv6 address with or without its brackets.
pub(super) fn host(text: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let address = text.trim_start_matches('[').trim_end_matches(']');
    let is_host = text.chars().all(plain) || address.parse::<IpAddr>().is_ok();
    (is_host && text.len() <= 253).then(|| text.to_ascii_lowercase())
}

pub(super) fn algorithms(text: &str) -> Option<Vec<Algorithm>> {
    let names = text.split(',').map(str::trim);
    names.map(Algorithm::from_name).collect()
}

pub(super) fn join<T: ToString>(values: &[T]) -> String {
    let shown: Vec<String> = values.iter().map(T::to_string).collect();
    shown.join(",")
}

pub(super) fn address_or(word: &str, text: &str) -> Option<Option<SocketAddr>> {
    if text == word {
        return Some(None);
    }
    text.parse().ok().map(Some)
}

pub(super) fn advertised_or(word: &str, text: &str) -> Option<Advertised> {
    match text {
        text if text == word => Some(Advertised::default()),
        text => text.parse().ok(),
    }
}

pub(super) fn show_advertised_or(word: &str, advertised: &Advertised) -> String {
    match advertised.is_empty() {
        true => word.into(),
        false => advertised.to_string(),
    }
}

pub(super) fn path_or(word: &str, text: &str) -> Option<Option<PathBuf>> {
    match text {
        "" => None,
        // A URL may have a password, which would be shown with the path.
        text if text.contains("://") => None,
        text if text == word => Some(None),
        text => Some(Some(text.into())),
    }
}

/// Where a `pmcd` listens, or none for `word`.
pub(super) fn pmcd_or(word: &str, text: &str) -> Option<Option<PmcdAddress>> {
    if text == word {
        return Some(None);
    }
    text.parse().ok().map(Some)
}

/// A name of PCP: parts of letters, digits and `_`, joined by dots.
/// A user, or none for `word`.
pub(super) fn user_or(word: &str, text: &str) -> Option<Option<String>> {
    match text == word {
        true => Some(None),
        false => check_username(text).ok().map(|()| Some(text.to_owned())),
    }
}

/// In seconds, none shorter than RFC 4028 §4 allows.
pub(super) fn session_interval(text: &str) -> Option<u32> {
    let interval_s = text.parse().ok()?;
    matches!(interval_s, 0 | 90..=86_400).then_some(interval_s)
}

/// Users separated by commas, and none for `word`.
pub(super) fn users_or(word: &str, text: &str) -> Option<Vec<String>> {
    if text == word {
        return Some(Vec::new());
    }
    let users = text.split(',').map(str::trim);
    users.map(|user| user_or("", user).flatten()).collect()
}

pub(super) fn text_or(word: &str, text: &str) -> Option<Option<String>> {
    match text {
        "" => None,
        text if text == word => Some(None),
        text => Some(Some(text.to_owned())),
    }
}

pub(super) fn pcp_name(text: &str) -> Option<String> {
    let is_part = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    text.split('.').all(is_part).then(|| text.to_owned())
}

/// The URL of a PostgreSQL database, or none for `word`.
pub(super) fn url_or(word: &str, text: &str) -> Option<Option<String>> {
    if text == word {
        return Some(None);
    }
    PostgresOptions::check_url(text).ok()?;
    Some(Some(text.to_owned()))
}

/// A realm is put into a quoted string without escapes, so characters that would end
/// the string are refused here.
pub(super) fn realm(text: &str) -> Option<String> {
    let plain = |c: char| !c.is_control() && c != '"' && c != '\\';
    let fits = (1..=100).contains(&text.chars().count());
    (fits && text.chars().all(plain)).then(|| text.to_owned())
}

pub(super) fn auth(text: &str) -> Option<Auth> {
    match text {
        "digest" => Some(Auth::Digest),
        "open" => Some(Auth::Open),
        _ => None,
    }
}

pub(super) fn durability(text: &str) -> Option<Durability> {
    match text {
        "full" => Some(Durability::Full),
        "process" => Some(Durability::Process),
        "memory" => Some(Durability::Memory),
        _ => None,
    }
}

pub(super) fn workers(text: &str) -> Option<Option<usize>> {
    if text == AUTO {
        return Some(None);
    }
    let count = text.parse().ok()?;
    (1..=1024).contains(&count).then_some(Some(count))
}

pub(super) fn level(text: &str) -> Option<LogLevel> {
    match text {
        "error" => Some(LogLevel::Error),
        "warn" => Some(LogLevel::Warn),
        "info" => Some(LogLevel::Info),
        "debug" => Some(LogLevel::Debug),
        "trace" => Some(LogLevel::Trace),
        _ => None,
    }
}

pub(super) fn format(text: &str) -> Option<LogFormat> {
    match text {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        _ => None,
    }
}

const DNS_PORT: u16 = 53;
const DNS_SERVERS_MAX: usize = 3;
pub(super) const SYSTEM: &str = "system";
pub(super) const OFF: &str = "off";
pub(super) const SAME: &str = "same";
pub(super) const DEFAULT: &str = "default";
pub(super) const AUTO: &str = "auto";
