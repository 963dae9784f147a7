//! `/api/v1/lists`: lists of resources that watchers subscribe to by one URI.

use super::{
    body,
    paging::{Page, PageQuery},
    pending_commit::completion,
    setting_routes::{SharedSettings, refuse, removed, set_status},
    settings_api::SettingsApi,
};
use crate::{
    server::{ListConfig, ListRefusal, ListView},
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
use busyhour_registrar::watch::ListEntry;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub(super) fn router() -> Router<Arc<dyn SettingsApi>> {
    Router::new()
        .route("/api/v1/lists", get(lists))
        .route(
            "/api/v1/lists/{name}",
            get(list).put(put_list).delete(delete_list),
        )
        .layer(DefaultBodyLimit::max(LIST_BYTES_MAX))
}

#[derive(Serialize)]
struct ListBody<'l> {
    name: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'l str>,
    entry_count: usize,
    entries: &'l [ListEntry],
    configured: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListRequest {
    #[serde(default)]
    title: Option<String>,
    entries: Vec<String>,
}

async fn lists(
    State(api): SharedSettings,
    scope: DomainScope,
    Parameters(query): Parameters<PageQuery>,
) -> Response {
    #[derive(Serialize)]
    struct ListPage<'l> {
        lists: Vec<ListBody<'l>>,
    }
    let limit = match query.limit() {
        Ok(limit) => limit,
        Err(rejection) => return rejection.into_response(),
    };
    let page = api.lists(query.after.as_deref(), limit, scope.domain());
    let list = ListPage {
        lists: page.items.iter().map(ListBody::of).collect(),
    };
    let next = page.next.map(|next| next.as_str().to_owned());
    Json(Page { list, next }).into_response()
}

async fn list(
    State(api): SharedSettings,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    match api.list(&name) {
        Some(list) => Json(ListBody::of(&list)).into_response(),
        None => no_list(&name),
    }
}

async fn put_list(
    State(api): SharedSettings,
    scope: DomainScope,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
    body: Bytes,
) -> Response {
    let wanted: ListRequest = match body::object(&body) {
        Ok(wanted) => wanted,
        Err(rejection) => return rejection.into_response(),
    };
    let list = ListConfig {
        name,
        title: wanted.title,
        entries: wanted.entries,
    };
    let resources: Vec<_> = list.resources().map(str::to_owned).collect();
    if let Err(rejection) = scope.check_names(&resources) {
        return rejection.into_response();
    }
    let (done, result) = completion();
    let is_new = match api.set_list(&list, done) {
        Ok(is_new) => is_new,
        Err(refusal) => return refuse(status_of(&refusal), refusal),
    };
    match (result.settle().await, api.list(&list.name)) {
        (Ok(()), Some(list)) => (set_status(is_new), Json(ListBody::of(&list))).into_response(),
        // Another request has removed it in the meantime.
        (Ok(()), None) => set_status(is_new).into_response(),
        (Err(lost), _) => lost.into_response(),
    }
}

async fn delete_list(
    State(api): SharedSettings,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let (done, result) = completion();
    match api.remove_list(&name, done) {
        Ok(true) => removed(result).await,
        Ok(false) => no_list(&name),
        Err(refusal) => refuse(status_of(&refusal), refusal),
    }
}

impl<'l> ListBody<'l> {
    fn of(list: &'l ListView) -> Self {
        Self {
            name: &list.name,
            title: list.title.as_deref(),
            entry_count: list.entries.len(),
            entries: &list.entries,
            configured: list.is_configured,
        }
    }
}

/// 400 for mistakes of the client, 409 for conflicts with the server's state.
fn status_of(refusal: &ListRefusal) -> StatusCode {
    match refusal {
        ListRefusal::Name
        | ListRefusal::Entry(_)
        | ListRefusal::Empty
        | ListRefusal::TooMany(_)
        | ListRefusal::ContainsItself(..) => StatusCode::BAD_REQUEST,
        ListRefusal::Configured(_) | ListRefusal::SetOverHttp | ListRefusal::Full(_) => {
            StatusCode::CONFLICT
        }
        ListRefusal::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

fn no_list(name: &str) -> Response {
    refuse(
        StatusCode::NOT_FOUND,
        format_args!("there is no list `{name}`"),
    )
}

/// Where the paths of lists begin.
pub(in crate::web) const LISTS: &str = "/api/v1/lists/";
/// The longest body of a PUT: 5,000 entries, each with a name to show.
pub(in crate::web) const LIST_BYTES_MAX: usize = 1 << 20;
