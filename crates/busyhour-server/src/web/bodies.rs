//! Bodies are read whole before anybody deals with them, within time and memory.

use super::{
    connections::Peer,
    load::{Excess, Load},
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

/// Lets a request pass once its body is there, or answers it.
pub(super) async fn gather(
    State(load): State<Arc<Load>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
    next: Next,
) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let Ok(mut place) = load.bodies.take(peer.ip(), 0) else {
        return refuse(&load, Excess::Bodies);
    };
    let (head, body) = request.into_parts();
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    let read = async {
        while let Some(piece) = pieces.next().await {
            // The client went away.
            let piece = piece.map_err(|_| Excess::LateBody)?;
            place.grow(piece.len()).map_err(|_| Excess::Bodies)?;
            whole.extend_from_slice(&piece);
        }
        Ok(())
    };
    match timeout(load.patience, read).await {
        Ok(Ok(())) => {
            let request = Request::from_parts(head, Body::from(whole));
            // Its memory is taken until it is answered.
            let answer = next.run(request).await;
            drop(place);
            answer
        }
        Ok(Err(excess)) => refuse(&load, excess),
        Err(_) => refuse(&load, Excess::LateBody),
    }
}

/// The connection ends with the answer: nobody knows what of the body will come.
pub(super) fn refuse(load: &Load, excess: Excess) -> Response {
    load.count(excess);
    let (status, text) = match excess {
        Excess::LateBody => (StatusCode::REQUEST_TIMEOUT, LATE),
        _ => (StatusCode::SERVICE_UNAVAILABLE, FULL),
    };
    let headers = [(header::CONNECTION, "close"), (header::RETRY_AFTER, "1")];
    (status, headers, text).into_response()
}

const LATE: &str = "the body did not come in time\n";
const FULL: &str = "too much is being dealt with; try again later\n";
