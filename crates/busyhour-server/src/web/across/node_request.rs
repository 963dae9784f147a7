//! What one node asks another, and what that answers: a line of JSON, and behind it the body of an answer.

use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A request that another node is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NodeRequest {
    /// Nodes of another version of these words are not asked again.
    version: u32,
    method: String,
    target: String,
    /// Of the token.
    pub(super) domain: Option<String>,
}

/// What a node answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeAnswer {
    head: AnswerHead,
    body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct AnswerHead {
    status: u16,
    content_type: Option<String>,
    retry_after: Option<String>,
}

impl NodeRequest {
    pub(super) fn of(request: &Request, domain: Option<&str>) -> Self {
        Self {
            version: VERSION,
            method: request.method().to_string(),
            target: request.uri().to_string(),
            domain: domain.map(str::to_owned),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        // It has texts alone, which can always be written.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// `None` for what no node of this version says.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let read: Self = serde_json::from_slice(bytes).ok()?;
        Some(read).filter(|read| read.version == VERSION)
    }

    pub(super) fn request(&self) -> Option<Request> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::from_bytes(self.method.as_bytes()).ok()?;
        *request.uri_mut() = self.target.parse().ok()?;
        Some(request)
    }
}

impl NodeAnswer {
    /// Reads a whole answer.
    pub(super) async fn of(response: Response) -> Self {
        let (head, body) = response.into_parts();
        let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
            return Self::refusal(StatusCode::BAD_REQUEST, TOO_LONG);
        };
        let text = |name: HeaderName| {
            let value = head.headers.get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        Self {
            head: AnswerHead {
                status: head.status.as_u16(),
                content_type: text(header::CONTENT_TYPE),
                retry_after: text(header::RETRY_AFTER),
            },
            body: body.into(),
        }
    }

    pub(super) fn refusal(status: StatusCode, reason: &str) -> Self {
        let is_for_now = status == StatusCode::SERVICE_UNAVAILABLE;
        Self {
            head: AnswerHead {
                status: status.as_u16(),
                content_type: Some(TEXT.to_owned()),
                retry_after: is_for_now.then(|| RETRY_AFTER_S.to_owned()),
            },
            body: reason.into(),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        // It has texts and a number alone, which can always be written.
        let mut bytes = serde_json::to_vec(&self.head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend(&self.body);
        bytes
    }

    /// `None` for what no node of this version says.
    pub(super) fn parse(mut bytes: Vec<u8>) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let head = serde_json::from_slice(&bytes[..end]).ok()?;
        bytes.drain(..=end);
        Some(Self { head, body: bytes })
    }

    /// The object that it gives; `None` if it refuses.
    pub(super) fn page(&self) -> Option<Map<String, Value>> {
        let is_given = self.head.status == StatusCode::OK.as_u16();
        let read = || serde_json::from_slice(&self.body).ok();
        is_given.then(read).flatten()
    }
}

impl IntoResponse for NodeAnswer {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        let status = StatusCode::from_u16(self.head.status);
        *response.status_mut() = status.unwrap_or(StatusCode::BAD_GATEWAY);
        let headers = [
            (header::CONTENT_TYPE, self.head.content_type),
            (header::RETRY_AFTER, self.head.retry_after),
        ];
        for (name, value) in headers {
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

const VERSION: u32 = 1;
/// Less than what goes through NATS in pieces.
const BODY_BYTES_MAX: usize = 15 << 20;
const TOO_LONG: &str = "limit: the page is too long for NATS, give a smaller number\n";
const TEXT: &str = "text/plain; charset=utf-8";
const RETRY_AFTER_S: &str = "1";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_asked_and_answered_arrives_as_it_was() {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::DELETE;
        *request.uri_mut() = "/api/v1/bindings/a%0Ab?contact=c".parse().unwrap();
        let asked = NodeRequest::of(&request, Some("a.example"));
        let heard = NodeRequest::parse(&asked.bytes()).unwrap();
        assert_eq!(heard, asked);
        let again = heard.request().unwrap();
        assert_eq!(
            (again.method(), again.uri()),
            (request.method(), request.uri())
        );
        let response = || {
            let headers = [
                (header::RETRY_AFTER, "7"),
                (header::CONTENT_TYPE, "application/json"),
            ];
            (StatusCode::OK, headers, "{\"a\":1}\n\n").into_response()
        };
        let told = NodeAnswer::of(response()).await;
        let heard = NodeAnswer::parse(told.bytes()).unwrap();
        assert_eq!(heard, told);
        assert_eq!(heard.page().unwrap()["a"], 1);
        let shown = heard.into_response();
        assert_eq!(shown.status(), StatusCode::OK);
        assert_eq!(shown.headers(), response().headers());
        let refused = NodeAnswer::refusal(StatusCode::SERVICE_UNAVAILABLE, "busy\n");
        assert!(refused.page().is_none());
        assert!(
            refused
                .into_response()
                .headers()
                .contains_key(header::RETRY_AFTER)
        );
    }

    #[test]
    fn what_another_version_says_is_not_read() {
        for bytes in [
            &b""[..],
            b"{}",
            br#"{"version":2,"method":"GET","target":"/","domain":null}"#,
        ] {
            assert_eq!(NodeRequest::parse(bytes), None);
        }
        for bytes in [&b""[..], b"{}\n", b"{\"status\":200}"] {
            assert_eq!(NodeAnswer::parse(bytes.to_vec()), None);
        }
    }
}
