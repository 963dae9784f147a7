//! What an authority reads that looks whether a name is ours (ACME's http-01, RFC 8555 §8.3).

use super::parameters::PathName;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use std::sync::Arc;

/// The text for a token, while an order with it is in progress.
pub type ChallengeTexts = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

pub(super) fn router(texts: ChallengeTexts) -> Router {
    Router::new()
        .route("/.well-known/acme-challenge/{token}", get(text))
        .with_state(texts)
}

async fn text(State(texts): State<ChallengeTexts>, PathName(token): PathName) -> Response {
    match texts(&token) {
        Some(text) => ([(header::CONTENT_TYPE, "application/octet-stream")], text).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
