//! Registrations that failed recently, over HTTP: they show why a device does not
//! register.

use super::paging::{limit, user_part};
use crate::server::FailureView;
use crate::web::{Backend, domain_scope::DomainScope, parameters::Parameters};
use axum::{
    Json, Router,
    extract::State,
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

/// The route `/api/v1/failures`.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    Router::new()
        .route("/api/v1/failures", get(list))
        .with_state(backend)
}

async fn list(
    State(backend): State<Arc<dyn Backend>>,
    scope: DomainScope,
    Parameters(query): Parameters<FailureQuery>,
) -> Response {
    #[derive(Serialize)]
    struct FailureList {
        failures: Vec<FailureView>,
    }
    match limit(query.limit) {
        Ok(limit) => {
            let user = query.user.as_deref();
            // Those of other domains do not count.
            let read_max = scope.domain().map_or(limit, |_| usize::MAX);
            let mut failures = backend.failures(user, read_max);
            let of_home = user.filter(|user| !is_of_tenant(&*backend, user));
            if let (true, Some(user)) = (failures.is_empty(), of_home) {
                failures = backend.failures(Some(user_part(user)), read_max);
            }
            failures.retain(|failure| scope.covers(&failure.user));
            failures.truncate(limit);
            Json(FailureList { failures }).into_response()
        }
        Err(rejection) => rejection.into_response(),
    }
}

/// Whether an address is of a domain with accounts of its own: their names have the domain.
fn is_of_tenant(backend: &dyn Backend, user: &str) -> bool {
    let aor = backend.address_of_record(user);
    let domain = aor.as_deref().and_then(|aor| aor.rsplit_once('@'));
    let tenants = domain.and_then(|(_, domain)| Some((backend.tenants()?, domain)));
    tenants.is_some_and(|(tenants, domain)| tenants.find(domain).is_some())
}
