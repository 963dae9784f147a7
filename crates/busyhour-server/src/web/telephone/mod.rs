//! A small telephone for browsers: a page that registers and calls by SIP over WebSocket.
//!
//! The page, its style and its script are in this folder. The SIP client that it uses, JsSIP, is not:
//! `scripts/telephone.sh` fetches it as its lock file says, and the server reads the bundle when it
//! starts. So a build needs no npm, what we publish has nothing of others in it, and a newer client
//! needs no new program.

use axum::{
    Router,
    body::Bytes,
    http::{HeaderName, HeaderValue, header},
    response::{Html, IntoResponse},
    routing::get,
};
use std::{fs::File, io::Read, net::SocketAddr, path::Path};

/// What the page of the telephone needs beside itself: its SIP client, and where the server speaks
/// SIP over WebSocket.
///
/// # Examples
///
/// ```
/// use busyhour_server::web::Telephone;
///
/// let missing = Telephone::read("/nonexistent".as_ref()).unwrap_err();
/// assert!(missing.contains("scripts/telephone.sh"), "{missing}");
/// ```
#[derive(Debug, Clone)]
pub struct Telephone {
    client: Bytes,
    ws: Vec<SocketAddr>,
    wss: Vec<SocketAddr>,
}

impl Telephone {
    /// Reads the SIP client, the file `jssip.js` of at most 4 MiB, from a folder.
    ///
    /// # Errors
    ///
    /// Which file cannot be read or is no such bundle, why, and how to make it.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(CLIENT);
        let refused = |why: String| {
            let (path, folder) = (path.display(), folder.display());
            format!(
                "http.telephone: {path} {why}; `scripts/telephone.sh {folder}` of the sources makes it, \
                 and packages have it in /usr/share/busyhour/telephone"
            )
        };
        let mut client = Vec::new();
        let file =
            File::open(&path).map_err(|error| refused(format!("cannot be opened: {error}")))?;
        let read = file.take(CLIENT_LEN_MAX + 1).read_to_end(&mut client);
        read.map_err(|error| refused(format!("cannot be read: {error}")))?;
        if client.len() as u64 > CLIENT_LEN_MAX {
            return Err(refused("is longer than 4 MiB".into()));
        }
        if !client.starts_with(CLIENT_BEGIN) {
            return Err(refused("is no bundle of JsSIP".into()));
        }
        Ok(Self {
            client: client.into(),
            ws: Vec::new(),
            wss: Vec::new(),
        })
    }

    /// Tells the page at which addresses the server speaks SIP over WebSocket, without and with TLS.
    #[must_use]
    pub fn at(self, ws: Vec<SocketAddr>, wss: Vec<SocketAddr>) -> Self {
        Self { ws, wss, ..self }
    }

    /// The page and what it loads. None of it is secret, and who telephones has no token for HTTP,
    /// so these paths need none.
    pub(super) fn router(&self) -> Router {
        let page = include_str!("telephone.html").replace("{ports}", &self.ports());
        let policy = self.security_policy();
        let page = move || async move {
            let headers = [
                (header::CONTENT_SECURITY_POLICY, policy.clone()),
                (header::X_CONTENT_TYPE_OPTIONS, NOSNIFF),
                (header::CACHE_CONTROL, NO_CACHE),
                (header::REFERRER_POLICY, NO_REFERRER),
                (PERMISSIONS_POLICY, MICROPHONE_ONLY),
            ];
            (headers, Html(page.clone()))
        };
        let client = self.client.clone();
        let client = move || async move { asset(SCRIPT, client.clone()) };
        Router::new()
            .route("/telephone/", get(page))
            .route(
                "/telephone/telephone.css",
                get(|| async { asset(STYLE, PAGE_STYLE) }),
            )
            .route(
                "/telephone/telephone.js",
                get(|| async { asset(SCRIPT, PAGE_SCRIPT) }),
            )
            .route("/telephone/jssip.js", get(client))
    }

    /// `ws:8088 wss:7443`, the first of each.
    fn ports(&self) -> String {
        let first = |scheme: &str, addresses: &[SocketAddr]| {
            let port = addresses.first()?.port();
            Some(format!("{scheme}:{port}"))
        };
        let both = [first("ws", &self.ws), first("wss", &self.wss)];
        both.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Forbids everything from elsewhere, inline scripts too. A WebSocket goes to the ports of this
    /// server alone; which name the server has, only the browser knows.
    fn security_policy(&self) -> HeaderValue {
        let ws = self.ws.iter().map(|it| format!(" ws://*:{}", it.port()));
        let wss = self.wss.iter().map(|it| format!(" wss://*:{}", it.port()));
        let sockets: String = ws.chain(wss).collect();
        let policy = format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; media-src 'self' blob:; \
             img-src data:; connect-src 'self'{sockets}; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'"
        );
        HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
    }
}

fn asset(kind: &'static str, body: impl Into<Bytes>) -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::X_CONTENT_TYPE_OPTIONS, NOSNIFF),
        (header::CACHE_CONTROL, NO_CACHE),
    ];
    (headers, body.into())
}

const CLIENT: &str = "jssip.js";
/// Ten times what it is.
const CLIENT_LEN_MAX: u64 = 4 << 20;
/// How `scripts/telephone.sh` names what the page uses.
const CLIENT_BEGIN: &[u8] = b"var JsSIP=";
const PAGE_SCRIPT: &str = include_str!("telephone.js");
const PAGE_STYLE: &str = include_str!("telephone.css");
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const MICROPHONE_ONLY: HeaderValue =
    HeaderValue::from_static("microphone=(self), camera=(), geolocation=()");

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(client: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(CLIENT), client).unwrap();
        folder
    }

    #[test]
    fn the_page_says_where_the_websockets_are_and_may_connect_nowhere_else() {
        let address = |text: &str| vec![text.parse().unwrap()];
        let telephone = Telephone::read(folder(b"var JsSIP=1").path()).unwrap();
        let telephone = telephone.at(address("0.0.0.0:8088"), address("[::]:7443"));
        assert_eq!(telephone.ports(), "ws:8088 wss:7443");
        let policy = telephone.security_policy();
        let policy = policy.to_str().unwrap();
        assert!(
            policy.contains("connect-src 'self' ws://*:8088 wss://*:7443;"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        let page = include_str!("telephone.html");
        for inline in ["<script>", "<style", "onclick", "http://", "https://"] {
            assert!(!page.contains(inline), "{inline}");
        }
    }

    #[test]
    fn what_is_no_client_is_refused_with_the_way_to_make_one() {
        let long = [CLIENT_BEGIN, &vec![b' '; CLIENT_LEN_MAX as usize]].concat();
        for (client, why) in [
            (b"<html>".as_slice(), "no bundle of JsSIP"),
            (&long, "longer than 4 MiB"),
        ] {
            let refused = Telephone::read(folder(client).path()).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(refused.contains("scripts/telephone.sh"), "{refused}");
        }
    }
}
