//! Whether a request that comes in is this node's, or is handed to the node that has it.

use crate::server::{
    cluster::{cluster_node::ClusterNode, node_link::OnTaken, partition_routes::PartitionOwner},
    core::Core,
    sip::receive::Request,
};
use busyhour::buffer::Buffer;
use busyhour_registrar::address_of_record;
use busyhour_sip::{Flow, Message, Method};
use std::sync::Arc;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum RequestRoute {
    /// It is handled here.
    Here,
    /// It was handed on.
    HandedOn,
    /// Nobody has its address at the moment.
    Nobody,
}

impl Core {
    /// Hands a request to the node that has its address of record, if that is another one.
    #[inline(always)]
    pub(in crate::server) fn hand_on(self: &Arc<Self>, request: &Request<'_>) -> RequestRoute {
        match &self.cluster {
            None => RequestRoute::Here,
            Some(cluster) => self.route(cluster, request),
        }
    }

    /// A server alone pays nothing for it.
    #[inline(never)]
    fn route(self: &Arc<Self>, cluster: &ClusterNode, request: &Request<'_>) -> RequestRoute {
        if let Some(carrier) = self.named_carrier(request) {
            return self.hand_to_carrier(cluster, carrier, request);
        }
        let Some(aor) = self.named_address(request) else {
            return RequestRoute::Here;
        };
        let came_here = request.flow.node == cluster.link.own();
        match cluster.routes.owner(&aor, self.clock.now()) {
            PartitionOwner::Here => RequestRoute::Here,
            // What was handed on is not handed on again: two nodes could believe that of each
            // other.
            PartitionOwner::At(node) if came_here => self.hand_to(cluster, node.0, request),
            PartitionOwner::At(_) | PartitionOwner::Nobody => RequestRoute::Nobody,
        }
    }

    /// Hands a request within a dialog to the node that carries the call. If that is dead or
    /// cannot be told, the request goes on from here: our route says where, too.
    fn hand_to_carrier(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        carrier: u16,
        request: &Request<'_>,
    ) -> RequestRoute {
        let link = &cluster.link;
        let came_here = request.flow.node == link.own();
        if came_here && carrier != link.own() && !link.knows_nodes() {
            return RequestRoute::Nobody;
        }
        if came_here && carrier != link.own() && link.is_live(carrier) {
            let handed = self.hand_to(cluster, carrier, request);
            if handed == RequestRoute::HandedOn {
                return handed;
            }
        }
        RequestRoute::Here
    }

    fn hand_to(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        node: u16,
        request: &Request<'_>,
    ) -> RequestRoute {
        let flow = request.flow;
        // A datagram is sent again; only over a connection somebody has to be told.
        let is_reliable = flow.transport.is_reliable();
        let taken = is_reliable.then(|| self.on_taken(flow, request.datagram.clone()));
        let is_registration = request.message.method() == Some(Method::Register);
        if is_registration && !is_reliable && request.answer_flow() != flow {
            cluster.link.note_registering(request.message, flow);
        }
        match cluster.link.hand_on(node, (flow, request.datagram), taken) {
            Ok(()) => RequestRoute::HandedOn,
            Err(_) => RequestRoute::Nobody,
        }
    }

    fn on_taken(self: &Arc<Self>, flow: Flow, request: Buffer) -> OnTaken {
        let core = Arc::downgrade(self);
        Box::new(move |is_taken| {
            if let Some(core) = core.upgrade().filter(|_| !is_taken) {
                core.was_not_taken(flow, &request);
            }
        })
    }

    fn was_not_taken(&self, flow: Flow, request: &Buffer) {
        if let Some(cluster) = &self.cluster {
            cluster.link.counters.not_taken.increment();
        }
        if let Ok(message) = Message::parse(request) {
            self.refuse_for_now(&message, flow);
        }
    }

    /// A request whose address nobody has at the moment. Datagrams are sent again, and by then
    /// somebody has it; over a connection the client has to be told.
    pub(in crate::server) fn set_aside(&self, message: &Message<'_>, flow: Flow) {
        if let Some(cluster) = &self.cluster {
            cluster.set_aside.increment();
        }
        if flow.transport.is_reliable() {
            self.refuse_for_now(message, flow);
        }
    }

    fn refuse_for_now(&self, message: &Message<'_>, flow: Flow) {
        if message.method() == Some(Method::Ack) {
            return;
        }
        let transaction = self.responder.transactions().key(message, flow.remote);
        let refusal = self.responder.overloaded();
        self.responder.refuse(message, flow, transaction, &refusal);
    }

    /// The address of record that decides which node has the request. Within other dialogs than
    /// subscriptions there is none; but the ACK of a refusal names the one of its INVITE.
    fn named_address(&self, request: &Request<'_>) -> Option<String> {
        let essentials = request.essentials;
        let uri = match request.message.method()? {
            Method::Register | Method::Subscribe if is_in_to(request) => &essentials.to.uri,
            Method::Ack => essentials.request_uri.as_ref()?,
            _ if essentials.to.tag().is_some() => return None,
            _ => essentials.request_uri.as_ref()?,
        };
        address_of_record(uri, &self.domains).ok()
    }
}

/// Within a subscription the Request-URI is our Contact, and To still names who is watched.
fn is_in_to(request: &Request<'_>) -> bool {
    let is_registration = request.message.method() == Some(Method::Register);
    is_registration || request.essentials.to.tag().is_some()
}
