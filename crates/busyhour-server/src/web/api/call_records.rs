//! `/api/call-records`: records of ended calls, a page at a time, as JSON or CSV.

use super::{
    paging::{Page, PageQuery, user_part},
    pending_commit::Rejection,
};
use crate::{
    server::CallOutcome,
    web::{Backend, call_record_table},
};
use axum::{
    Json, Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use busyhour::clock::UnixTime;
use busyhour_store::{CallRecordQuery, CallRecordRow};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// The route.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    let reader = RecordReader {
        backend,
        places: Arc::new(Semaphore::new(READERS_MAX)),
    };
    Router::new()
        .route("/api/call-records", get(call_records))
        .with_state(reader)
}

#[derive(Clone)]
struct RecordReader {
    backend: Arc<dyn Backend>,
    /// Reading may look at every record.
    places: Arc<Semaphore>,
}

/// Which records are wanted.
#[derive(Deserialize)]
struct Wanted {
    user: Option<String>,
    from: Option<String>,
    until: Option<String>,
    outcome: Option<String>,
    format: Option<String>,
}

#[derive(Serialize)]
struct CallRecordList {
    /// The last one first, as many as were asked for.
    call_records: Vec<CallRecordRow>,
}

async fn call_records(
    State(reader): State<RecordReader>,
    Query(page): Query<PageQuery>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Rejection> {
    let query = wanted.query(&page)?;
    let is_csv = wanted.is_csv(&headers)?;
    let limit = query.limit;
    let call_records = reader.read(query).await?;
    let next = (call_records.len() == limit)
        .then(|| call_records.last())
        .flatten();
    let next = next.map(|last| last.id.to_string());
    if is_csv {
        return Ok(csv(&call_records, next));
    }
    let list = CallRecordList { call_records };
    Ok(Json(Page { list, next }).into_response())
}

/// A program that reads CSV finds the next page in the header `Link` (RFC 8288).
fn csv(records: &[CallRecordRow], next: Option<String>) -> Response {
    let text = call_record_table::text(records, true);
    let kind = (header::CONTENT_TYPE, call_record_table::CONTENT_TYPE);
    let mut response = ([kind], text).into_response();
    let link = next.and_then(|after| format!("<?after={after}>; rel=\"next\"").parse().ok());
    if let Some(link) = link {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

impl Wanted {
    fn query(&self, page: &PageQuery) -> Result<CallRecordQuery, Rejection> {
        let after = page.after.as_deref().map(str::parse).transpose();
        let after = after.map_err(|_| wrong("after: give the `next` of the page before"))?;
        let outcome = self.outcome.as_deref();
        if outcome.is_some_and(|name| CallOutcome::from_name(name).is_none()) {
            let names = CallOutcome::ALL.map(CallOutcome::as_str).join(", ");
            return Err(wrong(&format!("outcome: give one of {names}")));
        }
        Ok(CallRecordQuery {
            after,
            user: self.user.as_deref().map(|user| user_part(user).to_owned()),
            from: self
                .from
                .as_deref()
                .map(|text| time("from", text))
                .transpose()?,
            until: self
                .until
                .as_deref()
                .map(|text| time("until", text))
                .transpose()?,
            outcome: self.outcome.clone(),
            ..CallRecordQuery::first(page.limit()?)
        })
    }

    fn is_csv(&self, headers: &HeaderMap) -> Result<bool, Rejection> {
        match self.format.as_deref() {
            Some("csv") => Ok(true),
            Some("json") => Ok(false),
            Some(_) => Err(wrong("format: give csv or json")),
            None => {
                let accept = headers.get(header::ACCEPT);
                let accept = accept.and_then(|value| value.to_str().ok()).unwrap_or("");
                let mut kinds = accept.split(',').map(|one| one.split(';').next());
                Ok(kinds.any(|kind| kind.is_some_and(|kind| kind.trim() == "text/csv")))
            }
        }
    }
}

impl RecordReader {
    /// Reads on a worker of the pool, since it may take long.
    async fn read(self, query: CallRecordQuery) -> Result<Vec<CallRecordRow>, Rejection> {
        let place = self.places.acquire_owned().await;
        let place = place.map_err(|_| unavailable("the server ends"))?;
        let backend = self.backend;
        let Some(runtime) = backend.runtime() else {
            return backend
                .call_records(&query)
                .map_err(|error| unavailable(&error));
        };
        let pool = runtime.pool().clone();
        let (answer, answered) = oneshot::channel();
        let reading = (pool.clone(), backend.clone());
        let task = move || {
            // It stays taken until the task ends, even if the client has gone.
            let _place = place;
            let (pool, backend) = reading;
            let records = pool.blocking(|| backend.call_records(&query));
            // The client may be gone.
            let _ = answer.send(records);
        };
        if pool.try_push(task).is_err() {
            return Err(unavailable("the server has too much to do"));
        }
        match answered.await {
            Ok(records) => records.map_err(|error| unavailable(&error)),
            Err(_) => Err(unavailable("the server ends")),
        }
    }
}

/// RFC 3339, or seconds since 1970.
fn time(name: &str, text: &str) -> Result<UnixTime, Rejection> {
    let seconds = || text.parse().ok().map(UnixTime::from_secs);
    let timestamp = || {
        let nanos = text.parse::<jiff::Timestamp>().ok()?.as_nanosecond();
        u64::try_from(nanos).ok().map(UnixTime::from_nanos)
    };
    let wanted = || {
        wrong(&format!(
            "{name}: give a time such as 2026-11-22T08:00:00Z, or seconds since 1970"
        ))
    };
    seconds().or_else(timestamp).ok_or_else(wanted)
}

fn wrong(reason: &str) -> Rejection {
    (StatusCode::BAD_REQUEST, format!("{reason}\n"))
}

fn unavailable(reason: &str) -> Rejection {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n"))
}

/// So many requests may look at every record at the same time.
const READERS_MAX: usize = 2;
