//! Refusals of `/api/v1` as problems (RFC 9457): what is wrong, where, and what to do.

use super::version::{ROOT, Unversioned};
use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use serde::Serialize;
use utoipa::ToSchema;

/// Why a request was refused (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(in crate::web) struct HttpProblem {
    /// The meaning of the status, in words.
    title: String,
    /// The status of the answer.
    status: u16,
    /// What is wrong and what to do.
    detail: String,
    /// The path that was asked for.
    instance: String,
    /// The parameter or the field of the body that is wrong, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
}

/// Handlers refuse with a line of text; here it becomes a problem.
pub(in crate::web) async fn describe(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_described =
        path.starts_with(ROOT) && request.extensions().get::<Unversioned>().is_none();
    let instance = path.to_owned();
    // A script of a page must not make the browser ask for a password.
    let is_script = request
        .headers()
        .get("sec-fetch-dest")
        .is_some_and(|dest| dest == "empty");
    let mut response = next.run(request).await;
    let status = response.status();
    if is_script && status == StatusCode::UNAUTHORIZED {
        keep_bearer(response.headers_mut());
    }
    if !is_described || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let text = to_bytes(body, TEXT_LEN_MAX).await.unwrap_or_default();
    let problem = HttpProblem::new(status, String::from_utf8_lossy(&text).trim(), instance);
    head.headers.remove(header::CONTENT_LENGTH);
    let kind = HeaderValue::from_static(CONTENT_TYPE);
    head.headers.insert(header::CONTENT_TYPE, kind);
    // Texts and a number can always be serialized.
    Response::from_parts(
        head,
        Body::from(serde_json::to_vec(&problem).unwrap_or_default()),
    )
}

impl HttpProblem {
    fn new(status: StatusCode, text: &str, instance: String) -> Self {
        let detail = match (text.is_empty(), status) {
            (false, _) => text,
            (true, StatusCode::NOT_FOUND) => {
                "there is no such path; /api/v1/openapi.json lists them"
            }
            (true, StatusCode::METHOD_NOT_ALLOWED) => {
                "the path does not know this method; the header Allow lists those that it knows"
            }
            (true, _) => "nothing more is known; the server's log may say why",
        };
        let named = detail.split_once(": ").map(|(name, _)| name);
        let is_name = |name: &&str| {
            let mut bytes = name.bytes();
            !name.is_empty()
                && bytes
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let field = named
            .filter(is_name)
            .filter(|_| status == StatusCode::BAD_REQUEST);
        Self {
            title: status.canonical_reason().unwrap_or("Refused").to_owned(),
            status: status.as_u16(),
            detail: detail.to_owned(),
            instance,
            field: field.map(str::to_owned),
        }
    }
}

fn keep_bearer(headers: &mut HeaderMap) {
    let mut challenges = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let is_bearer = |value: &&HeaderValue| value.as_bytes().starts_with(b"Bearer");
    let bearer = challenges.find(is_bearer).cloned();
    headers.remove(header::WWW_AUTHENTICATE);
    if let Some(bearer) = bearer {
        headers.insert(header::WWW_AUTHENTICATE, bearer);
    }
}

/// Of `HttpProblem` as a body.
pub(in crate::web) const CONTENT_TYPE: &str = "application/problem+json";
/// No refusal is longer.
const TEXT_LEN_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_says_what_and_where() {
        let problem = |status, text| HttpProblem::new(status, text, "/api/v1/x".into());
        let wrong = problem(StatusCode::BAD_REQUEST, "limit: give a whole number");
        assert_eq!(wrong.field.as_deref(), Some("limit"));
        assert_eq!((wrong.status, &*wrong.title), (400, "Bad Request"));
        let conflict = problem(StatusCode::CONFLICT, "sip: it is in use");
        assert_eq!(conflict.field, None);
        let sentence = problem(StatusCode::BAD_REQUEST, "The body is too short: give more");
        assert_eq!(sentence.field, None);
        let unknown = problem(StatusCode::NOT_FOUND, "");
        assert!(
            unknown.detail.contains("openapi.json"),
            "{}",
            unknown.detail
        );
    }
}
