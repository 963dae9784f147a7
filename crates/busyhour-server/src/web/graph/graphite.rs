//! The routes of the Graphite interface: they parse parameters, ask [`Graphs`], and
//! answer.

use super::graphs::{Graphs, RenderFailure};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, RawQuery, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use busyhour_graphite::{Answer, Error, Parameters};
use serde_json::{Value, json};
use std::sync::Arc;

/// Every route, with and without a slash at the end, as Graphite has it.
pub(in crate::web) fn router(graphs: Arc<Graphs>) -> Router {
    let mut router = Router::new();
    for slash in ["", "/"] {
        let path = |path: &str| format!("{path}{slash}");
        router = router
            .route(&path("/render"), get(render).post(render))
            .route(&path("/metrics/find"), get(find).post(find))
            .route(&path("/metrics/expand"), get(expand).post(expand))
            .route(&path("/metrics/index.json"), get(index))
            .route(&path("/functions"), get(functions))
            .route(&path("/version"), get(version))
            .route(&path("/tags"), get(nothing))
            .route(&path("/tags/{tag}"), get(no_values))
            .route(&path("/tags/autoComplete/tags"), get(nothing).post(nothing))
            .route(
                &path("/tags/autoComplete/values"),
                get(nothing).post(nothing),
            )
            .route(&path("/events/get_data"), get(events).post(events));
    }
    router
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .with_state(graphs)
}

async fn render(
    State(graphs): State<Arc<Graphs>>,
    RawQuery(query): RawQuery,
    form: Bytes,
) -> Response {
    let ask = graphs.ask(
        parameters(query, &form),
        |graphite, parameters, now, time| graphite.render(parameters, now, time),
    );
    respond(ask.await)
}

async fn find(
    State(graphs): State<Arc<Graphs>>,
    RawQuery(query): RawQuery,
    form: Bytes,
) -> Response {
    let ask = graphs.ask(parameters(query, &form), |graphite, parameters, _, _| {
        graphite.find(parameters)
    });
    respond(ask.await)
}

async fn expand(
    State(graphs): State<Arc<Graphs>>,
    RawQuery(query): RawQuery,
    form: Bytes,
) -> Response {
    let ask = graphs.ask(parameters(query, &form), |graphite, parameters, _, _| {
        graphite.expand(parameters)
    });
    respond(ask.await)
}

async fn index(State(graphs): State<Arc<Graphs>>) -> Response {
    let ask = graphs.ask(Parameters::default(), |graphite, _, _, _| {
        Ok(graphite.index())
    });
    respond(ask.await)
}

async fn functions(State(graphs): State<Arc<Graphs>>) -> Response {
    respond(Ok(graphs.graphite().functions()))
}

async fn version(State(graphs): State<Arc<Graphs>>) -> Response {
    respond(Ok(graphs.graphite().version()))
}

async fn events(
    State(graphs): State<Arc<Graphs>>,
    RawQuery(query): RawQuery,
    form: Bytes,
) -> Response {
    let ask = graphs.ask(
        parameters(query, &form),
        |graphite, parameters, now, time| graphite.events(parameters, now, time),
    );
    respond(ask.await)
}

/// Series have no tags beside their paths. Editors ask for them, so the answer is an
/// empty list.
async fn nothing() -> Json<[String; 0]> {
    Json([])
}

async fn no_values(Path(tag): Path<String>) -> Json<Value> {
    Json(json!({ "tag": tag, "values": [] }))
}

fn parameters(query: Option<String>, form: &Bytes) -> Parameters {
    Parameters::parse(query.as_deref().unwrap_or_default(), form)
}

fn respond(outcome: Result<Answer, RenderFailure>) -> Response {
    match outcome {
        Ok(answer) => {
            let headers = [
                (header::CONTENT_TYPE, answer.content_type),
                (header::CACHE_CONTROL, "no-cache"),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (headers, answer.body).into_response()
        }
        Err(failure) => {
            let (status, what) = told(&failure);
            (status, format!("{what}\n")).into_response()
        }
    }
}

fn told(failure: &RenderFailure) -> (StatusCode, String) {
    match failure {
        RenderFailure::Graphite(error @ Error::Request(_)) => {
            (StatusCode::BAD_REQUEST, error.to_string())
        }
        RenderFailure::Graphite(error @ Error::TooLarge(..)) => {
            (StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
        }
        RenderFailure::Graphite(error @ Error::Source(_)) => {
            (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
        }
        RenderFailure::Busy => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests are in progress; try again later".into(),
        ),
        RenderFailure::Lost => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the request ended without an answer; the log says why".into(),
        ),
    }
}

/// A form with the most targets that a request may have, even long ones, fits.
pub(in crate::web) const FORM_BYTES_MAX: usize = 1 << 20;
