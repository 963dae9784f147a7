//! What changes, as server-sent events for other programs.

use crate::{
    server::{ChangeEvent, ChangeFilter, ChangeReader, ChangeRequest},
    web::{
        Backend,
        connection::{
            bodies,
            connections::ClientAddress,
            load::{Load, Overuse},
            places::Reservation,
        },
        domain_scope::DomainScope,
        parameters::Parameters,
    },
};
use axum::{
    Extension, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
    routing::get,
};
use serde::Deserialize;
use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::sync::watch;
use tokio_stream::Stream;

/// The state of the route.
#[derive(Clone)]
struct ChangesState {
    backend: Arc<dyn Backend>,
    load: Arc<Load>,
    /// Its sender is there as long as the server serves.
    served: watch::Receiver<()>,
}

/// What a reader asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangesQuery {
    kind: Option<String>,
    user: Option<String>,
    having: Option<String>,
    #[serde(default)]
    snapshot: bool,
}

/// The route `/api/v1/changes`. Its streams end when the sender of `served` is dropped.
pub(in crate::web) fn router(
    backend: Arc<dyn Backend>,
    load: Arc<Load>,
    served: watch::Receiver<()>,
) -> Router {
    let state = ChangesState {
        backend,
        load,
        served,
    };
    Router::new()
        .route("/api/v1/changes", get(changes))
        .with_state(state)
}

async fn changes(
    State(shared): State<ChangesState>,
    Extension(ClientAddress(peer)): Extension<ClientAddress>,
    scope: DomainScope,
    Parameters(query): Parameters<ChangesQuery>,
    headers: HeaderMap,
) -> Response {
    let ChangesQuery {
        kind, user, having, ..
    } = &query;
    let filter = match ChangeFilter::read(kind.as_deref(), user.as_deref(), having.as_deref()) {
        Ok(filter) => filter,
        Err(reason) => return (StatusCode::BAD_REQUEST, reason + "\n").into_response(),
    };
    let filter = match scope.domain() {
        Some(domain) => filter.within(domain),
        None => filter,
    };
    let Ok(place) = shared.load.events.take(peer.ip(), 1) else {
        return bodies::refuse(&shared.load, Overuse::Events);
    };
    let last_id = headers.get("last-event-id");
    let request = ChangeRequest {
        name: format!("changes for {peer}"),
        filter,
        wants_snapshot: query.snapshot,
        last_id: last_id.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned()),
    };
    let Some(reader) = shared.backend.changes(request) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let mut served = shared.served.clone();
    let events = ChangeStream {
        reader,
        stopped: Box::pin(async move { while served.changed().await.is_ok() {} }),
        _place: place,
    };
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

/// The events of one reader, until the server stops.
struct ChangeStream {
    reader: ChangeReader,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Taken for as long as the stream exists.
    _place: Reservation,
}

impl Stream for ChangeStream {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let event = ready!(Pin::new(&mut self.reader).poll_next(context));
        Poll::Ready(event.map(|event| Ok(written(&event))))
    }
}

fn written(event: &ChangeEvent) -> Event {
    let named = |name: &str| Event::default().event(name);
    match event {
        ChangeEvent::Changed(id, change) => {
            let event = named("change").id(id.to_string());
            event.data(change.json())
        }
        ChangeEvent::State(change) => named("state").data(change.state_json()),
        ChangeEvent::Live(id) => named("live").id(id.to_string()).data("{}"),
        ChangeEvent::Reset => named("reset").data("{}"),
        ChangeEvent::Lost(count) => named("lost").data(format!("{{\"count\":{count}}}")),
    }
}
