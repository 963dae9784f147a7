//! Devices and watchers for operators: searched, sorted, a page at a time.

use super::{bindings::refusal_elsewhere, paging::limit, pending_commit::Rejection};
use crate::{
    server::{DeviceOrder, DevicePage, DeviceQuery, DeviceReach, WatcherPage},
    web::{
        Backend,
        across::NodePart,
        domain_scope::DomainScope,
        on_worker::OnWorker,
        parameters::{NoParameters, Parameters, PathName},
    },
};
use axum::{
    Extension, Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The routes.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    // Reading looks at the row of every device, or at every watcher.
    let reader = OnWorker::new(backend, READERS_MAX);
    Router::new()
        .route("/api/v1/devices", get(devices))
        .route("/api/v1/devices/{aor}", get(device))
        .route("/api/v1/watchers", get(watchers))
        .with_state(reader)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DevicesWanted {
    search: Option<String>,
    state: Option<String>,
    transport: Option<String>,
    sort: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

async fn devices(
    State(reader): State<OnWorker>,
    scope: DomainScope,
    part: Option<Extension<NodePart>>,
    Parameters(wanted): Parameters<DevicesWanted>,
) -> Result<Response, Rejection> {
    let sort = wanted.sort.as_deref().unwrap_or("aor");
    let (name, is_descending) = match sort.strip_prefix('-') {
        Some(name) => (name, true),
        None => (sort, false),
    };
    let query = DeviceQuery {
        text: wanted.search.filter(|text| !text.is_empty()),
        state: chosen("state", wanted.state.as_deref(), &STATES)?,
        transport: chosen("transport", wanted.transport.as_deref(), &TRANSPORTS)?
            .map(str::to_owned),
        domain: scope.domain().map(str::to_owned),
        order: chosen("sort", Some(name), &ORDERS)?.unwrap_or_default(),
        is_descending,
        after: wanted.after,
        limit: limit(wanted.limit.or(Some(PAGE_LEN)))?,
    };
    let page = reader.read_in_portions(|backend| backend.find_devices(query));
    let page = page.await?;
    Ok(match part {
        Some(_) => Json(DevicePart::of(page)).into_response(),
        None => Json(page).into_response(),
    })
}

/// What a node says to another one: a page, and where its devices belong among those of others.
#[derive(Serialize)]
struct DevicePart {
    #[serde(flatten)]
    page: DevicePage,
    sort_keys: Vec<String>,
}

impl DevicePart {
    fn of(page: DevicePage) -> Self {
        let sort_keys = page.devices.iter().map(|one| one.sort_key.clone());
        Self {
            sort_keys: sort_keys.collect(),
            page,
        }
    }
}

async fn device(
    State(reader): State<OnWorker>,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let unknown = || {
        let reason = format!("`{name}` is not registered, and has no account in the store\n");
        (StatusCode::NOT_FOUND, reason).into_response()
    };
    let Some(aor) = reader.backend().address_of_record(&name) else {
        return unknown();
    };
    if let Some(refusal) = refusal_elsewhere(&aor, reader.backend().owner_of(&aor)) {
        return refusal;
    }
    match reader.read(move |backend| backend.device(&aor)).await {
        Ok(found) => found.map_or_else(unknown, |view| Json(view).into_response()),
        Err(rejection) => rejection.into_response(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchersWanted {
    search: Option<String>,
    after: Option<u64>,
    limit: Option<usize>,
}

async fn watchers(
    State(reader): State<OnWorker>,
    Parameters(wanted): Parameters<WatchersWanted>,
) -> Result<Json<WatcherPage>, Rejection> {
    let limit = limit(wanted.limit.or(Some(PAGE_LEN)))?;
    let text = wanted.search.filter(|text| !text.is_empty());
    let page = reader
        .read(move |backend| backend.find_watchers(text.as_deref(), wanted.after, limit))
        .await?;
    Ok(Json(page))
}

/// The value of a name, if one was given.
fn chosen<T: Clone>(
    field: &str,
    given: Option<&str>,
    known: &[(&str, T)],
) -> Result<Option<T>, Rejection> {
    let Some(given) = given else {
        return Ok(None);
    };
    let found = known.iter().find(|(name, _)| *name == given);
    let refusal = || {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        (
            StatusCode::BAD_REQUEST,
            format!("{field}: give one of {}\n", names.join(", ")),
        )
    };
    found
        .map(|(_, value)| Some(value.clone()))
        .ok_or_else(refusal)
}

pub(in crate::web) const STATES: [(&str, DeviceReach); 4] = [
    ("registered", DeviceReach::Registered),
    ("unreachable", DeviceReach::Unreachable),
    ("offline", DeviceReach::Offline),
    ("disabled", DeviceReach::Disabled),
];
pub(in crate::web) const TRANSPORTS: [(&str, &str); 5] = [
    ("udp", "udp"),
    ("tcp", "tcp"),
    ("tls", "tls"),
    ("ws", "ws"),
    ("wss", "wss"),
];
pub(in crate::web) const ORDERS: [(&str, DeviceOrder); 5] = [
    ("aor", DeviceOrder::Aor),
    ("last_seen", DeviceOrder::LastSeen),
    ("expires", DeviceOrder::Expires),
    ("user_agent", DeviceOrder::UserAgent),
    ("contacts", DeviceOrder::Contacts),
];
/// A screen full; a million devices are searched, not listed.
const PAGE_LEN: usize = 100;
/// So many requests may look at every device at the same time.
const READERS_MAX: usize = 2;
