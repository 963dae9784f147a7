//! `/api/v1/tenants`: domains with settings of their own, what they may have and what they have.

use super::{
    body,
    paging::BODY_BYTES_MAX,
    pending_commit::{self, completion},
};
use crate::{
    server::{Server, TenantConfig, TenantRefusal, TenantView},
    web::{
        Backend,
        domain_scope::DomainScope,
        parameters::{NoParameters, Parameters, PathName},
    },
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use busyhour_store::Completion;
use serde::Serialize;
use std::sync::Arc;

/// The backend for domains: the server, or a fake in tests.
pub trait TenantsApi: Send + Sync {
    /// Every domain with settings of its own, by name.
    fn all(&self) -> Vec<TenantView>;

    /// One of them.
    fn find(&self, name: &str) -> Option<TenantView>;

    /// Sets one up; returns whether it is new.
    ///
    /// # Errors
    ///
    /// See [`TenantRefusal`]; `done` is not called then.
    fn put(&self, config: TenantConfig, done: Completion) -> Result<bool, TenantRefusal>;

    /// Removes one; `false` if there is none.
    ///
    /// # Errors
    ///
    /// See [`TenantRefusal`]; `done` is not called then.
    fn remove(&self, name: &str, done: Completion) -> Result<bool, TenantRefusal>;
}

impl TenantsApi for Server {
    fn all(&self) -> Vec<TenantView> {
        self.tenants()
    }

    fn find(&self, name: &str) -> Option<TenantView> {
        self.tenant(name)
    }

    fn put(&self, config: TenantConfig, done: Completion) -> Result<bool, TenantRefusal> {
        self.put_tenant(config, done)
    }

    fn remove(&self, name: &str, done: Completion) -> Result<bool, TenantRefusal> {
        self.remove_tenant(name, done)
    }
}

type Shared = State<Arc<dyn Backend>>;

/// The routes below `/api/v1/tenants`.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    let one = get(show).put(put).delete(remove);
    Router::new()
        .route("/api/v1/tenants", get(list))
        .route("/api/v1/tenants/{name}", one)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(backend)
}

async fn list(State(backend): Shared, scope: DomainScope, _: Parameters<NoParameters>) -> Response {
    #[derive(Serialize)]
    struct TenantList {
        tenants: Vec<TenantView>,
    }
    let mut tenants = backend.tenants().map_or_else(Vec::new, TenantsApi::all);
    tenants.retain(|one| {
        scope
            .domain()
            .is_none_or(|domain| domain == one.config.name)
    });
    Json(TenantList { tenants }).into_response()
}

async fn show(
    State(backend): Shared,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    match backend.tenants().and_then(|api| api.find(&name)) {
        Some(tenant) => Json(tenant).into_response(),
        None => unknown(&name),
    }
}

async fn put(
    State(backend): Shared,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
    body: Bytes,
) -> Response {
    let config = match body::object::<TenantConfig>(&body) {
        Ok(config) if config.name.is_empty() || config.name == name => {
            TenantConfig { name, ..config }
        }
        Ok(config) => {
            let message = format!("name: `{}` is not the `{name}` of the path\n", config.name);
            return (StatusCode::BAD_REQUEST, message).into_response();
        }
        Err(rejection) => return rejection.into_response(),
    };
    let Some(api) = backend.tenants() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let name = config.name.clone();
    let (done, result) = completion();
    let status = match api.put(config, done) {
        Ok(true) => StatusCode::CREATED,
        Ok(false) => StatusCode::OK,
        Err(refusal) => return refuse(refusal),
    };
    match (result.settle().await, api.find(&name)) {
        (Ok(()), Some(tenant)) => (status, Json(tenant)).into_response(),
        // Another request has removed it in the meantime.
        (Ok(()), None) => status.into_response(),
        (Err(lost), _) => lost.into_response(),
    }
}

async fn remove(
    State(backend): Shared,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let Some(api) = backend.tenants() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (done, result) = completion();
    match api.remove(&name, done) {
        Ok(true) => match result.settle().await {
            Ok(()) => StatusCode::NO_CONTENT.into_response(),
            Err(lost) => lost.into_response(),
        },
        Ok(false) => unknown(&name),
        Err(refusal) => refuse(refusal),
    }
}

/// 400 for mistakes of the client, 409 for conflicts with what is there.
fn refuse(refusal: TenantRefusal) -> Response {
    let status = match refusal {
        TenantRefusal::Mistakes(_) => StatusCode::BAD_REQUEST,
        TenantRefusal::Store(refused) => return pending_commit::rejection(refused).into_response(),
        _ => StatusCode::CONFLICT,
    };
    (status, format!("{refusal}\n")).into_response()
}

fn unknown(name: &str) -> Response {
    let message = format!("there is no domain `{name}` with settings of its own\n");
    (StatusCode::NOT_FOUND, message).into_response()
}
