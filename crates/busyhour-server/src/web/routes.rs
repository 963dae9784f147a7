use super::{
    Backend,
    connection::{
        bodies,
        connections::ClientAddress,
        load::{Load, Overuse},
    },
    graph::sampler::{Feed, Sample, Sampler},
    health, metrics,
    parameters::{NoParameters, Parameters},
    pcp_metrics,
};
use axum::{
    Extension, Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use std::{convert::Infallible, sync::Arc};
use tokio_stream::{self as stream, Stream, StreamExt, wrappers::BroadcastStream};

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
        .route("/api/v1/stats", get(stats))
        .route("/api/v1/events", get(events))
        .route("/metrics", get(prometheus))
        .route("/metrics/pcp", get(pcp))
        .route("/healthz", get(healthz))
        .with_state(RouterState {
            backend,
            sampler,
            load,
        })
}

async fn stats(
    State(shared): State<RouterState>,
    _: Parameters<NoParameters>,
) -> impl IntoResponse {
    Json(shared.backend.stats())
}

async fn events(
    State(shared): State<RouterState>,
    Extension(ClientAddress(peer)): Extension<ClientAddress>,
    _: Parameters<NoParameters>,
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

async fn prometheus(State(shared): State<RouterState>) -> Response {
    let open_files = metrics::open_files().await;
    match metrics::text(&shared.backend.stats(), open_files) {
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
        .data(sample.json())
}

/// The queues at that time, if they were listed.
fn queues_event(sample: &Sample) -> Option<Event> {
    let json = sample.queues_json.as_ref()?;
    Some(Event::default().event("queues").data(json))
}
