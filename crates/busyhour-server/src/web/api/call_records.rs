//! `/api/v1/call-records`: records of ended calls, a page at a time, as JSON or CSV.

use super::{
    paging::{Page, limit, user_part},
    pending_commit::Rejection,
};
use crate::{
    server::CallOutcome,
    web::{
        Backend, call_record_table,
        on_worker::{OnWorker, unavailable},
        parameters::Parameters,
    },
};
use axum::{
    Json, Router,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use busyhour::clock::UnixTime;
use busyhour_store::{CallRecordQuery, CallRecordRow};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The route.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    // Reading may look at every record.
    let reader = OnWorker::new(backend, READERS_MAX);
    Router::new()
        .route("/api/v1/call-records", get(call_records))
        .with_state(reader)
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
    State(reader): State<OnWorker>,
    Parameters(wanted): Parameters<Wanted>,
    RawQuery(asked): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Rejection> {
    let query = wanted.query()?;
    let address = wanted.address(reader.backend());
    let is_csv = wanted.is_csv(&headers)?;
    let limit = query.limit;
    let read = move |backend: &dyn Backend| read_blocking(backend, query, address.as_deref());
    let call_records = reader.read(read).await?;
    let call_records = call_records.map_err(|error| unavailable(&error))?;
    let next = (call_records.len() == limit)
        .then(|| call_records.last())
        .flatten();
    let next = next.map(|last| last.id.to_string());
    if is_csv {
        let next = next.map(|after| next_page(asked.as_deref().unwrap_or_default(), &after));
        return Ok(csv(&call_records, next));
    }
    let list = CallRecordList { call_records };
    Ok(Json(Page { list, next }).into_response())
}

/// The same query behind these records.
fn next_page(query: &str, after: &str) -> String {
    let asked = form_urlencoded::parse(query.as_bytes());
    let mut next = form_urlencoded::Serializer::new(String::new());
    next.extend_pairs(asked.filter(|(name, _)| name != "after"));
    next.append_pair("after", after);
    next.finish()
}

/// A program that reads CSV finds the next page in the header `Link` (RFC 8288).
fn csv(records: &[CallRecordRow], next: Option<String>) -> Response {
    let text = call_record_table::text(records, true);
    let kind = (header::CONTENT_TYPE, call_record_table::CONTENT_TYPE);
    let mut response = ([kind], text).into_response();
    let link = next.and_then(|query| format!("<?{query}>; rel=\"next\"").parse().ok());
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

/// The store may have to wait for the disk, and another worker takes the place of this one.
fn read_blocking(
    backend: &dyn Backend,
    query: CallRecordQuery,
    address: Option<&str>,
) -> Result<Vec<CallRecordRow>, String> {
    let read = || records(backend, query, address);
    match backend.runtime() {
        Some(runtime) => runtime.pool().blocking(read),
        None => read(),
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
    // Of many rows few may be wanted, and a query costs more than a row.
    query.limit = limit.max(ROWS_AT_ONCE);
    let mut found = Vec::new();
    loop {
        let rows = backend.call_records(&query)?;
        let is_last = rows.len() < query.limit;
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

/// So many requests may look at every record at the same time.
const READERS_MAX: usize = 2;
const ROWS_AT_ONCE: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{server::ServerStats, web::BindingPage};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// `example.com` and `alias.example` are one domain.
    struct Records {
        rows: Vec<CallRecordRow>,
        asked: AtomicUsize,
    }

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
            self.asked.fetch_add(1, Ordering::Relaxed);
            let rows = self.rows.iter().filter(|row| query.matches(row));
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
        let rows = vec![
            row(6, "sip:bob@example.com", "sip:alice@alias.example;x=y"),
            row(5, "sip:alice@tenant.example", "sip:bob@tenant.example"),
            row(4, "sip:alice@elsewhere.example:5070", "sip:bob@example.com"),
            row(3, "sip:alice@tenant.example", "sip:carol@tenant.example"),
            row(2, "sip:alice@example.com", "sip:bob@example.com"),
            row(1, "sip:carol@example.com", "sip:bob@example.com"),
        ];
        let backend = Records {
            rows,
            asked: AtomicUsize::new(0),
        };
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

    #[test]
    fn many_rows_of_others_are_read_at_once() {
        let row = |id: u64| CallRecordRow {
            id,
            from: "sip:alice@tenant.example".into(),
            ..CallRecordRow::default()
        };
        let backend = Records {
            rows: (1..=ROWS_AT_ONCE as u64 + 1).rev().map(row).collect(),
            asked: AtomicUsize::new(0),
        };
        let found = records(
            &backend,
            CallRecordQuery::first(1),
            Some("sip:alice@example.com"),
        );
        assert_eq!(found, Ok(Vec::new()));
        assert_eq!(backend.asked.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_next_page_of_csv_is_of_the_same_query() {
        let asked = "limit=2&user=bob%40example.com&after=9&format=csv";
        let next = "limit=2&user=bob%40example.com&format=csv&after=27";
        assert_eq!(next_page(asked, "27"), next);
        assert_eq!(next_page("", "27"), "after=27");
    }
}
