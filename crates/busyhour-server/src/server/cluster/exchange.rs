//! What other nodes tell this one.

use super::{
    cluster_node::ClusterNode,
    direct::node_paths::{FromNode, NodePaths, PROBE_PAUSE},
    node_message::{NodeMessage, NodeVerb},
    partition_routes::PartitionOwner,
    requests::request_route::Arrival,
};
use crate::server::{ReadMode, core::Core};
use busyhour::{buffer::Buffer, timer::AddError};
use busyhour_cluster::{BrokerMessage, Partition};
use busyhour_registrar::{Domains, address_of_record};
use busyhour_sip::{Flow, HeaderName, Message, Method, Start};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

impl Core {
    /// From now on other nodes are heard.
    pub(in crate::server) fn hear_other_nodes(self: &Arc<Self>) {
        let Some(cluster) = &self.cluster else { return };
        for subject in cluster.link.subjects_to_hear() {
            let core = Arc::downgrade(self);
            let hear = Box::new(move |message: BrokerMessage| {
                let Some(core) = core.upgrade() else { return };
                let heard = catch_unwind(AssertUnwindSafe(|| core.hear(&message)));
                if heard.is_err() {
                    tracing::error!("a message of another node was not handled: please report it");
                }
            });
            if let Err(error) = cluster.link.broker().subscribe(&subject, hear) {
                tracing::error!(%error, subject, "other nodes are not heard");
            }
        }
    }

    /// From now on other nodes are reached directly, where that is possible.
    pub(in crate::server) fn open_direct_paths(self: &Arc<Self>) -> Result<(), AddError> {
        let Some(link) = self.cluster.as_ref().map(|cluster| &cluster.link) else {
            return Ok(());
        };
        if link.paths.is_none() {
            return Ok(());
        }
        let heard = Arc::downgrade(link);
        let hear = Box::new(move |message: BrokerMessage| {
            let Some(link) = heard.upgrade() else { return };
            let paths = link.paths.as_ref();
            link.announce(paths.and_then(|paths| paths.announced(&message.payload)));
        });
        if let Err(error) = link.broker().subscribe(&link.subject_of_addresses(), hear) {
            tracing::error!(%error, "other nodes are not reached directly");
        }
        let probed = Arc::downgrade(link);
        let probe = move || {
            if let Some(link) = probed.upgrade() {
                link.announce(link.paths.as_ref().and_then(NodePaths::beat));
            }
        };
        let timer = self.runtime.timers().timer().label("paths to nodes");
        let timer = timer.on(self.runtime.pool());
        timer.run_every(PROBE_PAUSE, probe).map(drop)
    }

    /// A datagram has come to the socket for other nodes.
    pub(in crate::server) fn node_datagram(self: &Arc<Self>, datagram: &[u8]) {
        let Some(cluster) = &self.cluster else { return };
        let Some(paths) = &cluster.link.paths else {
            return;
        };
        match paths.receive(datagram) {
            FromNode::WithTrailer(told, sip) => {
                self.follow(cluster, &told.with_sip(&sip), Some(&sip), None)
            }
            FromNode::Text(payload) => self.hear(&BrokerMessage {
                payload,
                reply: None,
            }),
            FromNode::Unreadable => cluster.live.other_versions.unreadable(),
            FromNode::PathIsOpen(node) => cluster.live.path_is_open(node),
            FromNode::Nothing => {}
        }
    }

    pub(super) fn hear(self: &Arc<Self>, message: &BrokerMessage) {
        let Some(cluster) = &self.cluster else { return };
        let Some(told) = NodeMessage::parse(&message.payload) else {
            let others = &cluster.live.other_versions;
            return match NodeMessage::other_version(&message.payload) {
                Some(version) => others.heard(version),
                None => others.unreadable(),
            };
        };
        self.follow(cluster, &told, None, message.reply.as_deref());
    }

    /// Does what another node has told. `pinned` is its SIP message, if that has a buffer of its own.
    fn follow(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        told: &NodeMessage<'_>,
        pinned: Option<&Buffer>,
        reply: Option<&str>,
    ) {
        let link = &cluster.link;
        link.hears(told.from, self.clock.now());
        match told.what {
            NodeVerb::Handle => {
                self.devices.note_life(told.flow);
                if told.number > 0 {
                    link.handed.heard(told.from, told.number);
                }
                let is_taken = self.take_request(told, pinned);
                match reply {
                    _ if is_taken => link.counters.taken.increment(),
                    None => link.counters.not_taken.increment(),
                    // Whom it tells counts it.
                    Some(_) => {}
                }
                if let Some(reply) = reply {
                    link.answer(reply, is_taken);
                }
            }
            NodeVerb::TakeResponse => {
                self.devices.note_life(told.flow);
                if !told.sip.is_empty() {
                    self.take_response(told, pinned);
                }
            }
            NodeVerb::Send => self.send_for(cluster, told, pinned),
            NodeVerb::Trust => {
                let stands = self.responder.network().mark_trusted(told.flow);
                if !stands {
                    self.say_it_has_ended(told.from, told.flow);
                }
                if let Some(reply) = reply {
                    link.answer(reply, stands);
                }
            }
            NodeVerb::Keepalives => {
                let within = Duration::from_secs(told.detail);
                self.responder
                    .network()
                    .expect_keepalives(told.flow, within);
            }
            NodeVerb::FlowEnded if told.from == link.own() => {}
            NodeVerb::FlowEnded => {
                // At most once a second, however often something is missed.
                if link.hears_end(told) {
                    link.check_again(told.from);
                }
                self.flow_ended(told.flow);
            }
            NodeVerb::Stand => {
                if let Some(reply) = reply {
                    let answer = self.answer_whether_they_stand(told.sip);
                    link.answer_with(reply, answer);
                }
            }
            NodeVerb::InDialog => {
                self.dialog_notice(cluster, told);
                if let Some(reply) = reply {
                    link.answer(reply, true);
                }
            }
        }
    }

    /// Handles a request that came to another node, if its address is ours.
    fn take_request(self: &Arc<Self>, told: &NodeMessage<'_>, pinned: Option<&Buffer>) -> bool {
        let is_full = self.load.read_mode() == ReadMode::Nothing;
        if is_full || self.is_closing.load(Ordering::Acquire) {
            return false;
        }
        let Some(datagram) = self.sip_of(told, pinned) else {
            return false;
        };
        let Ok(mut message) = Message::parse(&datagram) else {
            return false;
        };
        match message.start() {
            Start::Request { method, .. } => {
                let arrival = Arrival::handed(told.detail);
                self.handed_request(&mut message, method, told.flow, &datagram, arrival)
            }
            Start::Response { .. } => false,
        }
    }

    /// Takes in a response to a request that left over a flow of another node.
    fn take_response(&self, told: &NodeMessage<'_>, pinned: Option<&Buffer>) {
        let Some(datagram) = self.sip_of(told, pinned) else {
            return;
        };
        if let Ok(mut message) = Message::parse(&datagram)
            && let Start::Response { status, .. } = message.start()
        {
            self.response(&mut message, status, told.flow, &datagram);
        }
    }

    /// Something without an address of record came over a flow: the nodes that have its devices take it for a sign of life.
    pub(in crate::server) fn pass_keepalive_on(&self, flow: Flow) {
        let Some(cluster) = &self.cluster else { return };
        let (link, now) = (&cluster.link, self.clock.now());
        let mut told: Vec<u16> = Vec::new();
        for partition in cluster.link.registered_flows.heard(flow, now) {
            match cluster.routes.owner_of(partition, now) {
                PartitionOwner::At { node, .. } if !told.contains(&node.0) => told.push(node.0),
                _ => {}
            }
        }
        for node in told {
            let message = NodeMessage::new(NodeVerb::TakeResponse, link.own(), flow);
            if link.tell_node(node, &message) {
                link.counters.keepalives_passed_on.increment();
            }
        }
    }

    fn send_for(&self, cluster: &ClusterNode, told: &NodeMessage<'_>, pinned: Option<&Buffer>) {
        let Some(datagram) = self.sip_of(told, pinned) else {
            return;
        };
        let link = &cluster.link;
        link.counters.sent_for_others.increment();
        link.note_sent(told.sip, told.from, self.clock.now());
        if let Some(partition) = told.registered {
            (link.registered_flows).registered(told.flow, partition);
            self.admission.note_accepted_elsewhere(told.flow);
        } else if let Some(answer) = accepted_registration(told)
            && let Some(partition) = partition_of(&answer, &self.domains)
        {
            let flow = link.registered_over(&answer, told.flow);
            link.registered_flows.registered(flow, partition);
            self.admission.note_accepted_elsewhere(told.flow);
        }
        let sent = self.responder.network().send(told.flow, datagram);
        if sent.is_err() && told.flow.transport.is_reliable() {
            self.say_it_has_ended(told.from, told.flow);
        }
    }

    /// A connection of this node that another one meant is gone, unless it is one of the node's next life.
    fn say_it_has_ended(&self, to: u16, flow: Flow) {
        if let Some(cluster) = self
            .cluster
            .as_ref()
            .filter(|_| self.may_say_what_has_ended())
        {
            cluster.link.tell_flow_ended(to, flow);
        }
    }

    /// Passes on a response to a request that left here for another node; `false` if it is ours.
    pub(in crate::server) fn passes_response_on(
        &self,
        message: &Message<'_>,
        flow: Flow,
        datagram: &Buffer,
    ) -> bool {
        let Some(cluster) = &self.cluster else {
            return false;
        };
        let link = &cluster.link;
        if flow.node != link.own() {
            return false;
        }
        let Some(node) = link.asked_by(message) else {
            return false;
        };
        let told = NodeMessage::new(NodeVerb::TakeResponse, link.own(), flow);
        link.tell_node(node, &told.with_sip(datagram));
        true
    }

    /// The flow that a probe was meant for whose answer comes over this one: the node of that flow may be away.
    pub(in crate::server) fn probed_flow(&self, answer: &Message<'_>, flow: Flow) -> Flow {
        let link = self.cluster.as_ref().map(|cluster| &cluster.link);
        let Some(meant) = link.and_then(|link| link.probed_instead(answer, flow)) else {
            return flow;
        };
        self.devices.note_life(meant);
        meant
    }

    /// A connection has ended here: the nodes that have its devices have to know it.
    pub(in crate::server) fn tell_flow_ended(&self, flow: Flow) {
        if let Some(cluster) = &self.cluster {
            cluster.link.tell_end(self.clock.now(), flow);
        }
    }

    pub(super) fn flow_ended(&self, flow: Flow) {
        if flow.connection == 0 {
            return;
        }
        self.devices.flow_failed(flow);
        self.watchers.connection_ended(flow);
        self.calls.connection_ended(flow);
    }

    /// Its SIP message, pinned.
    fn sip_of(&self, told: &NodeMessage<'_>, pinned: Option<&Buffer>) -> Option<Buffer> {
        pinned.cloned().or_else(|| self.buffer_of(told.sip))
    }

    fn buffer_of(&self, bytes: &[u8]) -> Option<Buffer> {
        let copied = self.runtime.buffers().copy_from(bytes);
        if copied.is_err() {
            self.responder.traffic.no_buffer.increment();
        }
        copied.ok()
    }
}

/// The answer of a node that has registered an address over a flow of datagrams.
fn accepted_registration<'m>(told: &NodeMessage<'m>) -> Option<Message<'m>> {
    if told.flow.transport.is_reliable() || !told.sip.starts_with(b"SIP/2.0 2") {
        return None;
    }
    let answer = Message::parse(told.sip).ok()?;
    let is_registration = answer.cseq().ok()?.method == Method::Register;
    // Without a contact the last one is gone.
    let has_contact = answer.header(HeaderName::Contact).is_some();
    (is_registration && has_contact).then_some(answer)
}

/// The partition of the address that was registered.
fn partition_of(answer: &Message<'_>, domains: &Domains) -> Option<Partition> {
    let aor = address_of_record(&answer.to().ok()?.uri, domains).ok()?;
    Some(Partition::of(&aor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::Transport;

    /// Anybody can send a REGISTER with any source, and none of them takes a place from somebody who is registered.
    #[test]
    fn a_flow_is_registered_by_what_its_node_has_acknowledged_and_by_nothing_else() {
        let domains = Domains::new(["example.com".to_owned()]);
        let [local, remote] = ["192.0.2.1:5060", "192.0.2.7:5070"].map(|it| it.parse().unwrap());
        let over = |transport| Flow {
            transport,
            ..Flow::udp(local, remote)
        };
        let partition = |flow: Flow, status: &str, method: &str, contact: &str| {
            let answer = format!(
                "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP 192.0.2.7:5070;branch=z9hG4bK1\r\n\
                 From: <sip:alice@example.com>;tag=a\r\nTo: <sip:alice@example.com>;tag=b\r\n\
                 Call-ID: c\r\nCSeq: 1 {method}\r\n{contact}Content-Length: 0\r\n\r\n"
            );
            let told = NodeMessage::new(NodeVerb::Send, 2, flow).with_sip(answer.as_bytes());
            accepted_registration(&told).and_then(|answer| partition_of(&answer, &domains))
        };
        let (udp, contact) = (over(Transport::Udp), "Contact: <sip:a@192.0.2.7>\r\n");
        let alice = Some(Partition::of("sip:alice@example.com"));
        assert_eq!(partition(udp, "200 OK", "REGISTER", contact), alice);
        for (flow, status, method, contact) in [
            (udp, "401 Unauthorized", "REGISTER", contact),
            (udp, "100 Trying", "REGISTER", contact),
            (udp, "200 OK", "REGISTER", ""),
            (udp, "200 OK", "INVITE", contact),
            (over(Transport::Tcp), "200 OK", "REGISTER", contact),
        ] {
            let registered = partition(flow, status, method, contact);
            assert_eq!(registered, None, "{status} {method} {contact}");
        }
    }
}
