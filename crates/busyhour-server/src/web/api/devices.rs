//! Devices and watchers for operators: searched, sorted, a page at a time.

use super::{paging::limit, pending_commit::Rejection};
use crate::{
    server::{DeviceOrder, DevicePage, DeviceQuery, DeviceReach, WatcherPage},
    web::{Backend, domain_scope::DomainScope, parameters::Parameters},
};
use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// The routes.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    let seeker = Seeker {
        backend,
        places: Arc::new(Semaphore::new(SEEKERS_MAX)),
    };
    Router::new()
        .route("/api/v1/devices", get(devices))
        .route("/api/v1/watchers", get(watchers))
        .with_state(seeker)
}

/// Looks at every device or watcher, on a worker of the pool.
#[derive(Clone)]
struct Seeker {
    backend: Arc<dyn Backend>,
    places: Arc<Semaphore>,
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
    State(seeker): State<Seeker>,
    scope: DomainScope,
    Parameters(wanted): Parameters<DevicesWanted>,
) -> Result<Json<DevicePage>, Rejection> {
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
    let page = seeker
        .seek(move |backend| backend.find_devices(&query))
        .await?;
    Ok(Json(page))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WatchersWanted {
    search: Option<String>,
    after: Option<u64>,
    limit: Option<usize>,
}

async fn watchers(
    State(seeker): State<Seeker>,
    Parameters(wanted): Parameters<WatchersWanted>,
) -> Result<Json<WatcherPage>, Rejection> {
    let limit = limit(wanted.limit.or(Some(PAGE_LEN)))?;
    let text = wanted.search.filter(|text| !text.is_empty());
    let page = seeker
        .seek(move |backend| backend.find_watchers(text.as_deref(), wanted.after, limit))
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

impl Seeker {
    async fn seek<T: Send + 'static>(
        self,
        look: impl FnOnce(&dyn Backend) -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        let unavailable = |reason: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n"));
        let place = self.places.acquire_owned().await;
        let place = place.map_err(|_| unavailable(ENDS))?;
        let backend = self.backend;
        let Some(runtime) = backend.runtime() else {
            return Ok(look(&*backend));
        };
        let pool = runtime.pool().clone();
        let (answer, answered) = oneshot::channel();
        let looked_at = backend.clone();
        let task = move || {
            // It stays taken until the task ends, even if the client has gone.
            let _place = place;
            // The client may be gone.
            let _ = answer.send(look(&*looked_at));
        };
        if pool.try_push(task).is_err() {
            return Err(unavailable("the server has too much to do"));
        }
        answered.await.map_err(|_| unavailable(ENDS))
    }
}

pub(in crate::web) const STATES: [(&str, DeviceReach); 3] = [
    ("registered", DeviceReach::Registered),
    ("unreachable", DeviceReach::Unreachable),
    ("offline", DeviceReach::Offline),
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
const SEEKERS_MAX: usize = 2;
const ENDS: &str = "the server ends";
