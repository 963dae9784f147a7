//! Registrations that failed recently, over HTTP: they show why a device does not
//! register.

use super::paging::{limit, user_part};
use crate::server::FailureView;
use crate::web::{Backend, domain_scope::DomainScope};
use axum::{
    Json, Router,
    extract::{Query, State},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The user whose failures are requested, and the number of failures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureQuery {
    user: Option<String>,
    limit: Option<usize>,
}

/// The route `/api/failures`.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    Router::new()
        .route("/api/failures", get(list))
        .with_state(backend)
}

async fn list(
    State(backend): State<Arc<dyn Backend>>,
    scope: DomainScope,
    Query(query): Query<FailureQuery>,
) -> Response {
    #[derive(Serialize)]
    struct FailureList {
        failures: Vec<FailureView>,
    }
    match limit(query.limit) {
        Ok(limit) => {
            let user = query.user.as_deref();
            let mut failures = backend.failures(user, limit);
            if let (true, Some(user)) = (failures.is_empty(), user) {
                failures = backend.failures(Some(user_part(user)), limit);
            }
            failures.retain(|failure| scope.covers(&failure.user));
            Json(FailureList { failures }).into_response()
        }
        Err(rejection) => rejection.into_response(),
    }
}
