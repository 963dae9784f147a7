//! Webhooks over HTTP: listed, put, removed, tested.

use crate::web::api::{
    body,
    paging::BODY_BYTES_MAX,
    pending_commit::{PendingCommit, completion, rejection},
};
use crate::{
    server::{Server, WebhookEntry, WebhookRefusal, WebhookTestResult, WebhookView},
    web::{
        Backend,
        parameters::{NoParameters, Parameters, PathName},
    },
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use busyhour_store::Completion;
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The backend for webhooks. Each method calls the server's method of a like name and returns its
/// errors.
pub trait WebhooksApi: Send + Sync {
    /// All of them, by name.
    fn list(&self) -> Vec<WebhookView>;

    /// Sets one.
    fn set(
        &self,
        name: &str,
        entry: WebhookEntry,
        done: Completion,
    ) -> Result<(bool, Option<String>), WebhookRefusal>;

    /// Removes one.
    fn remove(&self, name: &str, done: Completion) -> Result<bool, WebhookRefusal>;

    /// Posts a test event.
    fn test(&self, name: &str, listener: Box<dyn FnOnce(WebhookTestResult) + Send>) -> bool;
}

impl WebhooksApi for Server {
    fn list(&self) -> Vec<WebhookView> {
        self.webhooks()
    }

    fn set(
        &self,
        name: &str,
        entry: WebhookEntry,
        done: Completion,
    ) -> Result<(bool, Option<String>), WebhookRefusal> {
        self.set_webhook(name, entry, done)
    }

    fn remove(&self, name: &str, done: Completion) -> Result<bool, WebhookRefusal> {
        self.remove_webhook(name, done)
    }

    fn test(&self, name: &str, listener: Box<dyn FnOnce(WebhookTestResult) + Send>) -> bool {
        self.test_webhook(name, listener)
    }
}

/// The routes below `/api/v1/webhooks`.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    Router::new()
        .route("/api/v1/webhooks", get(list))
        .route("/api/v1/webhooks/{name}", get(show).put(put).delete(remove))
        .route("/api/v1/webhooks/{name}/test", post(test))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(backend)
}

type WebhookState = State<Arc<dyn Backend>>;

#[derive(Serialize)]
struct WebhookList {
    webhooks: Vec<WebhookView>,
}

/// The secret is told only by the answer to the request that made it.
#[derive(Serialize)]
struct WebhookBody {
    #[serde(flatten)]
    webhook: Option<WebhookView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

async fn list(State(backend): WebhookState, _: Parameters<NoParameters>) -> Json<WebhookList> {
    let webhooks = backend.webhooks().map(WebhooksApi::list);
    Json(WebhookList {
        webhooks: webhooks.unwrap_or_default(),
    })
}

async fn show(
    State(backend): WebhookState,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    match find(&*backend, &name) {
        Some(webhook) => Json(webhook).into_response(),
        None => unknown(&name),
    }
}

async fn put(
    State(backend): WebhookState,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
    body: Bytes,
) -> Response {
    let entry: WebhookEntry = match body::object(&body) {
        Ok(entry) => entry,
        Err(rejection) => return rejection.into_response(),
    };
    let Some(api) = backend.webhooks() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (done, result) = completion();
    let (is_new, secret) = match api.set(&name, entry, done) {
        Ok(set) => set,
        Err(refusal) => return refuse(refusal),
    };
    if let Err(lost) = result.settle().await {
        return lost.into_response();
    }
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    let webhook = find(&*backend, &name);
    (status, Json(WebhookBody { webhook, secret })).into_response()
}

async fn remove(
    State(backend): WebhookState,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let Some(api) = backend.webhooks() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (done, result) = completion();
    match api.remove(&name, done) {
        Ok(true) => removed(result).await,
        Ok(false) => unknown(&name),
        Err(refusal) => refuse(refusal),
    }
}

async fn removed(result: PendingCommit) -> Response {
    match result.settle().await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(lost) => lost.into_response(),
    }
}

/// The result is the answer; it says itself whether the receiver has taken the test.
async fn test(
    State(backend): WebhookState,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let (told, result) = oneshot::channel();
    let is_known = backend.webhooks().is_some_and(|api| {
        // The client may be gone.
        api.test(&name, Box::new(move |result| drop(told.send(result))))
    });
    if !is_known {
        return unknown(&name);
    }
    match result.await {
        Ok(result) => Json(result).into_response(),
        Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn find(backend: &dyn Backend, name: &str) -> Option<WebhookView> {
    let webhooks = backend.webhooks()?.list();
    webhooks.into_iter().find(|webhook| webhook.name == name)
}

fn unknown(name: &str) -> Response {
    let message = format!("there is no webhook `{name}`\n");
    (StatusCode::NOT_FOUND, message).into_response()
}

fn refuse(refusal: WebhookRefusal) -> Response {
    let status = match refusal {
        WebhookRefusal::Mistake(_) => StatusCode::BAD_REQUEST,
        WebhookRefusal::Configured(_) | WebhookRefusal::SetOverHttp | WebhookRefusal::Full => {
            StatusCode::CONFLICT
        }
        WebhookRefusal::NoSecret => StatusCode::SERVICE_UNAVAILABLE,
        WebhookRefusal::Store(refused) => return rejection(refused).into_response(),
    };
    (status, format!("{refusal}\n")).into_response()
}
