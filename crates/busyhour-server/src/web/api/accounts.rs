//! Accounts over HTTP: listed, shown, put, removed.

use super::{
    body,
    paging::{BODY_BYTES_MAX, Page, PageQuery},
    pending_commit::{self, PendingCommit, Rejection, completion},
};
use crate::server::{AccountError, FailureView, Server};
use crate::web::{
    Backend,
    domain_scope::DomainScope,
    parameters::{NoParameters, Parameters, PathName},
    protocol::etag,
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use busyhour_store::{AccountEntry, AccountView, Completion};
use serde::{Deserialize, Serialize};
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

    /// Disables an account, or enables it; `false` if there is none. Otherwise as [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// See [`AccountError`].
    fn disable(
        &self,
        user: &str,
        is_disabled: bool,
        done: Completion,
    ) -> Result<bool, AccountError>;

    /// Deletes an account; otherwise as [`put`](Self::put).
    ///
    /// # Errors
    ///
    /// See [`AccountError`].
    fn remove(&self, user: &str, done: Completion) -> Result<(), AccountError>;

    /// Forgets what the service for credentials has said of an account that is not in the store, and ends what the account
    /// has; `false` if nothing is known of it.
    fn forget(&self, user: &str) -> bool;
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

    fn disable(
        &self,
        user: &str,
        is_disabled: bool,
        done: Completion,
    ) -> Result<bool, AccountError> {
        self.disable_account(user, is_disabled, done)
    }

    fn remove(&self, user: &str, done: Completion) -> Result<(), AccountError> {
        self.remove_account(user, done)
    }

    fn forget(&self, user: &str) -> bool {
        self.forget_credentials(user)
    }
}

/// The routes below `/api/v1/accounts`.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    let one = get(show).put(put).patch(change).delete(remove);
    Router::new()
        .route("/api/v1/accounts", get(list))
        .route("/api/v1/accounts/{user}", one)
        .route("/api/v1/accounts/{user}/password", post(set_password))
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

async fn show(
    State(backend): State<Arc<dyn Backend>>,
    PathName(user): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    #[derive(Serialize)]
    struct Shown {
        #[serde(flatten)]
        account: AccountView,
        failures: Vec<FailureView>,
    }
    match backend.accounts().and_then(|api| api.find(&user)) {
        Some(account) => {
            let failures = backend.failures(Some(&user), usize::MAX);
            // The tag is of the account alone: while somebody tries passwords, it can still be changed.
            let tag = [(header::ETAG, etag::of(&account))];
            (tag, Json(Shown { account, failures })).into_response()
        }
        None => unknown(&user),
    }
}

/// What changes of an account; everything else stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountChange {
    disabled: bool,
}

async fn change(
    State(backend): State<Arc<dyn Backend>>,
    PathName(user): PathName,
    _: Parameters<NoParameters>,
    body: Bytes,
) -> Response {
    let wanted = match body::object::<AccountChange>(&body) {
        Ok(wanted) => wanted,
        Err(rejection) => return rejection.into_response(),
    };
    let Some(api) = backend.accounts() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (done, result) = completion();
    let handed_over = match api.disable(&user, wanted.disabled, done) {
        Ok(false) => return unknown(&user),
        Ok(true) => Ok(()),
        Err(error) => Err(error),
    };
    match (settle(handed_over, result).await, api.find(&user)) {
        (Ok(()), Some(account)) => Json(account).into_response(),
        // Another request has removed it in the meantime.
        (Ok(()), None) => unknown(&user),
        (Err(refusal), _) => refusal.into_response(),
    }
}

async fn put(
    State(backend): State<Arc<dyn Backend>>,
    scope: DomainScope,
    PathName(user): PathName,
    _: Parameters<NoParameters>,
    body: Bytes,
) -> Response {
    let entry = match body::object::<AccountEntry>(&body) {
        Ok(entry) if entry.user.is_empty() || entry.user == user => AccountEntry { user, ..entry },
        Ok(entry) => {
            let message = format!("user: `{}` is not the `{user}` of the path\n", entry.user);
            return (StatusCode::BAD_REQUEST, message).into_response();
        }
        Err(rejection) => return rejection.into_response(),
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

/// The password that is wanted; without one the server makes it.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct NewPassword {
    password: Option<String>,
}

/// Everything else of the account stays as it is.
async fn set_password(
    State(backend): State<Arc<dyn Backend>>,
    PathName(user): PathName,
    _: Parameters<NoParameters>,
    body: Bytes,
) -> Response {
    #[derive(Serialize)]
    struct ToldPassword {
        user: String,
        /// Only one that the server has made.
        password: Option<String>,
    }
    let wanted = match body::object_or_nothing::<NewPassword>(&body) {
        Ok(wanted) => wanted.password,
        Err(rejection) => return rejection.into_response(),
    };
    let found = backend
        .accounts()
        .and_then(|api| api.find(&user).map(|account| (api, account)));
    let Some((api, account)) = found else {
        return unknown(&user);
    };
    let made = match wanted {
        Some(_) => None,
        None => match random_password() {
            Ok(password) => Some(password),
            Err(error) => {
                let reason = format!("no password can be made: {error}\n");
                return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
            }
        },
    };
    let entry = account.with_password(wanted.or_else(|| made.clone()));
    let (done, result) = completion();
    match settle(api.put(entry, done), result).await {
        Ok(()) => Json(ToldPassword {
            user,
            password: made,
        })
        .into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

/// 20 letters and digits that nobody takes for one another: some 100 bits.
fn random_password() -> Result<String, getrandom::Error> {
    let mut random = [0; PASSWORD_LEN];
    getrandom::fill(&mut random)?;
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    Ok(random.iter().map(letter).collect())
}

async fn remove(
    State(backend): State<Arc<dyn Backend>>,
    PathName(user): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let Some(api) = backend.accounts() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if api.find(&user).is_none() {
        return match api.forget(&user) {
            true => StatusCode::NO_CONTENT.into_response(),
            false => unknown(&user),
        };
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

const PASSWORD_LEN: usize = 20;
/// 32 of them, so that each is as likely as the others.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
