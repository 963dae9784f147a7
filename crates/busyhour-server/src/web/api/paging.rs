//! Paging, which all lists of the API share.

use super::pending_commit::Rejection;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

/// The requested page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::web) struct PageQuery {
    pub(in crate::web) after: Option<String>,
    limit: Option<usize>,
}

/// A page of a list; the list has its own name.
#[derive(Serialize)]
pub(in crate::web) struct Page<T> {
    #[serde(flatten)]
    pub(in crate::web) list: T,
    /// Pass it as `after` for the next page; null on the last.
    pub(in crate::web) next: Option<String>,
}

impl PageQuery {
    /// The requested number of entries.
    pub(in crate::web) fn limit(&self) -> Result<usize, Rejection> {
        limit(self.limit)
    }
}

/// Checks the requested number of entries.
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
/// The longest body of a PUT: an account with the most hints is shorter.
pub(in crate::web) const BODY_BYTES_MAX: usize = 64 << 10;

/// The user of an address, or the text itself, if it is a user: `alice` of
/// `sip:alice@example.com`. Of several domains each may have such a user.
pub(in crate::web) fn user_part(text: &str) -> &str {
    let address = ["sip:", "sips:"]
        .into_iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    let address = address.unwrap_or(text);
    address.split_once('@').map_or(address, |(user, _)| user)
}
