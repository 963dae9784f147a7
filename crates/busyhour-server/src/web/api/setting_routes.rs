//! `/api/v1/mailboxes`, `/api/v1/hints`, and `/api/v1/lists` by its own file.

use super::{
    body, list_routes,
    paging::{BODY_BYTES_MAX, Page, PageQuery},
    pending_commit::{PendingCommit, completion},
    settings_api::SettingsApi,
};
use crate::{
    server::{HintConfig, HintRefusal, HintView, MailboxRefusal},
    web::{
        domain_scope::DomainScope,
        parameters::{NoParameters, Parameters, PathName},
    },
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use busyhour_registrar::watch::{LineState, Mailbox, MessageSummary};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(super) type SharedSettings = State<Arc<dyn SettingsApi>>;

pub(in crate::web) fn router(api: Arc<dyn SettingsApi>) -> Router {
    Router::new()
        .route("/api/v1/mailboxes", get(mailboxes))
        .route(
            "/api/v1/mailboxes/{id}",
            get(mailbox).put(put_mailbox).delete(delete_mailbox),
        )
        .route("/api/v1/hints", get(hints))
        .route(
            "/api/v1/hints/{extension}",
            get(hint).put(put_hint).delete(delete_hint),
        )
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .merge(list_routes::router())
        .with_state(api)
}

#[derive(Serialize)]
struct MailboxBody<'m> {
    id: &'m str,
    #[serde(flatten)]
    summary: &'m MessageSummary,
}

#[derive(Serialize)]
struct HintBody<'h> {
    extension: &'h str,
    devices: Vec<&'h str>,
    state: LineState,
    configured: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HintRequest {
    devices: Vec<String>,
}

async fn mailboxes(
    State(api): SharedSettings,
    scope: DomainScope,
    Parameters(query): Parameters<PageQuery>,
) -> Response {
    #[derive(Serialize)]
    struct MailboxList<'m> {
        mailboxes: Vec<MailboxBody<'m>>,
    }
    let limit = match query.limit() {
        Ok(limit) => limit,
        Err(rejection) => return rejection.into_response(),
    };
    let page = api.mailboxes(query.after.as_deref(), limit, scope.domain());
    let mailboxes = page.items.iter().map(MailboxBody::of).collect();
    let next = page.next.map(|next| next.as_str().to_owned());
    let list = MailboxList { mailboxes };
    Json(Page { list, next }).into_response()
}

async fn mailbox(
    State(api): SharedSettings,
    PathName(id): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    match api.mailbox(&id) {
        Some(mailbox) => Json(MailboxBody::of(&mailbox)).into_response(),
        None => no_mailbox(&id),
    }
}

async fn put_mailbox(
    State(api): SharedSettings,
    PathName(id): PathName,
    _: Parameters<NoParameters>,
    body: Bytes,
) -> Response {
    let summary = match body::object(&body) {
        Ok(summary) => summary,
        Err(rejection) => return rejection.into_response(),
    };
    let (done, result) = completion();
    let is_new = match api.set_mailbox(&id, summary, done) {
        Ok(is_new) => is_new,
        Err(refusal) => return refuse(status_of_mailbox(refusal), refusal),
    };
    match (result.settle().await, api.mailbox(&id)) {
        (Ok(()), Some(mailbox)) => {
            (set_status(is_new), Json(MailboxBody::of(&mailbox))).into_response()
        }
        // Another request has removed it in the meantime.
        (Ok(()), None) => set_status(is_new).into_response(),
        (Err(lost), _) => lost.into_response(),
    }
}

async fn delete_mailbox(
    State(api): SharedSettings,
    PathName(id): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let (done, result) = completion();
    match api.remove_mailbox(&id, done) {
        Ok(true) => removed(result).await,
        Ok(false) => no_mailbox(&id),
        Err(refusal) => refuse(status_of_mailbox(refusal), refusal),
    }
}

async fn hints(
    State(api): SharedSettings,
    scope: DomainScope,
    Parameters(query): Parameters<PageQuery>,
) -> Response {
    #[derive(Serialize)]
    struct HintList<'h> {
        hints: Vec<HintBody<'h>>,
    }
    let limit = match query.limit() {
        Ok(limit) => limit,
        Err(rejection) => return rejection.into_response(),
    };
    let page = api.hints(query.after.as_deref(), limit, scope.domain());
    let hints = page.items.iter().map(HintBody::of).collect();
    let next = page.next.map(|next| next.as_str().to_owned());
    let list = HintList { hints };
    Json(Page { list, next }).into_response()
}

async fn hint(
    State(api): SharedSettings,
    PathName(extension): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    match api.hint(&extension) {
        Some(hint) => Json(HintBody::of(&hint)).into_response(),
        None => no_hint(&extension),
    }
}

async fn put_hint(
    State(api): SharedSettings,
    scope: DomainScope,
    PathName(extension): PathName,
    _: Parameters<NoParameters>,
    body: Bytes,
) -> Response {
    let wanted: HintRequest = match body::object(&body) {
        Ok(wanted) => wanted,
        Err(rejection) => return rejection.into_response(),
    };
    if let Err(rejection) = scope.check_names(&wanted.devices) {
        return rejection.into_response();
    }
    let hint = HintConfig {
        extension,
        devices: wanted.devices,
    };
    let (done, result) = completion();
    let is_new = match api.set_hint(&hint, done) {
        Ok(is_new) => is_new,
        Err(refusal) => return refuse(status_of_hint(&refusal), refusal),
    };
    match (result.settle().await, api.hint(&hint.extension)) {
        (Ok(()), Some(hint)) => (set_status(is_new), Json(HintBody::of(&hint))).into_response(),
        // Another request has removed it in the meantime.
        (Ok(()), None) => set_status(is_new).into_response(),
        (Err(lost), _) => lost.into_response(),
    }
}

async fn delete_hint(
    State(api): SharedSettings,
    PathName(extension): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let (done, result) = completion();
    match api.remove_hint(&extension, done) {
        Ok(true) => removed(result).await,
        Ok(false) => no_hint(&extension),
        Err(refusal) => refuse(status_of_hint(&refusal), refusal),
    }
}

pub(super) async fn removed(result: PendingCommit) -> Response {
    match result.settle().await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(lost) => lost.into_response(),
    }
}

impl<'m> MailboxBody<'m> {
    fn of(mailbox: &'m Mailbox) -> Self {
        Self {
            id: mailbox.id.as_str(),
            summary: &mailbox.summary,
        }
    }
}

impl<'h> HintBody<'h> {
    fn of(hint: &'h HintView) -> Self {
        Self {
            extension: hint.extension.as_str(),
            devices: hint.devices.iter().map(|device| device.as_str()).collect(),
            state: hint.line,
            configured: hint.is_configured,
        }
    }
}

/// 400 for mistakes of the client, 409 for conflicts with the server's state.
fn status_of_mailbox(refusal: MailboxRefusal) -> StatusCode {
    match refusal {
        MailboxRefusal::Name | MailboxRefusal::Summary(_) => StatusCode::BAD_REQUEST,
        MailboxRefusal::Published | MailboxRefusal::Full(_) => StatusCode::CONFLICT,
        MailboxRefusal::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn status_of_hint(refusal: &HintRefusal) -> StatusCode {
    match refusal {
        HintRefusal::Extension | HintRefusal::Device(_) | HintRefusal::DeviceCount => {
            StatusCode::BAD_REQUEST
        }
        HintRefusal::Configured(_)
        | HintRefusal::SetOverHttp
        | HintRefusal::InAccounts(_)
        | HintRefusal::Full(_) => StatusCode::CONFLICT,
        HintRefusal::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

pub(super) fn set_status(is_new: bool) -> StatusCode {
    match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    }
}

fn no_mailbox(id: &str) -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        format_args!("mailbox `{id}` is not set"),
    )
}

fn no_hint(extension: &str) -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        format_args!("there is no hint `{extension}`"),
    )
}

pub(super) fn refuse(status: StatusCode, reason: impl std::fmt::Display) -> Response {
    (status, format!("{reason}\n")).into_response()
}
