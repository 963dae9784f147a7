//! Registered contacts over HTTP: listed a page at a time, looked up by address of record,
//! removed.

use super::paging::user_part;
use crate::{
    server::{AddressOwner, Listed, Listing},
    web::{
        Backend,
        domain_scope::DomainScope,
        on_worker::OnWorker,
        parameters::{NoParameters, Parameters, PathName},
    },
};
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use busyhour::clock::Instant;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::mpsc;
use utoipa::ToSchema;

/// A page of bindings, as `/api/v1/bindings` gives it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct BindingPage {
    /// The bindings; all those of an address of record are on the same page.
    pub bindings: Vec<BindingView>,
    /// Pass it as `after` for the next page; `None` on the last.
    pub next: Option<String>,
}

/// One registered contact, as `/api/v1/bindings` gives it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct BindingView {
    /// Canonical address of record, such as `sip:alice@example.com`.
    pub aor: String,
    /// The contact URI as the device wrote it.
    pub contact: String,
    /// The other parameters of its Contact, such as `;+sip.instance="<urn:uuid:…>"`.
    pub parameters: String,
    /// Preference in thousandths; `None` if the device gave none.
    pub q_milli: Option<u16>,
    /// The values of Path, which a request for the contact needs as its Route (RFC 3327).
    pub path: String,
    /// Call-ID of the registration.
    pub call_id: String,
    /// CSeq of the last registration.
    pub cseq: u32,
    /// `udp`, `tcp` or `tls`: how the registration came.
    pub transport: &'static str,
    /// Where the registration came from.
    pub source: String,
    /// Whether messages reach the device, as far as the server knows.
    pub reachable: bool,
    /// `reachable`; `unverified` after a restart, until the device was heard; `unreachable`.
    pub reach: &'static str,
    /// Seconds until it runs out.
    pub expires_in_seconds: u64,
    /// The device's User-Agent.
    pub user_agent: String,
}

impl From<Listing> for BindingPage {
    fn from(listing: Listing) -> Self {
        let view = |listed| BindingView::new(listed, listing.at);
        Self {
            bindings: listing.bindings.iter().map(view).collect(),
            next: listing.next.map(String::from),
        }
    }
}

impl BindingView {
    fn new(listed: &Listed, now: Instant) -> Self {
        let Listed { aor, binding } = listed;
        let contact = binding.contact.parts();
        Self {
            aor: aor.to_string(),
            contact: contact.uri.to_string(),
            parameters: contact.parameters.to_string(),
            q_milli: contact.q_milli,
            path: contact.path.to_string(),
            call_id: contact.call_id.to_string(),
            cseq: binding.lease().cseq,
            transport: contact.flow.transport.parameter(),
            source: contact.flow.remote.to_string(),
            reachable: binding.contact.is_reachable(),
            reach: binding.contact.reach().name(),
            expires_in_seconds: (binding.expires_at - now).as_secs(),
            user_agent: contact.user_agent.to_string(),
        }
    }
}

/// The routes below `/api/v1/bindings`.
pub(in crate::web) fn router(backend: Arc<dyn Backend>) -> Router {
    // A page looks at the row of every device.
    let reader = OnWorker::new(backend.clone(), READERS_MAX);
    let list = Router::new().route("/api/v1/bindings", get(list));
    Router::new()
        .route("/api/v1/bindings/{aor}", get(show).delete(remove))
        .with_state(backend)
        .merge(list.with_state(reader))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    user: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

async fn list(
    State(reader): State<OnWorker>,
    scope: DomainScope,
    Parameters(query): Parameters<ListQuery>,
) -> Response {
    if let Some(user) = query.user {
        return of_user(&reader, &scope, user).await;
    }
    let limit = query.limit.unwrap_or(PAGE_LEN);
    if !(1..=PAGE_LEN_MAX).contains(&limit) {
        let message = format!("limit: give a whole number from 1 to {PAGE_LEN_MAX}\n");
        return (StatusCode::BAD_REQUEST, message).into_response();
    }
    let (after, domain) = (query.after, scope.domain().map(str::to_owned));
    let page = reader.read(move |backend| {
        let (after, domain) = (after.as_deref(), domain.as_deref());
        backend.bindings(after, limit, domain)
    });
    page.await.map(Json).into_response()
}

async fn of_user(reader: &OnWorker, scope: &DomainScope, user: String) -> Response {
    let backend = reader.backend();
    let address = user.contains(['@', ':']);
    let address = address.then(|| backend.address_of_record(&user)).flatten();
    let found = match address {
        Some(aor) => match refusal_elsewhere(&aor, backend.owner_of(&aor)) {
            Some(refusal) => return refusal,
            None => Ok(backend.bindings_at(&aor)),
        },
        // An address of another server.
        None if user.contains('@') => Ok(BindingPage::default()),
        None => {
            let of_user = move |backend: &dyn Backend| backend.bindings_of(user_part(&user));
            reader.read(of_user).await
        }
    };
    let covered = found.map(|mut page| {
        page.bindings.retain(|one| scope.covers(&one.aor));
        Json(page)
    });
    covered.into_response()
}

async fn show(
    State(backend): State<Arc<dyn Backend>>,
    scope: DomainScope,
    PathName(name): PathName,
    _: Parameters<NoParameters>,
) -> Response {
    let aor = backend.address_of_record(&name);
    let Some(aor) = aor.filter(|aor| scope.covers(aor)) else {
        return no_address(&name);
    };
    if let Some(refusal) = refusal_elsewhere(&aor, backend.owner_of(&aor)) {
        return refusal;
    }
    let page = backend.bindings_at(&aor);
    match page.bindings.is_empty() {
        true => none_there(&aor, None),
        false => Json(page).into_response(),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveQuery {
    contact: Option<String>,
}

/// Answers when the removal is durable.
async fn remove(
    State(backend): State<Arc<dyn Backend>>,
    scope: DomainScope,
    PathName(name): PathName,
    Parameters(query): Parameters<RemoveQuery>,
) -> Response {
    #[derive(Serialize)]
    struct Removed {
        removed: u64,
    }
    let aor = backend.address_of_record(&name);
    let Some(aor) = aor.filter(|aor| scope.covers(aor)) else {
        return no_address(&name);
    };
    if let Some(refusal) = refusal_elsewhere(&aor, backend.owner_of(&aor)) {
        return refusal;
    }
    let contact = query.contact.as_deref();
    let (told, mut outcome) = mpsc::channel(1);
    // The client may be gone.
    let listener = Arc::new(move |outcome| {
        let _ = told.try_send(outcome);
    });
    backend.remove_bindings(&aor, contact, listener);
    match outcome.recv().await {
        Some(Ok(0)) => none_there(&aor, contact),
        Some(Ok(removed)) => Json(Removed { removed }).into_response(),
        Some(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the server ends\n").into_response(),
    }
}

/// If this node of a cluster knows nothing of the address. Requests for those of others are handed on, so another
/// node has it only for the moment in which it moves.
pub(super) fn refusal_elsewhere(aor: &str, owner: AddressOwner) -> Option<Response> {
    let message = match owner {
        AddressOwner::Here => return None,
        AddressOwner::Other(node) => {
            format!("{aor} is on its way to node {node} of the cluster: try again\n")
        }
        AddressOwner::Nobody => {
            format!("no node of the cluster has {aor} at the moment: try again\n")
        }
    };
    let retry_after = [(header::RETRY_AFTER, RETRY_AFTER_S)];
    Some((StatusCode::SERVICE_UNAVAILABLE, retry_after, message).into_response())
}

fn no_address(name: &str) -> Response {
    let message = format!(
        "`{name}` is no address of record of this server: give one such as sip:alice@example.com\n"
    );
    (StatusCode::NOT_FOUND, message).into_response()
}

fn none_there(aor: &str, contact: Option<&str>) -> Response {
    let message = match contact {
        Some(contact) => format!("{aor} has no contact {contact}\n"),
        None => format!("nothing is registered as {aor}\n"),
    };
    (StatusCode::NOT_FOUND, message).into_response()
}

/// By then somebody has taken over, if the database can be reached.
const RETRY_AFTER_S: &str = "3";
const PAGE_LEN: usize = 1000;
const PAGE_LEN_MAX: usize = 100_000;
/// So many requests may look at every device at the same time.
const READERS_MAX: usize = 2;
