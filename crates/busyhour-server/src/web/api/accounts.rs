//! Accounts over HTTP: listed, shown, put, removed.

use super::{
    paging::{BODY_BYTES_MAX, Page, PageQuery},
    pending_commit::{self, PendingCommit, Rejection, completion},
};
use crate::web::{
    Backend,
    domain_scope::DomainScope,
    parameters::{Parameters, PathName},
};
use crate::{
    json,
    server::{AccountError, FailureView, Server},
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use busyhour_store::{AccountEntry, AccountView, Completion};
use serde::Serialize;
use std::sync::Arc;

/// The backend for accounts: the server, or a fake in tests.
pub trait AccountsApi: Send + Sync {
    /// At most `limit` accounts behind the account `after`, by name; only those of `domain`,
    /// if given.
    fn page(&self, after: Option<&str>, limit: usize, domain: Option<&str>) -> Vec<AccountView>;

    /// One account.
    fn find(&self, user: &str) -> Option<AccountView>;

    /// Stores an account; `done` is called when the account is durable and in effect.
    ///
    /// # Errors
    ///
    /// See [`AccountError`]; `done` is not called then.
    fn put(&self, entry: AccountEntry, done: Completion) -> Result<(), AccountError>;

    /// Deletes an account; otherwise as [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// See [`AccountError`].
    fn remove(&self, user: &str, done: Completion) -> Result<(), AccountError>;
}

impl AccountsApi for Server {
    fn page(&self, after: Option<&str>, limit: usize, domain: Option<&str>) -> Vec<AccountView> {
        self.stored_accounts(after, limit, domain)
    }

    fn find(&self, user: &str) -> Option<AccountView> {
        self.stored_account(user)
    }

    fn put(&self, entry: AccountEntry, done: Completion) -> Result<(), AccountError> {
        self.put_account(entry, done)
    }

    fn remove(&self, user: &str, done: Completion) -> Result<(), AccountError> {
        self.remove_account(user, done)
    }
}

/// The routes below `/api/accounts`.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    let one = get(show).put(put).delete(remove);
    Router::new()
        .route("/api/accounts", get(list))
        .route("/api/accounts/{user}", one)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(backend)
}

async fn list(
    State(backend): State<Arc<dyn Backend>>,
    scope: DomainScope,
    Parameters(query): Parameters<PageQuery>,
) -> Response {
    #[derive(Serialize)]
    struct AccountList {
        accounts: Vec<AccountView>,
    }
    let limit = match query.limit() {
        Ok(limit) => limit,
        Err(rejection) => return rejection.into_response(),
    };
    let Some(api) = backend.accounts() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let accounts = api.page(query.after.as_deref(), limit, scope.domain());
    let last = accounts.last().filter(|_| accounts.len() == limit);
    let next = last.map(|account| account.user.clone());
    let list = AccountList { accounts };
    Json(Page { list, next }).into_response()
}

async fn show(State(backend): State<Arc<dyn Backend>>, PathName(user): PathName) -> Response {
    #[derive(Serialize)]
    struct Shown {
        #[serde(flatten)]
        account: AccountView,
        failures: Vec<FailureView>,
    }
    match backend.accounts().and_then(|api| api.find(&user)) {
        Some(account) => {
            let failures = backend.failures(Some(&user), usize::MAX);
            Json(Shown { account, failures }).into_response()
        }
        None => unknown(&user),
    }
}

async fn put(
    State(backend): State<Arc<dyn Backend>>,
    scope: DomainScope,
    PathName(user): PathName,
    body: Bytes,
) -> Response {
    let entry = match serde_json::from_slice::<AccountEntry>(&body) {
        Ok(entry) if entry.user.is_empty() || entry.user == user => AccountEntry { user, ..entry },
        Ok(entry) => {
            let message = format!("user: `{}` is not the `{user}` of the path\n", entry.user);
            return (StatusCode::BAD_REQUEST, message).into_response();
        }
        Err(error) => {
            let mistake = json::mistake_at(&error);
            return (StatusCode::BAD_REQUEST, format!("body: {mistake}\n")).into_response();
        }
    };
    let names = entry.aliases.iter().chain([&entry.user]);
    if let Err(rejection) = scope.check_names(names) {
        return rejection.into_response();
    }
    let Some(api) = backend.accounts() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let status = match api.find(&entry.user) {
        Some(_) => StatusCode::OK,
        None => StatusCode::CREATED,
    };
    let user = entry.user.clone();
    let (done, result) = completion();
    let stored = settle(api.put(entry, done), result).await;
    match (stored, api.find(&user)) {
        (Ok(()), Some(account)) => (status, Json(account)).into_response(),
        // Another request has removed it in the meantime.
        (Ok(()), None) => status.into_response(),
        (Err(refusal), _) => refusal.into_response(),
    }
}

async fn remove(State(backend): State<Arc<dyn Backend>>, PathName(user): PathName) -> Response {
    let Some(api) = backend.accounts() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if api.find(&user).is_none() {
        return unknown(&user);
    }
    let (done, result) = completion();
    match settle(api.remove(&user, done), result).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// Waits until a change is durable, or answers why it is not.
async fn settle(
    handed_over: Result<(), AccountError>,
    result: PendingCommit,
) -> Result<(), Rejection> {
    match handed_over {
        Ok(()) => result.settle().await,
        Err(AccountError::Entry(reason)) => Err((StatusCode::BAD_REQUEST, reason + "\n")),
        Err(error @ (AccountError::Open | AccountError::Full(_))) => {
            Err((StatusCode::CONFLICT, format!("{error}\n")))
        }
        Err(AccountError::Store(refused)) => Err(pending_commit::rejection(refused)),
    }
}

fn unknown(user: &str) -> Response {
    let message = format!("there is no account `{user}` in the store\n");
    (StatusCode::NOT_FOUND, message).into_response()
}
