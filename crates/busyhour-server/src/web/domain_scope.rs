//! The domain that a token is for: what such a token sees and changes of the HTTP interface.
//!
//! A token for one domain reaches only the paths that know domains. The guard refuses all
//! others, and names of other domains in a path; lists leave out what is of other domains.

use crate::server::is_of_domain;
use crate::web::protocol::version::ROOT;
use axum::{
    extract::FromRequestParts,
    http::{StatusCode, request::Parts},
};
use std::{convert::Infallible, sync::Arc};

/// The domain of the token of a request; none if it is for all domains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DomainScope(Option<Arc<str>>);

impl DomainScope {
    pub(super) fn new(domain: Option<&str>) -> Self {
        Self(domain.map(Arc::from))
    }

    pub(super) fn domain(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Whether a name of an account, mailbox or extension is of the domain.
    pub(super) fn covers(&self, name: &str) -> bool {
        self.domain().is_none_or(|own| is_of_domain(name, own))
    }

    /// Checks the names in a body. A name without a domain is of the domain of the path.
    pub(super) fn check_names<'n>(
        &self,
        names: impl IntoIterator<Item = &'n String>,
    ) -> Result<(), (StatusCode, String)> {
        let mut named = names.into_iter().filter(|name| name.contains('@'));
        match named.find(|name| !self.covers(name)) {
            Some(name) => Err((StatusCode::FORBIDDEN, self.refusal(name))),
            None => Ok(()),
        }
    }

    /// Why a request for a path is refused.
    pub(super) fn check_path(&self, is_reading: bool, path: &str) -> Result<(), String> {
        let Some(domain) = self.domain() else {
            return Ok(());
        };
        if path == "/healthz" {
            return Ok(());
        }
        let rest = path.trim_end_matches('/').strip_prefix(ROOT);
        let mut parts = rest.unwrap_or_default().splitn(3, '/').skip(1);
        let (kind, name) = (parts.next(), parts.next());
        let is_known =
            kind.is_some_and(|kind| LISTS.contains(&kind) || is_reading && READ.contains(&kind));
        // A command below a name is about the name.
        let name = name.map(|name| decoded(name.split('/').next().unwrap_or(name)));
        match (kind, name) {
            _ if !is_known => Err(self.refusal(path)),
            (Some("tenants"), Some(name)) if name == domain => Ok(()),
            (Some("tenants"), Some(name)) => Err(self.refusal(&name)),
            (_, Some(name)) if !self.covers(&name) => Err(self.refusal(&name)),
            _ => Ok(()),
        }
    }

    fn refusal(&self, what: &str) -> String {
        let domain = self.domain().unwrap_or_default();
        format!("this token is for the domain {domain} alone, and `{what}` is not of it\n")
    }
}

impl<S: Sync> FromRequestParts<S> for DomainScope {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// A part of a path without its escapes, as the routes see it.
pub(super) fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Paths whose handlers know domains.
const LISTS: [&str; 5] = ["accounts", "bindings", "mailboxes", "hints", "lists"];
/// Those that may only be read.
const READ: [&str; 6] = [
    "tenants",
    "failures",
    "changes",
    "devices",
    "session",
    "openapi.json",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_a_domain_reaches_its_own_names_alone() {
        let scope = DomainScope::new(Some("a.example"));
        let reads = |path: &str| scope.check_path(true, path).is_ok();
        for path in [
            "/api/v1/accounts",
            "/api/v1/accounts/alice@a.example",
            "/api/v1/accounts/alice%40a.example",
            "/api/v1/bindings/sip:alice@a.example",
            "/api/v1/bindings/sip%3Aalice%40a.example%3Bgr",
            "/api/v1/hints/200@a.example",
            "/api/v1/lists/panel@a.example",
            "/api/v1/tenants/a.example",
            "/api/v1/changes",
            "/healthz",
        ] {
            assert!(reads(path), "{path}");
        }
        for path in [
            "/api/v1/accounts/alice",
            "/api/v1/accounts/alice@b.example",
            "/api/v1/lists/panel",
            "/api/v1/accounts/alice@a.example@b.example",
            "/api/v1/tenants/b.example",
            "/api/v1/stats",
            "/api/v1/call-records",
            "/metrics",
            "/",
            "//api/v1/accounts",
            "/api",
        ] {
            assert!(!reads(path), "{path}");
        }
        let writes = |path: &str| scope.check_path(false, path).is_ok();
        assert!(writes("/api/v1/accounts/bob@a.example"));
        assert!(!writes("/api/v1/tenants/a.example"), "its own quotas");
        assert!(!writes("/api/v1/changes"));
        let names = ["bob".to_owned(), "sales@b.example".to_owned()];
        assert!(scope.check_names(&names[..1]).is_ok());
        assert!(scope.check_names(&names).is_err());
        assert!(DomainScope::default().check_path(false, "/metrics").is_ok());
    }
}
