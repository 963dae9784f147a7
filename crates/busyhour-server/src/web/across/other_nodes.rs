//! The other nodes, as they are asked.

use super::node_request::{NodeAnswer, NodeRequest};
use crate::{
    server::{AddressOwner, NodeLife, NodeSilence},
    web::{Backend, domain_scope::DomainScope},
};
use axum::{
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use std::{future::Future, sync::Arc};
use tokio::sync::oneshot;

/// Asks them.
pub(super) struct OtherNodes {
    backend: Arc<dyn Backend>,
}

impl OtherNodes {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    pub(super) fn is_alone(&self) -> bool {
        self.backend.cluster_nodes().is_empty()
    }

    pub(super) fn have_lease(&self) -> bool {
        self.backend.has_lease()
    }

    pub(super) fn own_name(&self) -> String {
        let nodes = self.backend.cluster_nodes();
        let own = nodes.into_iter().find(|one| one.is_asked);
        own.map(|own| own.name).unwrap_or_default()
    }

    pub(super) fn is_own(&self, name: &str) -> bool {
        let nodes = self.backend.cluster_nodes();
        nodes.iter().any(|one| one.is_asked && one.name == name)
    }

    pub(super) fn lives(&self, name: &str) -> bool {
        let nodes = self.backend.cluster_nodes();
        let mut nodes = nodes.iter();
        nodes.any(|one| one.name == name && one.life != NodeLife::Down)
    }

    /// Waits while what a text names is on its way from one node to another, but not for long.
    pub(super) fn wait_for_owner(
        &self,
        name: &str,
        is_of_node: bool,
    ) -> impl Future<Output = ()> + use<> {
        let (told, owned) = oneshot::channel();
        if let Some(aor) = self.backend.address_of_record(name) {
            let told = Box::new(move || {
                // The client may be gone.
                let _ = told.send(());
            });
            self.backend.tell_of_owner(&aor, is_of_node, told);
        }
        async move {
            // If nobody has it in time, whoever goes on finds that.
            let _ = owned.await;
        }
    }

    /// The node that has what a text names, if that is another one.
    pub(super) fn owner_of(&self, name: &str) -> Option<String> {
        let aor = self.backend.address_of_record(name)?;
        match self.backend.owner_of(&aor) {
            AddressOwner::Other(node) => Some(node),
            AddressOwner::Here | AddressOwner::Nobody => None,
        }
    }

    /// What a node answers to a request.
    pub(super) fn hand_on(
        &self,
        node: &str,
        request: &Request,
    ) -> impl Future<Output = Response> + use<> {
        let (asked, node) = (self.ask(node, asked(request)), node.to_owned());
        async move {
            let answer = asked.await.unwrap_or_else(|silence| told(&node, silence));
            answer.into_response()
        }
    }

    /// Asks each other node that lives; all are asked before the first answer is awaited.
    pub(super) fn ask_all(
        &self,
        request: &Request,
    ) -> Vec<(
        String,
        impl Future<Output = Result<NodeAnswer, NodeSilence>> + use<>,
    )> {
        let question = asked(request);
        let nodes = self.backend.cluster_nodes().into_iter();
        let others = nodes.filter(|one| !one.is_asked && one.life != NodeLife::Down);
        let asked = others.map(|one| {
            let answer = self.ask(&one.name, question.clone());
            (one.name, answer)
        });
        asked.collect()
    }

    fn ask(
        &self,
        node: &str,
        question: Vec<u8>,
    ) -> impl Future<Output = Result<NodeAnswer, NodeSilence>> + use<> {
        let (told, answer) = oneshot::channel();
        let done = Box::new(move |answer| {
            // The client may be gone.
            let _ = told.send(answer);
        });
        let asked = self.backend.ask_node(node, question, done);
        async move {
            asked?;
            let answer = answer.await.unwrap_or(Err(NodeSilence::Late))?;
            NodeAnswer::parse(answer).ok_or(NodeSilence::NotAsked)
        }
    }
}

/// What the client is told of a node that is silent.
fn told(node: &str, silence: NodeSilence) -> NodeAnswer {
    match silence {
        NodeSilence::NotAsked => {
            let reason = format!("node {node} of the cluster cannot be asked now: try again\n");
            NodeAnswer::refusal(StatusCode::SERVICE_UNAVAILABLE, &reason)
        }
        NodeSilence::Late => {
            let reason = format!(
                "node {node} of the cluster has not answered in time, so nobody knows whether this was done: \
                 look, and ask again\n"
            );
            NodeAnswer::refusal(StatusCode::GATEWAY_TIMEOUT, &reason)
        }
    }
}

fn asked(request: &Request) -> Vec<u8> {
    let scope = request.extensions().get::<DomainScope>();
    NodeRequest::of(request, scope.and_then(DomainScope::domain)).bytes()
}

/// The object that this node gives; `None` if it refuses.
pub(super) async fn page_of(response: Response) -> Option<Map<String, Value>> {
    NodeAnswer::of(response).await.page()
}
