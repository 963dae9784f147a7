use super::{
    Backend,
    connection::{
        bodies,
        connections::ClientAddress,
        load::{Load, Overuse},
    },
    graph::sampler::{Feed, Sample, Sampler},
    health, metrics, page, pcp_metrics,
};
use axum::{
    Extension, Json, Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{
        Html, IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use serde::{Deserialize, Serialize};
use std::{convert::Infallible, sync::Arc};
use tokio_stream::{self as stream, Stream, StreamExt, wrappers::BroadcastStream};

/// A page of bindings, as `/api/bindings` gives it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BindingPage {
    /// The bindings; all those of an address of record are on the same page.
    pub bindings: Vec<BindingView>,
    /// Pass it as `after` for the next page; `None` on the last.
    pub next: Option<String>,
}

/// One registered contact, as `/api/bindings` gives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BindingView {
    /// Canonical address of record, such as `sip:alice@example.com`.
    pub aor: String,
    /// The contact URI as the device wrote it.
    pub contact: String,
    /// Preference in thousandths; `None` if the device gave none.
    pub q_milli: Option<u16>,
    /// Call-ID of the registration.
    pub call_id: String,
    /// CSeq of the last registration.
    pub cseq: u32,
    /// Where the registration came from.
    pub source: String,
    /// Whether messages reach the device, as far as the server knows.
    pub reachable: bool,
    /// Seconds until it runs out.
    pub expires_in_seconds: u64,
    /// The device's User-Agent.
    pub user_agent: String,
}

/// The state that every handler can use.
#[derive(Clone)]
struct RouterState {
    backend: Arc<dyn Backend>,
    sampler: Arc<Sampler>,
    load: Arc<Load>,
}

/// All routes.
pub(super) fn router(backend: Arc<dyn Backend>, sampler: Arc<Sampler>, load: Arc<Load>) -> Router {
    Router::new()
        .route("/", get(dashboard))
        .route("/api/stats", get(stats))
        .route("/api/events", get(events))
        .route("/api/bindings", get(bindings))
        .route("/metrics", get(prometheus))
        .route("/metrics/pcp", get(pcp))
        .route("/healthz", get(healthz))
        .with_state(RouterState {
            backend,
            sampler,
            load,
        })
}

async fn dashboard() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, page::SECURITY_POLICY),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Html(page::html()))
}

async fn stats(State(shared): State<RouterState>) -> impl IntoResponse {
    Json(shared.backend.stats())
}

async fn events(
    State(shared): State<RouterState>,
    Extension(ClientAddress(peer)): Extension<ClientAddress>,
    headers: HeaderMap,
) -> Response {
    let Ok(place) = shared.load.events.take(peer.ip(), 1) else {
        return bodies::refuse(&shared.load, Overuse::Events);
    };
    let feed = shared.sampler.feed(last_seen(&headers));
    let queues = BroadcastStream::new(feed.live.resubscribe());
    let queues = queues.filter_map(|sample| queues_event(&*sample.ok()?));
    let stats = samples(feed).map(|sample| stats_event(&sample));
    let events = stats.merge(queues).map(move |event| {
        // The place stays taken for as long as the stream exists.
        let _taken = &place;
        Ok::<_, Infallible>(event)
    });
    let events = Sse::new(events).keep_alive(KeepAlive::default());
    events.into_response()
}

#[derive(Deserialize)]
struct BindingQuery {
    user: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

async fn bindings(
    State(shared): State<RouterState>,
    Query(query): Query<BindingQuery>,
) -> Response {
    if let Some(user) = query.user {
        return Json(shared.backend.bindings_of(&user)).into_response();
    }
    let limit = query.limit.unwrap_or(PAGE_LEN);
    if !(1..=PAGE_LEN_MAX).contains(&limit) {
        let message = format!("limit: give a whole number from 1 to {PAGE_LEN_MAX}\n");
        return (StatusCode::BAD_REQUEST, message).into_response();
    }
    Json(shared.backend.bindings(query.after.as_deref(), limit)).into_response()
}

async fn prometheus(State(shared): State<RouterState>) -> Response {
    match metrics::text(&shared.backend.stats()) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn pcp(State(shared): State<RouterState>) -> Response {
    match pcp_metrics::text(&shared.backend.stats()) {
        Ok(text) => ([(header::CONTENT_TYPE, pcp_metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn healthz(State(shared): State<RouterState>) -> (StatusCode, String) {
    match health::verdict(shared.backend.is_draining(), &shared.sampler.kept()) {
        Ok(()) => {
            let concerns = health::concerns(&shared.sampler.kept());
            (StatusCode::OK, concerns.unwrap_or("ok".into()) + "\n")
        }
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}

/// The number of the last sample that a reconnecting browser has seen.
fn last_seen(headers: &HeaderMap) -> u64 {
    let id = headers.get("last-event-id");
    id.and_then(|id| id.to_str().ok()?.parse().ok())
        .unwrap_or(0)
}

/// A reader that is too slow for the live samples skips those that it missed.
fn samples(feed: Feed) -> impl Stream<Item = Arc<Sample>> {
    let live = BroadcastStream::new(feed.live).filter_map(Result::ok);
    stream::iter(feed.past).chain(live)
}

fn stats_event(sample: &Sample) -> Event {
    Event::default()
        .id(sample.number.to_string())
        .event("stats")
        .data(&sample.json)
}

/// The queues at that time, if they were listed.
fn queues_event(sample: &Sample) -> Option<Event> {
    let json = sample.queues_json.as_ref()?;
    Some(Event::default().event("queues").data(json))
}

const PAGE_LEN: usize = 1000;
const PAGE_LEN_MAX: usize = 100_000;
