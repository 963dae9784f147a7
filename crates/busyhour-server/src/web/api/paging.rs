//! What the lists of the API have in common.

use super::pending_commit::Rejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

/// Which page is asked for.
#[derive(Deserialize)]
pub(in crate::web) struct PageQuery {
    pub(in crate::web) after: Option<String>,
    limit: Option<usize>,
}

/// A page of a list, which has a name of its own.
#[derive(Serialize)]
pub(in crate::web) struct Page<T> {
    #[serde(flatten)]
    pub(in crate::web) list: T,
    /// Pass it as `after` for the next page; null on the last.
    pub(in crate::web) next: Option<String>,
}

impl PageQuery {
    /// How much of it.
    pub(in crate::web) fn limit(&self) -> Result<usize, Rejection> {
        limit(self.limit)
    }
}

/// How much of a list is asked for.
pub(in crate::web) fn limit(asked: Option<usize>) -> Result<usize, Rejection> {
    let limit = asked.unwrap_or(PAGE_LEN);
    match (1..=PAGE_LEN_MAX).contains(&limit) {
        true => Ok(limit),
        false => {
            let reason = format!("limit: give a whole number from 1 to {PAGE_LEN_MAX}\n");
            Err((StatusCode::BAD_REQUEST, reason))
        }
    }
}

const PAGE_LEN: usize = 1000;
const PAGE_LEN_MAX: usize = 100_000;
/// The longest body of a PUT: an account with the maximum of hints is shorter.
pub(in crate::web) const BODY_BYTES_MAX: usize = 64 << 10;
