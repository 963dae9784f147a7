//! Which database, and what a commit promises.

use super::{
    passfile,
    tls::{Check, Tls, is_system, own_roots},
};
use crate::{Durability, StoreError};
use busyhour_cluster::Member;
use postgres::{Client, Config, config::SslMode};
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
    pub commit_timeout: Duration,
    /// Whether the database has a view `location`, by which Kamailio's `usrloc` finds
    /// contacts.
    pub location_view: bool,
    /// How long the first session waits for a lock that another session holds:
    /// PostgreSQL may not know yet that the server which held it is gone.
    pub lock_patience: Duration,
    /// The life of a node that has joined with
    /// [`PostgresOwnership`](crate::PostgresOwnership); `None` for a server that has the
    /// database for itself.
    pub member: Option<Member>,
    config: Config,
    tls: Tls,
    shown: String,
}

impl PostgresOptions {
    /// Full durability, a queue of 65,536 changes, five seconds of commit timeout and
    /// 15 for the lock, for the database at `url`:
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or
    /// `postgres:///DATABASE?host=/FOLDER` for a socket in a folder.
    ///
    /// Unless the URL says otherwise, a peer that is silent for about eleven
    /// seconds is gone (`keepalives_idle`, `keepalives_interval`,
    /// `keepalives_retries`, `tcp_user_timeout`).
    ///
    /// `sslmode` is `disable`, `prefer`, `require`, `verify-ca` or `verify-full`, and
    /// `sslrootcert` the file of the authorities that may sign the database's
    /// certificate, or `system`, which means `verify-full`. A URL without a password
    /// takes it from `PGPASSFILE` or `~/.pgpass`.
    ///
    /// # Errors
    ///
    /// If it is not such a URL, or `sslrootcert` cannot be read: a sentence without the
    /// password.
    pub fn new(given: &str) -> Result<Self, String> {
        let (url, mut config, tls_query) = parse(given)?;
        config.application_name("busyhour");
        let tls = Tls::new(tls_query.check()?.1, tls_query.roots.as_deref())?;
        if config.get_password().is_none()
            && let Some(password) = passfile::password(&config)
        {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        notice_silence(&mut config, &url);
        Ok(Self {
            durability: Durability::default(),
            queue_capacity: 65_536,
            commit_timeout: Duration::from_secs(5),
            location_view: false,
            lock_patience: LOCK_PATIENCE,
            member: None,
            config,
            tls,
            shown: masked(given),
        })
    }

    /// Whether it is a URL of a database; no file that it names is read.
    ///
    /// # Errors
    ///
    /// If it is not one: a sentence without the password.
    pub fn check_url(url: &str) -> Result<(), String> {
        parse(url).map(drop)
    }

    /// The URL without its password.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// A separate connection. PostgreSQL's end also notices when our machine is gone,
    /// since the connection may hold locks that others wait for.
    pub(crate) fn connect(&self) -> Result<Client, StoreError> {
        let wrap = |error| self.failed(&error);
        let mut client = self.config.connect(self.tls.clone()).map_err(wrap)?;
        client.batch_execute(NOTICE_SILENCE).map_err(wrap)?;
        Ok(client)
    }

    /// The error, with the database that it is about.
    pub(crate) fn failed(&self, error: &postgres::Error) -> StoreError {
        let reason = reason(error);
        let reason = match self.tls.advice(&reason) {
            Some(advice) => format!("{reason}: {advice}"),
            None => reason,
        };
        let url = self.shown.clone();
        StoreError::Postgres { url, reason }
    }

    /// The database does not know of a grant that its cluster has made.
    pub(super) fn behind(&self, partition: i32) -> StoreError {
        StoreError::Postgres {
            url: self.shown.clone(),
            reason: format!(
                "it knows an earlier owner of partition {partition}, so it is not the primary any more"
            ),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.shown.clone().into()
    }
}

/// The URL without its TLS parameters, for the client library, and the TLS parameters.
fn parse(given: &str) -> Result<(String, Config, TlsQuery), String> {
    let is_url = ["postgres://", "postgresql://"]
        .iter()
        .any(|head| given.starts_with(head));
    let (url, tls) = TlsQuery::take(given)?;
    let config: Result<Config, _> = url.parse();
    let mut config = config.ok().filter(|_| is_url).ok_or(NO_URL)?;
    config.ssl_mode(tls.check()?.0);
    name_addresses(&mut config);
    Ok((url, config, tls))
}

/// A handshake needs a name. If there is no host name, the address is the name.
fn name_addresses(config: &mut Config) {
    if config.get_hosts().is_empty() {
        for address in config.get_hostaddrs().to_vec() {
            config.host(&address.to_string());
        }
    }
}

/// The TLS parameters of a URL, some of which the client library does not know.
#[derive(Debug, Default, PartialEq, Eq)]
struct TlsQuery {
    mode: Option<String>,
    roots: Option<PathBuf>,
}

impl TlsQuery {
    /// Takes it out of a URL, which is left without it.
    fn take(url: &str) -> Result<(String, Self), String> {
        let Some((place, query)) = split_query(url)? else {
            return Ok((url.to_owned(), Self::default()));
        };
        let mut found = Self::default();
        let mut rest = Vec::new();
        for pair in query.split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match decoded(key)?.as_str() {
                "sslmode" => found.mode = Some(decoded(value)?),
                "sslrootcert" => found.roots = Some(decoded(value)?.into()),
                _ => rest.push(pair),
            }
        }
        let url = match rest.is_empty() {
            true => place.to_owned(),
            false => format!("{place}?{}", rest.join("&")),
        };
        Ok((url, found))
    }

    /// As PostgreSQL's own clients do, except that we refuse a root file which they
    /// would ignore.
    fn check(&self) -> Result<(SslMode, Check), String> {
        let roots = self.roots.as_deref();
        // Without a check of the name, any certificate of any web site would be
        // accepted.
        if roots.is_some_and(is_system) && !matches!(self.mode(), None | Some("verify-full")) {
            return Err(WEAK_SYSTEM.to_owned());
        }
        Ok(match self.mode() {
            None if roots.is_some_and(is_system) => (SslMode::Require, Check::SignatureAndName),
            None | Some("prefer") if roots.is_some() => return Err(WEAK_ROOTS.to_owned()),
            Some("disable") => (SslMode::Disable, Check::Nothing),
            None | Some("prefer") => (SslMode::Prefer, Check::Nothing),
            // A user who names a root file, or has one in the home folder, wants it to
            // be checked.
            Some("require") if roots.is_some() || own_roots().is_some() => {
                (SslMode::Require, Check::Signature)
            }
            Some("require") => (SslMode::Require, Check::Nothing),
            Some("verify-ca") => (SslMode::Require, Check::Signature),
            Some("verify-full") => (SslMode::Require, Check::SignatureAndName),
            Some(other) => return Err(refused_mode(other)),
        })
    }

    fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }
}

/// A URL's query and what stands before it. The client ends the user and the password
/// at the first `@`, and begins the query at the first `?` after it.
fn split_query(url: &str) -> Result<Option<(&str, &str)>, String> {
    let after_login = match url.split_once('@') {
        Some((login, _)) if is_of_query(login) => return Err(AT_IN_QUERY.to_owned()),
        Some((login, _)) => login.len() + 1,
        None => 0,
    };
    let start = url[after_login..].find('?').map(|at| after_login + at);
    Ok(start.map(|at| (&url[..at], &url[at + 1..])))
}

/// Whether the first `@` stands in a query, not behind a login, so that the client would
/// take the query for a user or a password.
fn is_of_query(login: &str) -> bool {
    let login = login.split_once("://").map_or(login, |(_, login)| login);
    let user = login.split(':').next().unwrap_or_default();
    let says_of_tls = ["sslmode=", "sslrootcert="].map(|name| login.contains(name));
    user.contains('?') || says_of_tls.contains(&true)
}

/// What follows a word may be a password, as in `require;password=`.
fn refused_mode(mode: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let found = match mode.chars().all(is_word) {
        true => format!("`{mode}`"),
        false => "this".to_owned(),
    };
    format!("sslmode: {found} is not allowed; {SSL_MODES}")
}

/// A value of a query, with its `%2F` and the like as characters.
fn decoded(value: &str) -> Result<String, String> {
    let pair = format!("v={}", value.replace('+', "%2B"));
    let mut pairs = form_urlencoded::parse(pair.as_bytes());
    let value = pairs.next().map(|(_, value)| value.into_owned());
    value.ok_or_else(|| NO_URL.to_owned())
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
    // A second `@` shows that the first one was meant as part of the password.
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

/// A peer that acknowledges nothing is gone. If its kernel has acknowledged COMMIT and
/// only the answer is missing, only keep-alives can detect that.
fn notice_silence(config: &mut Config, url: &str) {
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_MAX);
    }
    // Its default is two hours, which cannot be told from an explicit value.
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

/// The error with its causes: the first one alone says little.
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
const SSL_MODES: &str = "give one of: disable, prefer, require, verify-ca, verify-full";
const WEAK_SYSTEM: &str = "sslrootcert=system needs sslmode=verify-full: without the name, any \
    certificate of the web would do";
const WEAK_ROOTS: &str = "sslrootcert is not looked at with sslmode=prefer, which is the default; \
    give sslmode=verify-full, or verify-ca where the certificate has another name";
const AT_IN_QUERY: &str = "write an @ behind the ? as %40, since the first @ ends the password";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time without an acknowledgement the peer is gone.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const KEEPALIVES_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVES_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVES_RETRIES: u32 = 3;
/// The same for PostgreSQL's end, in seconds and milliseconds; it does not change Unix
/// sockets, whose ends always notice each other's end.
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
    fn the_tls_parameters_are_removed_from_a_url() {
        let (url, tls) =
            TlsQuery::take("postgres://h/d?sslmode=verify-full&a=b&sslrootcert=%2Fa+b").unwrap();
        assert_eq!(url, "postgres://h/d?a=b");
        assert_eq!(tls.mode.as_deref(), Some("verify-full"));
        assert_eq!(tls.roots, Some("/a+b".into()));
        let (url, tls) = TlsQuery::take("postgres://u:p?w@h/d").unwrap();
        assert_eq!(
            (url.as_str(), tls),
            ("postgres://u:p?w@h/d", TlsQuery::default())
        );
        let error = PostgresOptions::new("postgres://h/d?sslmode=maybe").unwrap_err();
        assert!(
            error.contains("`maybe` is not allowed; give one of: disable"),
            "{error}"
        );
        let error = PostgresOptions::new("postgres://h/d?sslmode=verify-ca&sslrootcert=/no/file");
        let error = error.unwrap_err();
        assert!(
            error.starts_with("sslrootcert /no/file: No such file"),
            "{error}"
        );
    }

    #[test]
    fn the_tls_mode_of_a_url_is_found_in_any_form() {
        let mode =
            |url: &str| PostgresOptions::new(url).map(|options| options.config.get_ssl_mode());
        for query in [
            "sslmode=require&application_name=a?b",
            "application_name=a?b&sslmode=require",
            "%73slmode=require",
        ] {
            let url = format!("postgres://u:p?w@h/d?{query}");
            assert_eq!(mode(&url), Ok(SslMode::Require), "{query}");
        }
        // The client ends a user name and a password at the first @.
        for url in [
            "postgres://h/d?sslmode=require&application_name=a@b",
            "postgres://h:5432/d?sslmode=require&application_name=a@b",
            "postgres://h/d?user=u&application_name=a@b",
        ] {
            let error = mode(url).unwrap_err();
            assert!(error.contains("%40"), "{url}: {error}");
        }
    }

    #[test]
    fn given_root_certificates_are_loaded_or_refused() {
        let check = |query: &str| {
            let (_, tls) = TlsQuery::take(&format!("postgres://h/d?{query}")).unwrap();
            tls.check()
        };
        let full = Ok((SslMode::Require, Check::SignatureAndName));
        assert_eq!(check("sslrootcert=system"), full);
        assert_eq!(check("sslrootcert=system&sslmode=verify-full"), full);
        for mode in ["disable", "prefer", "require", "verify-ca"] {
            let error = check(&format!("sslrootcert=system&sslmode={mode}")).unwrap_err();
            assert!(error.contains("sslmode=verify-full"), "{mode}: {error}");
        }
        for query in ["sslrootcert=/a", "sslrootcert=/a&sslmode=prefer"] {
            let error = check(query).unwrap_err();
            assert!(error.contains("sslmode=verify-full"), "{query}: {error}");
        }
        let signed = Ok((SslMode::Require, Check::Signature));
        assert_eq!(check("sslrootcert=/a&sslmode=require"), signed);
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
