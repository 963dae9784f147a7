//! `/api/v1/trace?user=`: the messages of one device, live, one JSON object a line.

use super::pending_commit::Rejection;
use crate::{
    server::{Trace, TraceRequest, TracedMessage},
    web::{
        Backend,
        connection::{
            bodies,
            connections::ClientAddress,
            load::{Load, Overuse},
        },
        parameters::Parameters,
    },
};
use axum::{
    Extension, Router,
    body::Body,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::{Deserialize, Serialize};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    time::{self, Instant},
};
use tokio_stream::wrappers::ReceiverStream;

/// The route.
pub(in crate::web) fn router(backend: Arc<dyn Backend>, load: Arc<Load>) -> Router {
    Router::new()
        .route(PATH, get(trace))
        .with_state((backend, load))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceQuery {
    user: String,
    bodies: Option<String>,
}

/// The first line, and each later one that is no message.
#[derive(Serialize)]
struct TraceNotice {
    /// How many messages found no room in this trace.
    lost: u64,
}

async fn trace(
    State((backend, load)): State<(Arc<dyn Backend>, Arc<Load>)>,
    Extension(ClientAddress(peer)): Extension<ClientAddress>,
    Parameters(query): Parameters<TraceQuery>,
) -> Result<Response, Rejection> {
    let has_bodies = match query.bodies.as_deref() {
        None | Some("yes") => true,
        Some("no") => false,
        Some(_) => return Err(wrong("bodies: give yes or no")),
    };
    if query.user.is_empty() {
        return Err(wrong(
            "user: give a user such as alice, or an address of record",
        ));
    }
    let Ok(place) = load.events.take(peer.ip(), 1) else {
        return Ok(bodies::refuse(&load, Overuse::Events));
    };
    let request = TraceRequest {
        user: query.user,
        has_bodies,
    };
    let (heard, messages) = mpsc::channel(WAITING_MAX);
    let listener = move |message| heard.try_send(message).is_ok();
    let Some(trace) = backend.trace(request, Box::new(listener)) else {
        let reason = "there are as many traces as may be; end another one\n".to_owned();
        return Err((StatusCode::SERVICE_UNAVAILABLE, reason));
    };
    let (out, lines) = mpsc::channel(LINES_MAX);
    tokio::spawn(async move {
        // The place stays taken for as long as the stream exists.
        let _taken = place;
        pass_on(trace, messages, out, backend).await;
    });
    let body = Body::from_stream(ReceiverStream::new(lines));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Ends when the client or the server goes.
async fn pass_on(
    trace: Trace,
    mut messages: Receiver<TracedMessage>,
    out: Sender<Result<String, Infallible>>,
    backend: Arc<dyn Backend>,
) {
    let (mut told, mut refreshed_at) = (None, Instant::now());
    loop {
        if out.is_closed() || backend.is_draining() {
            return;
        }
        if refreshed_at.elapsed() >= trace.refresh_period() {
            trace.refresh();
            refreshed_at = Instant::now();
        }
        let lost = trace.lost();
        if told != Some(lost) {
            told = Some(lost);
            if !send(&out, &TraceNotice { lost }).await {
                return;
            }
        }
        match time::timeout(SILENCE, messages.recv()).await {
            Ok(Some(message)) => {
                if !send(&out, &message).await {
                    return;
                }
            }
            Ok(None) => return,
            Err(_silence) => {}
        }
    }
}

async fn send(out: &Sender<Result<String, Infallible>>, line: &impl Serialize) -> bool {
    // Numbers and texts can always be serialized.
    let mut line = serde_json::to_string(line).unwrap_or_default();
    line.push('\n');
    out.send(Ok(line)).await.is_ok()
}

fn wrong(reason: &str) -> Rejection {
    (StatusCode::BAD_REQUEST, format!("{reason}\n"))
}

pub(in crate::web) const PATH: &str = "/api/v1/trace";
/// Messages that wait for a reader who is slow; more are lost to it.
const WAITING_MAX: usize = 1024;
/// Lines on their way to the connection.
const LINES_MAX: usize = 16;
/// After so long without a message the trace looks whether it still has a reader.
const SILENCE: Duration = Duration::from_secs(1);
