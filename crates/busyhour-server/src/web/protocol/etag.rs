//! Answers that a client already has are not sent again (RFC 9110 §13.1.2).

use super::version::ROOT;
use axum::{
    body::{Body, HttpBody, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Gives each short answer in JSON a tag, and answers 304 if the client has it.
pub(in crate::web) async fn tag(request: Request, next: Next) -> Response {
    let is_read = request.method() == Method::GET && request.uri().path().starts_with(ROOT);
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let response = next.run(request).await;
    let len = response.body().size_hint().exact();
    // Some handlers tag a part that seldom changes, which says nothing about the rest.
    let is_tagged = is_read
        && response.status() == StatusCode::OK
        && !response.headers().contains_key(header::ETAG)
        && is_json(response.headers())
        && len.is_some_and(|len| len <= TAGGED_LEN_MAX as u64);
    if !is_tagged {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // It is in memory already, and shorter than the limit.
    let bytes = to_bytes(body, TAGGED_LEN_MAX).await.unwrap_or_default();
    let tag = of_bytes(&bytes);
    let is_known = known.as_ref().is_some_and(|known| names(known, &tag));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        head.headers.insert(header::ETAG, tag);
    }
    head.headers
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if !is_known {
        return Response::from_parts(head, Body::from(bytes));
    }
    head.status = StatusCode::NOT_MODIFIED;
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.remove(header::CONTENT_TYPE);
    Response::from_parts(head, Body::empty())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// The tag of a value.
pub(in crate::web) fn of(value: &impl Serialize) -> String {
    of_bytes(&serde_json::to_vec(value).unwrap_or_default())
}

pub(super) fn of_bytes(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let digits = hash
        .iter()
        .take(TAG_BYTES)
        .fold(String::new(), |mut text, byte| {
            // A string takes everything.
            let _ = write!(text, "{byte:02x}");
            text
        });
    format!("\"{digits}\"")
}

/// Whether a header If-None-Match has the tag.
fn names(known: &HeaderValue, tag: &str) -> bool {
    let known = known.to_str().unwrap_or_default();
    let mut tags = known
        .split(',')
        .map(|one| one.trim().trim_start_matches("W/"));
    tags.any(|one| one == tag || one == "*")
}

/// Longer answers are sent each time.
pub(super) const TAGGED_LEN_MAX: usize = 4 << 20;
const TAG_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_weakly() {
        let tag = of_bytes(b"{}");
        assert_eq!(tag.len(), 2 + 2 * TAG_BYTES);
        let names = |text: &str| names(&HeaderValue::try_from(text).unwrap(), &tag);
        assert!(names(&tag) && names("*") && names(&format!("\"x\", W/{tag}")));
        assert!(!names("\"x\"") && !names(""));
        assert_ne!(tag, of_bytes(b"[]"));
    }
}
