//! Whether a request that comes in is this node's, or is handed to the node that has it.

use crate::server::{
    cluster::{
        cluster_node::ClusterNode, kept::kept_messages::kept_request::KeptRequest,
        node_link::OnTaken, partition_routes::PartitionOwner,
    },
    core::Core,
    sip::receive::Request,
    spans::request_span::RequestSpan,
};
use busyhour::buffer::Buffer;
use busyhour_cluster::{KeptPlace, Partition};
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
    /// Nobody has its address at the moment, and it waits for whoever has it next.
    Kept,
    /// It cannot be handed on, and there is no room for it to wait.
    Nobody,
}

/// How a request has come to be routed.
#[derive(Debug)]
pub(in crate::server) struct Arrival {
    /// By which epoch of its partition another node took this one for the owner; 0 if none did.
    known_in: u64,
    /// It goes before those that wait.
    waited: Option<Waited>,
}

/// A request has waited here.
#[derive(Debug)]
struct Waited {
    place: KeptPlace,
    span: RequestSpan,
}

impl Arrival {
    /// It came over a flow of this node.
    pub(in crate::server) const NEW: Self = Self::handed(0);

    /// Another node has handed it on, by this epoch of its partition.
    pub(in crate::server) const fn handed(known_in: u64) -> Self {
        Self {
            known_in,
            waited: None,
        }
    }

    pub(in crate::server::cluster) fn after_waiting(
        known_in: u64,
        place: KeptPlace,
        span: RequestSpan,
    ) -> Self {
        Self {
            known_in,
            waited: Some(Waited { place, span }),
        }
    }

    pub(in crate::server) fn has_waited(&self) -> bool {
        self.waited.is_some()
    }

    /// Among those that wait, if it has to do so again.
    pub(in crate::server) fn place(&self) -> KeptPlace {
        let waited = self.waited.as_ref();
        waited.map_or(KeptPlace::BEHIND, |waited| waited.place)
    }

    /// Of one that has waited: its span goes on.
    pub(in crate::server) fn take_span(&mut self) -> Option<RequestSpan> {
        self.waited.as_mut().map(|waited| waited.span.take())
    }
}

impl Core {
    /// Hands a request to the node that has its address of record, if that is another one.
    #[inline(always)]
    pub(in crate::server) fn hand_on(
        self: &Arc<Self>,
        request: &Request<'_>,
        arrival: &Arrival,
    ) -> RequestRoute {
        match &self.cluster {
            None => RequestRoute::Here,
            Some(cluster) => self.route(cluster, request, arrival),
        }
    }

    /// A server alone pays nothing for it.
    #[inline(never)]
    fn route(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        request: &Request<'_>,
        arrival: &Arrival,
    ) -> RequestRoute {
        if let Some(carrier) = self.named_carrier(request) {
            return self.hand_to_carrier(cluster, carrier, request);
        }
        let Some(aor) = self.named_address(request) else {
            return RequestRoute::Here;
        };
        let partition = Partition::of(&aor);
        if cluster.kept.waits(partition) && !arrival.has_waited() {
            return keep(cluster, partition, request, arrival);
        }
        match cluster.routes.owner_of(partition, self.clock.now()) {
            PartitionOwner::Here => RequestRoute::Here,
            PartitionOwner::At { node, epoch } if epoch > arrival.known_in => {
                self.hand_to(cluster, (node.0, epoch), request)
            }
            // Whoever has handed it here knows as much as this node, so one of them will know more.
            PartitionOwner::At { .. } | PartitionOwner::Nobody => {
                keep(cluster, partition, request, arrival)
            }
        }
    }

    /// Whether a request came over a flow of this node.
    pub(in crate::server::cluster) fn came_here(&self, flow: Flow) -> bool {
        let cluster = self.cluster.as_ref();
        cluster.is_none_or(|cluster| flow.node == cluster.link.own())
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
            let handed = self.hand_to(cluster, (carrier, 0), request);
            if handed == RequestRoute::HandedOn {
                return handed;
            }
        }
        RequestRoute::Here
    }

    fn hand_to(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        to: (u16, u64),
        request: &Request<'_>,
    ) -> RequestRoute {
        let flow = request.flow;
        // A datagram is sent again; only over a connection somebody has to be told.
        let is_reliable = flow.transport.is_reliable();
        let taken = is_reliable.then(|| self.on_taken(flow, request.datagram.clone()));
        let is_registration = request.message.method() == Some(Method::Register);
        let came_here = flow.node == cluster.link.own();
        if came_here && is_registration && !is_reliable && request.answer_flow() != flow {
            cluster.link.note_registering(request.message, flow);
        }
        match cluster.link.hand_on(to, (flow, request.datagram), taken) {
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
            self.refuse_for_now(&message, flow, &mut RequestSpan::default());
        }
    }

    /// A request whose address nobody has, and which does not wait any longer. Datagrams are sent again, and by then
    /// somebody has it; over a connection the client has to be told.
    pub(in crate::server) fn set_aside(
        &self,
        message: &Message<'_>,
        flow: Flow,
        span: &mut RequestSpan,
    ) {
        if let Some(cluster) = &self.cluster {
            cluster.set_aside.increment();
        }
        if flow.transport.is_reliable() {
            self.refuse_for_now(message, flow, span);
        }
    }

    fn refuse_for_now(&self, message: &Message<'_>, flow: Flow, span: &mut RequestSpan) {
        if message.method() == Some(Method::Ack) {
            return;
        }
        let transaction = self.responder.transactions().key(message, flow.remote);
        let refusal = self.responder.overloaded();
        self.responder.refuse(message, flow, transaction, &refusal);
        span.answered(refusal.status().code());
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

/// Lets a request wait for whoever has its partition next; its span, too.
fn keep(
    cluster: &ClusterNode,
    partition: Partition,
    request: &Request<'_>,
    arrival: &Arrival,
) -> RequestRoute {
    let kept = KeptRequest {
        known_in: arrival.known_in,
        flow: request.flow,
        datagram: request.datagram.clone(),
        place: arrival.place(),
        span: request.take_span(),
    };
    let name = request.transaction.number();
    let kept = match arrival.has_waited() {
        true => cluster.kept.put_back(partition, name, kept),
        false => cluster.kept.keep(partition, name, kept),
    };
    match kept {
        Ok(()) => RequestRoute::Kept,
        Err(span) => {
            request.put_span(span);
            RequestRoute::Nobody
        }
    }
}

/// Within a subscription the Request-URI is our Contact, and To still names who is watched.
fn is_in_to(request: &Request<'_>) -> bool {
    let is_registration = request.message.method() == Some(Method::Register);
    is_registration || request.essentials.to.tag().is_some()
}
