//! Reads complete bodies before the requests are handled, within limits of time and
//! memory.

use super::{
    connections::ClientAddress,
    load::{Load, Overuse},
};
use crate::web::{
    api::{
        list_routes::{LIST_BYTES_MAX, LISTS},
        paging::BODY_BYTES_MAX,
    },
    graph::graphite::FORM_BYTES_MAX,
};
use axum::{
    Extension,
    body::{Body, HttpBody},
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use std::sync::Arc;
use tokio::time::timeout;
use tokio_stream::StreamExt;

/// Why there is no complete body.
enum BodyFailure {
    /// Longer than any handler takes.
    TooLong,
    /// There is no memory for it.
    NoRoom,
    /// The client closed the connection.
    Broken,
}

/// Lets a request pass once its body has been read, or answers it.
pub(in crate::web) async fn gather(
    State(load): State<Arc<Load>>,
    Extension(ClientAddress(peer)): Extension<ClientAddress>,
    request: Request,
    next: Next,
) -> Response {
    let _answering = load.requests.begin(request.uri().path());
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let bytes_max = bytes_max(request.uri().path());
    if request.body().size_hint().lower() > bytes_max as u64 {
        return refuse_long(bytes_max);
    }
    let Ok(mut place) = load.bodies.take(peer.ip(), 0) else {
        return refuse(&load, Overuse::Bodies);
    };
    let (head, body) = request.into_parts();
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    let read = async {
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| BodyFailure::Broken)?;
            if whole.len() + piece.len() > bytes_max {
                return Err(BodyFailure::TooLong);
            }
            place.grow(piece.len()).map_err(|_| BodyFailure::NoRoom)?;
            whole.extend_from_slice(&piece);
        }
        Ok(())
    };
    match timeout(load.patience, read).await {
        Ok(Ok(())) => {
            let request = Request::from_parts(head, Body::from(whole));
            // The body's memory stays reserved until the request is answered.
            let answer = next.run(request).await;
            drop(place);
            answer
        }
        Ok(Err(BodyFailure::TooLong)) => refuse_long(bytes_max),
        Ok(Err(BodyFailure::NoRoom)) => refuse(&load, Overuse::Bodies),
        // The body is not read, unless there was none.
        Ok(Err(BodyFailure::Broken)) => end(StatusCode::BAD_REQUEST, BROKEN),
        Err(_) => refuse(&load, Overuse::LateBody),
    }
}

/// The same request would be refused again, so the answer has no Retry-After.
fn refuse_long(bytes_max: usize) -> Response {
    let text = format!("the body is too long; send at most {bytes_max} bytes\n");
    end(StatusCode::PAYLOAD_TOO_LARGE, text)
}

fn end(status: StatusCode, text: impl IntoResponse) -> Response {
    (status, [(header::CONNECTION, "close")], text).into_response()
}

/// The answer ends the connection, since the rest of the body may still come.
pub(in crate::web) fn refuse(load: &Load, excess: Overuse) -> Response {
    load.count(excess);
    let (status, text) = match excess {
        Overuse::LateBody => (StatusCode::REQUEST_TIMEOUT, LATE),
        _ => (StatusCode::SERVICE_UNAVAILABLE, FULL),
    };
    let headers = [(header::CONNECTION, "close"), (header::RETRY_AFTER, "1")];
    (status, headers, text).into_response()
}

/// The longest body that the handler of a path takes.
fn bytes_max(path: &str) -> usize {
    match path.starts_with(LISTS) {
        true => LIST_BYTES_MAX,
        false => BYTES_MAX,
    }
}

/// The longest body that other handlers take.
const BYTES_MAX: usize = if FORM_BYTES_MAX > BODY_BYTES_MAX {
    FORM_BYTES_MAX
} else {
    BODY_BYTES_MAX
};
const BROKEN: &str = "the body ended too early or is not well-formed\n";
const LATE: &str = "the body did not come in time\n";
const FULL: &str = "too much is being dealt with; try again later\n";
