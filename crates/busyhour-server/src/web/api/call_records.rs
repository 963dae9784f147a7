//! `/api/v1/call-records`: records of ended calls, a page at a time, as JSON or CSV.

use super::{
    paging::{Page, limit, user_part},
    pending_commit::Rejection,
};
use crate::{
    server::CallOutcome,
    web::{Backend, call_record_table, parameters::Parameters},
};
use axum::{
    Json, Router,
    extract::State,
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
        .route("/api/v1/call-records", get(call_records))
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
#[serde(deny_unknown_fields)]
struct Wanted {
    after: Option<String>,
    limit: Option<usize>,
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
    Parameters(wanted): Parameters<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Rejection> {
    let query = wanted.query()?;
    let address = wanted.address(&*reader.backend);
    let is_csv = wanted.is_csv(&headers)?;
    let limit = query.limit;
    let call_records = reader.read(query, address).await?;
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
    fn query(&self) -> Result<CallRecordQuery, Rejection> {
        let after = self.after.as_deref().map(str::parse).transpose();
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
            ..CallRecordQuery::first(limit(self.limit)?)
        })
    }

    /// The address of the user, if he was named by one.
    fn address(&self, backend: &dyn Backend) -> Option<String> {
        let user = self.user.as_deref().filter(|user| user.contains('@'));
        user.map(|user| canonical(backend, user))
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
    async fn read(
        self,
        query: CallRecordQuery,
        address: Option<String>,
    ) -> Result<Vec<CallRecordRow>, Rejection> {
        let place = self.places.acquire_owned().await;
        let place = place.map_err(|_| unavailable("the server ends"))?;
        let backend = self.backend;
        let Some(runtime) = backend.runtime() else {
            return records(&*backend, query, address.as_deref())
                .map_err(|error| unavailable(&error));
        };
        let pool = runtime.pool().clone();
        let (answer, answered) = oneshot::channel();
        let reading = (pool.clone(), backend.clone());
        let task = move || {
            // It stays taken until the task ends, even if the client has gone.
            let _place = place;
            let (pool, backend) = reading;
            let read = || records(&*backend, query, address.as_deref());
            let records = pool.blocking(read);
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

/// A page of records. The store knows the users of calls without their domains: those of other
/// domains than that of `address` are left out here, and more are read in their place.
fn records(
    backend: &dyn Backend,
    mut query: CallRecordQuery,
    address: Option<&str>,
) -> Result<Vec<CallRecordRow>, String> {
    let Some(address) = address else {
        return backend.call_records(&query);
    };
    let limit = query.limit;
    let mut found = Vec::new();
    loop {
        let rows = backend.call_records(&query)?;
        let is_last = rows.len() < limit;
        query.after = rows.last().map(|last| last.id);
        let wanted = rows.into_iter().filter(|row| {
            let mut addresses = row.addresses().into_iter();
            addresses.any(|uri| canonical(backend, uri) == address)
        });
        found.extend(wanted.take(limit - found.len()));
        if is_last || found.len() == limit {
            return Ok(found);
        }
    }
}

/// An address of ours as its address of record, others as they are: a user at a host.
fn canonical(backend: &dyn Backend, address: &str) -> String {
    let plain = || {
        let mut schemes = ["sip:", "sips:"].into_iter();
        let rest = schemes.find_map(|scheme| address.strip_prefix(scheme));
        let rest = rest.unwrap_or(address);
        let end = rest.find([';', '?']).unwrap_or(rest.len());
        format!("sip:{}", &rest[..end])
    };
    backend.address_of_record(address).unwrap_or_else(plain)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{server::ServerStats, web::BindingPage};

    /// `example.com` and `alias.example` are one domain.
    struct Records(Vec<CallRecordRow>);

    impl Backend for Records {
        fn stats(&self) -> ServerStats {
            ServerStats::default()
        }

        fn bindings(&self, _: Option<&str>, _: usize, _: Option<&str>) -> BindingPage {
            BindingPage::default()
        }

        fn is_draining(&self) -> bool {
            false
        }

        fn address_of_record(&self, text: &str) -> Option<String> {
            let address = text.strip_prefix("sip:").unwrap_or(text);
            let (user, host) = address.split_once('@')?;
            match host.split(';').next()? {
                "example.com" | "alias.example" => Some(format!("sip:{user}@example.com")),
                "tenant.example" => Some(format!("sip:{user}@tenant.example")),
                _ => None,
            }
        }

        fn call_records(&self, query: &CallRecordQuery) -> Result<Vec<CallRecordRow>, String> {
            let rows = self.0.iter().filter(|row| query.matches(row));
            Ok(rows.take(query.limit).cloned().collect())
        }
    }

    #[test]
    fn an_address_is_its_domains_and_a_user_that_of_every_domain() {
        let row = |id: u64, from: &str, to: &str| CallRecordRow {
            id,
            from: from.into(),
            to: to.into(),
            ..CallRecordRow::default()
        };
        let backend = Records(vec![
            row(6, "sip:bob@example.com", "sip:alice@alias.example;x=y"),
            row(5, "sip:alice@tenant.example", "sip:bob@tenant.example"),
            row(4, "sip:alice@elsewhere.example:5070", "sip:bob@example.com"),
            row(3, "sip:alice@tenant.example", "sip:carol@tenant.example"),
            row(2, "sip:alice@example.com", "sip:bob@example.com"),
            row(1, "sip:carol@example.com", "sip:bob@example.com"),
        ]);
        let ids = |user: &str, limit: usize| {
            let wanted = Wanted {
                after: None,
                limit: Some(limit),
                user: Some(user.to_owned()),
                from: None,
                until: None,
                outcome: None,
                format: None,
            };
            let query = wanted.query().expect("sound");
            let address = wanted.address(&backend);
            let found = records(&backend, query, address.as_deref()).expect("a store");
            found.iter().map(|row| row.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("alice", 10), [6, 5, 4, 3, 2]);
        assert_eq!(ids("alice@tenant.example", 10), [5, 3]);
        assert_eq!(ids("sip:alice@example.com", 10), [6, 2]);
        assert_eq!(ids("alice@alias.example", 1), [6]);
        assert_eq!(ids("alice@example.com", 2), [6, 2], "past those of others");
        assert_eq!(ids("alice@elsewhere.example:5070", 10), [4]);
        assert_eq!(ids("alice@nowhere.example", 10), [0; 0]);
    }
}
