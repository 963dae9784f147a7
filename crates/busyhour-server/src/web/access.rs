//! Access over HTTP: hosts, tokens and their scopes.
//!
//! 1. A request for a host that is not this server is refused in any case: a page of
//!    another site may have let its name point to this server.
//! 2. Reading needs no token on this machine; from elsewhere it needs one. A token that is shown
//!    has to be known.
//! 3. Changing, and tracing what devices say, needs a token of the scope `write` as `Authorization: Bearer`. No browser
//!    sends this by itself, so no other page can misuse it.

use super::{
    Scope, Token,
    api::trace::PATH as TRACE,
    connection::connections::ClientAddress,
    domain_scope::DomainScope,
    page,
    rate_limit::{RateLimit, Requester, retry_after},
};
use crate::server::HttpStats;
use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use busyhour_store::SettingRows;
use sha2::{Digest, Sha256};
use std::{
    net::IpAddr,
    sync::{
        Arc, PoisonError, RwLock, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use subtle::ConstantTimeEq;

/// The server's own host names, and the valid tokens.
#[derive(Default)]
pub struct Access {
    hosts: Vec<String>,
    tokens: RwLock<Tokens>,
    unauthorized: AtomicU64,
    forbidden: AtomicU64,
    misdirected: AtomicU64,
    rate: Option<RateLimit>,
    limited: AtomicU64,
}

/// Who sends a request, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Visitor {
    /// The name of the token, if one was shown.
    pub(super) token: Option<String>,
    pub(super) scope: Scope,
    pub(super) domain: Option<String>,
}

impl Visitor {
    /// A program of the server's user, on the local socket.
    pub(super) fn local() -> Self {
        Self {
            token: None,
            scope: Scope::Write,
            domain: None,
        }
    }

    /// Somebody without a token, who may read at most.
    fn stranger() -> Self {
        Self {
            scope: Scope::Read,
            ..Self::local()
        }
    }
}

#[derive(Default)]
struct Tokens {
    configured: Vec<Token>,
    stored: Vec<Token>,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
enum Denial {
    /// The request names a host that is not this server.
    Misdirected,
    /// It needs a token and has none.
    Unauthorized(Scope),
    /// It needs a token, but its token is unknown.
    Unknown(Scope),
    /// Its token is good, but not for this.
    Forbidden,
    /// Its token is for one domain, and this is not of it.
    Elsewhere(String),
    /// Its token or source has sent too many; it has to wait so long.
    TooMany(Duration),
}

impl Access {
    /// Serves `hosts` beside addresses and `localhost`, and accepts `tokens`.
    pub fn new(hosts: Vec<String>, tokens: Vec<Token>) -> Self {
        Self {
            hosts,
            tokens: RwLock::new(Tokens {
                configured: tokens,
                stored: Vec::new(),
            }),
            ..Self::default()
        }
    }

    /// Lets a token, or a source without one, send so many requests in a second.
    #[must_use]
    pub fn with_rate(self, per_second: u32) -> Self {
        Self {
            rate: Some(RateLimit::new(per_second)),
            ..self
        }
    }

    /// As [`with_rate`](Self::with_rate), from now on; without a limit before, nothing.
    pub fn set_rate(&self, per_second: u32) {
        if let Some(rate) = &self.rate {
            rate.set(per_second);
        }
    }

    /// Replaces the accepted tokens of the configuration.
    pub fn replace_tokens(&self, tokens: Vec<Token>) {
        self.write().configured = tokens;
    }

    /// Replaces the accepted tokens of the store. A row that cannot be read was
    /// written by a newer version, and is ignored.
    pub fn replace_stored(&self, rows: &SettingRows) {
        let tokens = rows.iter();
        let tokens = tokens.filter_map(|(name, row)| Token::of_row(name, row));
        let tokens = tokens.collect();
        self.write().stored = tokens;
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tokens> {
        self.tokens.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts of refused requests.
    pub fn stats(&self) -> HttpStats {
        HttpStats {
            unauthorized: self.unauthorized.load(Ordering::Relaxed),
            forbidden: self.forbidden.load(Ordering::Relaxed),
            misdirected: self.misdirected.load(Ordering::Relaxed),
            rate_limited: self.limited.load(Ordering::Relaxed),
            ..HttpStats::default()
        }
    }

    /// Who sends the request.
    fn check(&self, request: &Request, peer: IpAddr) -> Result<Visitor, Denial> {
        if !self.serves(request) {
            return Err(Denial::Misdirected);
        }
        let path = request.uri().path();
        let needed = needed(request.method(), path);
        let visitor = self.visitor(request.headers(), needed);
        let holder = match visitor.as_ref().and_then(|visitor| visitor.token.clone()) {
            Some(token) => Requester::Token(token),
            None => Requester::Source(peer),
        };
        if path != HEALTH
            && let Some(rate) = &self.rate
        {
            rate.take(holder, Instant::now()).map_err(Denial::TooMany)?;
        }
        let is_here = peer.to_canonical().is_loopback();
        let is_public = path == HEALTH || page::is_public(path);
        let is_free = needed == Scope::Read && (is_here || is_public);
        if is_free && is_public {
            return Ok(visitor.unwrap_or(Visitor::stranger()));
        }
        match visitor {
            // It may have been for one domain, so its holder is not taken for somebody without a token, who sees all.
            None if shows_bearer(request.headers()) => Err(Denial::Unknown(needed)),
            // A login may be that of a proxy on this machine, which has checked it.
            None if is_free => Ok(Visitor::stranger()),
            None if shows_login(request.headers(), needed) => Err(Denial::Unknown(needed)),
            None => Err(Denial::Unauthorized(needed)),
            // Who shows a token of one domain sees that alone, on this machine too.
            Some(visitor) if is_free && visitor.domain.is_none() => Ok(visitor),
            Some(visitor) if visitor.scope < needed => Err(Denial::Forbidden),
            Some(visitor) => {
                let scope = DomainScope::new(visitor.domain.as_deref());
                let checked = scope.check_path(needed == Scope::Read, path);
                checked.map(|()| visitor).map_err(Denial::Elsewhere)
            }
        }
    }

    /// Whether the request names a host of this server. A request without a host does
    /// not come from a current browser.
    fn serves(&self, request: &Request) -> bool {
        let named = request.uri().host().map(str::to_owned).or_else(|| {
            let value = request.headers().get(header::HOST)?;
            Some(without_port(value.to_str().unwrap_or("?")).to_owned())
        });
        named.is_none_or(|host| {
            let bare = host.trim_start_matches('[').trim_end_matches(']');
            bare.parse::<IpAddr>().is_ok()
                || host.eq_ignore_ascii_case("localhost")
                || self
                    .hosts
                    .iter()
                    .any(|ours| ours.eq_ignore_ascii_case(&host))
        })
    }

    /// Whose token a request has; `None` without a valid token.
    fn visitor(&self, headers: &HeaderMap, needed: Scope) -> Option<Visitor> {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, credentials) = value.split_once(' ')?;
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.find(credentials.trim().as_bytes());
        }
        // A browser whose user has entered a token sends it again by itself, even for
        // another site's page. So Basic allows only reading.
        let is_login = scheme.eq_ignore_ascii_case("basic") && needed == Scope::Read;
        let login = is_login.then(|| base64(credentials.trim()))??;
        let colon = login.iter().position(|&byte| byte == b':')?;
        self.find(&login[colon + 1..])
    }

    /// Compares with every token; the time does not depend on where they differ.
    fn find(&self, token: &[u8]) -> Option<Visitor> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for token in tokens.configured.iter().chain(&tokens.stored) {
            if bool::from(token.sha256.ct_eq(&hash)) {
                found = Some(Visitor {
                    token: Some(token.name.clone()),
                    scope: token.scope,
                    domain: token.domain.clone(),
                });
            }
        }
        found
    }

    fn deny(&self, denial: &Denial) -> Response {
        let counter = match denial {
            Denial::Misdirected => &self.misdirected,
            Denial::Unauthorized(_) | Denial::Unknown(_) => &self.unauthorized,
            Denial::Forbidden | Denial::Elsewhere(_) => &self.forbidden,
            Denial::TooMany(_) => &self.limited,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        match denial {
            Denial::Misdirected => (StatusCode::MISDIRECTED_REQUEST, MISDIRECTED).into_response(),
            Denial::Forbidden => (StatusCode::FORBIDDEN, FORBIDDEN).into_response(),
            Denial::Elsewhere(reason) => (StatusCode::FORBIDDEN, reason.clone()).into_response(),
            Denial::TooMany(wait) => (
                StatusCode::TOO_MANY_REQUESTS,
                [retry_after(*wait)],
                TOO_MANY,
            )
                .into_response(),
            Denial::Unauthorized(needed) => unauthorized(*needed, false),
            Denial::Unknown(needed) => unauthorized(*needed, true),
        }
    }
}

/// Lets a request pass, or answers it.
pub(super) async fn guard(
    State(access): State<Arc<Access>>,
    Extension(ClientAddress(peer)): Extension<ClientAddress>,
    mut request: Request,
    next: Next,
) -> Response {
    match access.check(&request, peer.ip()) {
        Ok(visitor) => {
            let scope = DomainScope::new(visitor.domain.as_deref());
            request.extensions_mut().insert(scope);
            request.extensions_mut().insert(visitor);
            next.run(request).await
        }
        Err(denial) => access.deny(&denial),
    }
}

/// Graphite's requests may be forms, although they only read.
pub(super) fn needed(method: &Method, path: &str) -> Scope {
    let is_form = || method == Method::POST && FORMS.contains(&path.trim_end_matches('/'));
    // What devices say is private, also on this machine.
    let is_private = path == TRACE;
    let only_reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) || is_form();
    match only_reads && !is_private {
        true => Scope::Read,
        false => Scope::Write,
    }
}

/// Whether the request has a token of its own, as programs send it.
fn shows_bearer(headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION);
    let scheme = value.and_then(|value| value.as_bytes().get(..BEARER_LEN));
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"))
}

/// Whether it has other credentials, such as the login of a browser, which count for reading alone.
fn shows_login(headers: &HeaderMap, needed: Scope) -> bool {
    needed == Scope::Read && headers.contains_key(header::AUTHORIZATION)
}

fn unauthorized(needed: Scope, is_unknown: bool) -> Response {
    let (text, schemes) = match needed {
        Scope::Read => (NO_READER, [BEARER, BASIC].as_slice()),
        Scope::Write => (NO_WRITER, [BEARER].as_slice()),
    };
    let text = if is_unknown { UNKNOWN } else { text };
    let mut response = (StatusCode::UNAUTHORIZED, text).into_response();
    for scheme in schemes {
        let value = HeaderValue::from_static(scheme);
        response
            .headers_mut()
            .append(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// `example.org:8080`, `[::1]:8080`, `example.org`.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// RFC 4648 §4, as browsers write it.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

const HEALTH: &str = "/healthz";
const FORMS: [&str; 3] = ["/render", "/metrics/find", "/metrics/expand"];
const BEARER: &str = "Bearer realm=\"busyhour\"";
const BASIC: &str = "Basic realm=\"busyhour: a token as the password\"";
const MISDIRECTED: &str =
    "the server does not serve this host name; add it to http.hosts, or use the IP address\n";
const FORBIDDEN: &str = "this token may only read; use one of scope write\n";
const TOO_MANY: &str = "too many requests in a second; wait as long as Retry-After says, ask for more at a time, \
    or raise http.requests_per_second\n";
const NO_READER: &str = "reading from another machine needs a token: \
    Authorization: Bearer TOKEN, or the token as the password of a login\n";
const BEARER_LEN: usize = "bearer".len();
const UNKNOWN: &str = "the server does not know this token; `busyhour token add NAME` makes one in its \
    store that it takes at once, or give its configuration a [[token]] and send SIGHUP\n";
const NO_WRITER: &str = "changing something, and tracing messages, needs a token of scope write: \
    Authorization: Bearer TOKEN; make one with: busyhour token add NAME --scope write\n";

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    const HERE: &str = "127.0.0.1";
    const AWAY: &str = "192.0.2.1";

    fn access() -> Access {
        let tokens = vec![
            Token::new("grafana", Scope::Read, "reading"),
            Token::new("shop", Scope::Write, "writing"),
        ];
        Access::new(vec!["pbx.example.com".into()], tokens)
    }

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    fn check(from: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(), Denial> {
        let checked = access().check(&request(method, path, headers), from.parse().unwrap());
        checked.map(drop)
    }

    #[test]
    fn only_requests_for_known_hosts_are_served() {
        let host = |host| check(HERE, "GET", "/", &[("host", host)]);
        for ours in [
            "127.0.0.1:8080",
            "[::1]:8080",
            "localhost",
            "PBX.example.com:80",
            "10.0.0.1",
        ] {
            assert_eq!(host(ours), Ok(()), "{ours}");
        }
        for foreign in [
            "evil.example",
            "127.0.0.1.evil.example",
            "pbx.example.com.evil:80",
            "",
        ] {
            assert_eq!(host(foreign), Err(Denial::Misdirected), "{foreign}");
        }
    }

    #[test]
    fn reading_is_allowed_on_loopback_and_needs_a_token_elsewhere() {
        assert_eq!(check(HERE, "GET", "/", &[]), Ok(()));
        let here = |shown| check(HERE, "GET", "/metrics", &[("authorization", shown)]);
        assert_eq!(here("Basic eDpx"), Ok(()), "the login of a proxy");
        let unknown = Err(Denial::Unknown(Scope::Read));
        assert_eq!(here("Bearer x"), unknown, "it may be of a domain");
        assert_eq!(check("::ffff:127.0.0.1", "POST", "/render/", &[]), Ok(()));
        let denied = Err(Denial::Unauthorized(Scope::Read));
        for path in ["/metrics", "/api/v1/changes"] {
            assert_eq!(check(AWAY, "GET", path, &[]), denied);
        }
        assert_eq!(check(AWAY, "GET", "/", &[]), Ok(()), "the page has no data");
        for good in ["Bearer reading", "bearer writing", "Basic eDpyZWFkaW5n"] {
            assert_eq!(
                check(AWAY, "GET", "/metrics", &[("authorization", good)]),
                Ok(()),
                "{good}"
            );
        }
        for bad in [
            "Bearer",
            "Bearer x",
            "Basic eDpyZWFkaW5",
            "Basic !",
            "Digest reading",
        ] {
            assert_eq!(
                check(AWAY, "GET", "/metrics", &[("authorization", bad)]),
                Err(Denial::Unknown(Scope::Read)),
                "{bad}"
            );
        }
        assert_eq!(check(AWAY, "GET", "/healthz", &[]), Ok(()));
    }

    #[test]
    fn changing_needs_a_token_that_may_change() {
        let put = |value| {
            check(
                HERE,
                "PUT",
                "/api/v1/accounts/a",
                &[("authorization", value)],
            )
        };
        assert_eq!(put("Bearer writing"), Ok(()));
        assert_eq!(put("Bearer reading"), Err(Denial::Forbidden));
        let denied = Err(Denial::Unauthorized(Scope::Write));
        assert_eq!(put("Basic eDp3cml0aW5n"), denied);
        assert_eq!(put("Bearer writting"), Err(Denial::Unknown(Scope::Write)));
        assert_eq!(check(HERE, "DELETE", "/", &[]), denied);
        assert_eq!(check(HERE, "POST", "/api/v1/stats", &[]), denied);
    }

    #[test]
    fn tokens_can_be_replaced_and_refusals_are_counted() {
        let access = access();
        access.replace_tokens(Vec::new());
        assert_eq!(access.find(b"writing"), None);
        access.deny(&Denial::Unauthorized(Scope::Read));
        access.deny(&Denial::Forbidden);
        access.deny(&Denial::Misdirected);
        let HttpStats {
            unauthorized,
            forbidden,
            misdirected,
            ..
        } = access.stats();
        assert_eq!([unauthorized, forbidden, misdirected], [1; 3]);
    }

    #[test]
    fn too_many_requests_are_told_when_to_come_again() {
        let access = access().with_rate(1);
        let here = HERE.parse().unwrap();
        let check = |path: &str| access.check(&request("GET", path, &[]), here).map(drop);
        assert_eq!(check("/api/v1/stats"), Ok(()));
        let Err(denial @ Denial::TooMany(_)) = check("/api/v1/stats") else {
            panic!("no limit");
        };
        assert_eq!(
            check("/healthz"),
            Ok(()),
            "whoever watches the server is answered"
        );
        let answer = access.deny(&denial);
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(answer.headers()[header::RETRY_AFTER], "1");
        assert_eq!(access.stats().rate_limited, 1);
    }

    #[test]
    fn base64_of_the_rfc() {
        for (text, bytes) in [("Zm9vYmFy", "foobar"), ("Zm9vYg==", "foob"), ("", "")] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(base64("Zm9v YmFy"), None);
    }
}
