//! Which requests are about more than this node.

use super::asked_list::{AskedList, LISTS};
use crate::web::{domain_scope::decoded, protocol::version::ROOT};
use axum::{
    extract::Query,
    http::{Method, Uri},
};

/// What a request is about.
pub(super) struct AskedRequest {
    pub(super) subject: AskedSubject,
    /// The one node that is to answer.
    pub(super) node: Option<String>,
    /// The longest page.
    pub(super) limit: usize,
    pub(super) is_descending: bool,
    /// The same for one node, if it differs.
    pub(super) target_here: Option<Uri>,
}

/// What is wanted.
pub(super) enum AskedSubject {
    /// A device, by a name of its address of record.
    Device(String),
    List(&'static AskedList),
}

impl AskedRequest {
    /// `None` if it is about this node.
    pub(super) fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let path = uri.path().strip_prefix(ROOT)?.trim_end_matches('/');
        let (kind, name) = match path.strip_prefix('/')?.split_once('/') {
            Some((kind, name)) => (kind, Some(name)),
            None => (path.strip_prefix('/')?, None),
        };
        let subject = match name {
            Some(name) => BY_NAME.contains(&kind) && !name.contains('/'),
            None => *method == Method::GET || *method == Method::HEAD,
        };
        let list = LISTS.iter().find(|list| list.kind == kind)?;
        if !subject {
            return None;
        }
        let Query(given) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
        let value = |wanted: &str| {
            let found = given.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.clone())
        };
        // A user alone may have an address of record in several domains.
        let address = value("user").filter(|user| user.contains(['@', ':']));
        let subject = match name {
            Some(name) => AskedSubject::Device(decoded(name)),
            None => match address.filter(|_| list.is_by_address) {
                Some(address) => AskedSubject::Device(address),
                None => AskedSubject::List(list),
            },
        };
        let node = value("node");
        // A wrong one is refused by the handler.
        let asked = value("limit").and_then(|limit| limit.parse().ok());
        let limit = asked.unwrap_or(list.limit).min(LIMIT_MAX);
        let is_too_long = asked.is_some_and(|asked| asked > limit && asked <= LIMIT_ANYWHERE_MAX);
        let is_cut = node.is_none() && is_too_long;
        Some(Self {
            subject,
            limit,
            is_descending: value("sort").is_some_and(|sort| sort.starts_with('-')),
            target_here: (node.is_some() || is_cut)
                .then(|| cut(uri, is_cut))
                .flatten(),
            node,
        })
    }
}

/// Without `node`, and with the longest page that goes over NATS.
fn cut(uri: &Uri, is_cut: bool) -> Option<Uri> {
    let names = |part: &&str, name: &str| part.split('=').next() == Some(name);
    let given = uri.query().unwrap_or_default().split('&');
    let kept = given.filter(|part| !(names(part, "node") || is_cut && names(part, "limit")));
    let limit = is_cut.then(|| format!("limit={LIMIT_MAX}"));
    let kept: Vec<_> = kept.map(str::to_owned).chain(limit).collect();
    let query = match kept.is_empty() {
        true => String::new(),
        false => format!("?{}", kept.join("&")),
    };
    format!("{}{query}", uri.path()).parse().ok()
}

/// Lists whose entries are asked for by the name of a device.
const BY_NAME: [&str; 2] = ["bindings", "devices"];
/// A page of one node has to go through NATS.
const LIMIT_MAX: usize = 1000;
/// What more is refused, in a cluster or not.
const LIMIT_ANYWHERE_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(method: &Method, uri: &str) -> Option<AskedRequest> {
        AskedRequest::of(method, &uri.parse().expect("a URI"))
    }

    #[test]
    fn a_request_is_about_a_device_a_list_or_this_node() {
        let device = |method, uri: &str| match wanted(method, uri)?.subject {
            AskedSubject::Device(name) => Some(name),
            AskedSubject::List(_) => None,
        };
        let list = |uri: &str| match wanted(&Method::GET, uri)?.subject {
            AskedSubject::Device(_) => None,
            AskedSubject::List(list) => Some(list.kind),
        };
        let bob = Some("sip:bob@example.com".to_owned());
        for uri in [
            "/api/v1/bindings/sip:bob@example.com",
            "/api/v1/bindings/sip%3Abob%40example.com/",
            "/api/v1/devices/sip:bob@example.com?node=beta",
            "/api/v1/bindings?user=sip%3Abob%40example.com",
        ] {
            assert_eq!(device(&Method::GET, uri), bob, "{uri}");
        }
        assert_eq!(
            device(&Method::DELETE, "/api/v1/bindings/sip:bob@example.com"),
            bob
        );
        for kind in ["bindings", "devices", "watchers", "calls", "failures"] {
            assert_eq!(list(&format!("/api/v1/{kind}?limit=3")), Some(kind));
        }
        assert_eq!(list("/api/v1/bindings?user=bob"), Some("bindings"));
        for uri in [
            "/api/v1/failures?user=bob@example.com",
            "/api/v1/devices?search=bob@example.com",
        ] {
            assert!(list(uri).is_some(), "{uri}");
        }
        for uri in [
            "/api/v1/stats",
            "/api/v1/calls/7",
            "/api/v1/bindings/a/b",
            "/api/v1",
            "/",
            "/metrics",
        ] {
            assert!(wanted(&Method::GET, uri).is_none(), "{uri}");
        }
        assert!(wanted(&Method::POST, "/api/v1/calls").is_none());
    }

    #[test]
    fn one_node_is_asked_without_its_name_and_for_a_page_that_goes_through_nats() {
        let here = |uri| {
            let wanted = wanted(&Method::GET, uri).expect("it is wanted");
            let here = wanted.target_here.map(|uri| uri.to_string());
            (here, wanted.node, wanted.limit)
        };
        let given = |text: &str| Some(text.to_owned());
        for (uri, expected) in [
            ("/api/v1/devices?limit=7", (None, None, 7)),
            ("/api/v1/devices", (None, None, 100)),
            (
                "/api/v1/devices?node=beta",
                (given("/api/v1/devices"), given("beta"), 100),
            ),
            (
                "/api/v1/calls?limit=5000&node=b%20c",
                (given("/api/v1/calls?limit=5000"), given("b c"), 1000),
            ),
            (
                "/api/v1/bindings?after=a%26b&limit=5000",
                (given("/api/v1/bindings?after=a%26b&limit=1000"), None, 1000),
            ),
            ("/api/v1/bindings?limit=100001", (None, None, 1000)),
            ("/api/v1/bindings?limit=x", (None, None, 1000)),
        ] {
            assert_eq!(here(uri), expected, "{uri}");
        }
    }
}
