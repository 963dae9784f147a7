//! `/api/v1/certificates`: what peers are shown over TLS, and reading it again.

use crate::{
    server::CertificateStats,
    web::{
        Backend,
        parameters::{NoParameters, Parameters},
        rate_limit::retry_after,
    },
};
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Serialize;
use std::{sync::Arc, time::Duration};

/// What can be done with the certificates of the server.
pub trait CertificatesApi: Send + Sync {
    /// Why the files could not be used when they were read last; what was read before is still
    /// shown.
    fn problem(&self) -> Option<String>;

    /// Reads all files again. It blocks for as long as that takes.
    ///
    /// # Errors
    ///
    /// Which file cannot be used, and why. What was read before is still shown.
    fn reload(&self) -> Result<(), String>;

    /// Orders a certificate by ACME now.
    ///
    /// # Errors
    ///
    /// Why not.
    fn renew(&self) -> Result<(), RenewError>;
}

/// Why no certificate is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewError {
    /// None is ordered at all.
    Off,
    /// It was asked for too often: the authority counts orders. How long until it may be again.
    TooOften(Duration),
}

pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    Router::new()
        .route("/api/v1/certificates", get(certificates))
        .route("/api/v1/certificates/reload", post(reload))
        .route("/api/v1/certificates/renew", post(renew))
        .with_state(backend)
}

#[derive(Serialize)]
struct CertificateList {
    certificates: Vec<CertificateStats>,
    /// Why newer files are not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

async fn certificates(
    State(backend): State<Arc<dyn Backend>>,
    _: Parameters<NoParameters>,
) -> Json<CertificateList> {
    Json(CertificateList {
        certificates: backend.stats().certificates,
        problem: backend.certificates().and_then(|it| it.problem()),
    })
}

async fn renew(State(backend): State<Arc<dyn Backend>>, _: Parameters<NoParameters>) -> Response {
    let renewed = backend.certificates().map(|it| it.renew());
    match renewed.unwrap_or(Err(RenewError::Off)) {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(RenewError::Off) => (StatusCode::NOT_FOUND, "acme.directory is off\n").into_response(),
        Err(RenewError::TooOften(rest)) => {
            let after = [retry_after(rest)];
            (StatusCode::TOO_MANY_REQUESTS, after, TOO_OFTEN).into_response()
        }
    }
}

async fn reload(State(backend): State<Arc<dyn Backend>>, _: Parameters<NoParameters>) -> Response {
    let Some(certificates) = backend.certificates() else {
        let text = "there are no certificates: sip.tls and http.tls_listen are off\n";
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    match certificates.reload() {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => (StatusCode::CONFLICT, format!("{problem}\n")).into_response(),
    }
}

const TOO_OFTEN: &str = "two certificates were ordered on request in the last four days, and the \
    authority gives few a week; by itself the server orders one when it is time\n";
