//! Requests across the nodes of a cluster: what another node has is asked for there, and a list is one of all nodes.
//!
//! Whoever asks is checked by the node to which the request came. It asks others over NATS, with the domain of the
//! token. A node that is asked answers from what it has and asks nobody; so two nodes that believe the same of each
//! other do not ask in a circle. While a device is on its way from one node to another, a request for it waits at the node to which
//! it came, and at the one that has it next.
//!
//! A page of a list has the entries that the whole cluster has at that place, each with its `node`. Nodes that gave no
//! answer are named in `unanswered_nodes`, and what they have is missing. `?node=NAME` asks one node alone.

mod asked_list;
mod gathered_page;
mod node_request;
mod other_nodes;
mod questions;
mod asked_request;

use super::Backend;
use asked_list::AskedList;
use asked_request::{AskedRequest, AskedSubject};
use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use gathered_page::GatheredPage;
use other_nodes::OtherNodes;
use std::sync::Arc;

/// Marks a request for the part of a list that this node has.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodePart;

/// Marks a request of another node.
#[derive(Debug, Clone, Copy)]
struct OfNode;

/// The routes, of which those for devices, watchers and calls are about the whole cluster. From now on other nodes
/// are answered.
pub(super) fn across_nodes(backend: Arc<dyn Backend>, routes: Router) -> Router {
    let nodes = Arc::new(OtherNodes::new(backend.clone()));
    let routes = routes.layer(middleware::from_fn_with_state(nodes, spread));
    questions::answer(&*backend, routes.clone());
    routes
}

async fn spread(
    State(nodes): State<Arc<OtherNodes>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(wanted) = AskedRequest::of(request.method(), request.uri()) else {
        return next.run(request).await;
    };
    let is_of_node = request.extensions().get::<OfNode>().is_some();
    if let (AskedSubject::Device(name), None) = (&wanted.subject, &wanted.node) {
        nodes.wait_for_owner(name, is_of_node).await;
    }
    if is_of_node || nodes.is_alone() && wanted.node.is_none() {
        return own(&nodes, &wanted, request, next, is_of_node).await;
    }
    if let Some(target) = &wanted.target_here {
        *request.uri_mut() = target.clone();
    }
    match (&wanted.node, &wanted.subject) {
        (Some(node), _) if nodes.is_own(node) => own(&nodes, &wanted, request, next, false).await,
        (Some(node), _) if !nodes.lives(node) => unknown_node(node),
        (Some(node), _) => nodes.hand_on(node, &request).await,
        (None, AskedSubject::Device(name)) => match nodes.owner_of(name) {
            Some(node) => nodes.hand_on(&node, &request).await,
            None => next.run(request).await,
        },
        (None, AskedSubject::List(list)) => gather(&nodes, list, &wanted, request, next).await,
    }
}

/// What this node has. Without a lease another one may have its devices by now.
async fn own(
    nodes: &OtherNodes,
    wanted: &AskedRequest,
    mut request: Request,
    next: Next,
    is_part: bool,
) -> Response {
    let AskedSubject::List(list) = &wanted.subject else {
        return next.run(request).await;
    };
    if list.needs_lease && !nodes.have_lease() {
        return no_lease();
    }
    if is_part {
        request.extensions_mut().insert(NodePart);
    }
    next.run(request).await
}

async fn gather(
    nodes: &OtherNodes,
    list: &'static AskedList,
    wanted: &AskedRequest,
    request: Request,
    next: Next,
) -> Response {
    let others = nodes.ask_all(&request);
    let mut page = GatheredPage::new(list, wanted.limit, wanted.is_descending);
    let name = nodes.own_name();
    let own = own(nodes, wanted, request, next, true).await;
    // What is wrong with the request is wrong everywhere.
    if own.status().is_client_error() {
        return own;
    }
    page.take(&name, other_nodes::page_of(own).await);
    for (name, answer) in others {
        page.take(&name, answer.await.ok().and_then(|answer| answer.page()));
    }
    page.into_response()
}

fn unknown_node(name: &str) -> Response {
    let reason = format!("no node `{name}` of this cluster lives\n");
    (StatusCode::NOT_FOUND, reason).into_response()
}

fn no_lease() -> Response {
    let retry_after = [(header::RETRY_AFTER, RETRY_AFTER_S)];
    (StatusCode::SERVICE_UNAVAILABLE, retry_after, NO_LEASE).into_response()
}

const RETRY_AFTER_S: &str = "3";
const NO_LEASE: &str =
    "the lease of this node is over, so another node may have its devices: try again\n";
