//! The network of all nodes: a flow of another node is reached through that node.

use super::{
    node_link::NodeLink,
    node_message::{NodeMessage, NodeVerb},
};
use crate::server::{
    CertificateStats, CredentialJudgement, HolderKey, Network, NetworkStats, QueueView, SendError,
    ShownCertificate, TlsTarget, Unread,
};
use busyhour::buffer::Buffer;
use busyhour_cluster::Partition;
use busyhour_sip::{Flow, Transport};
use std::{net::SocketAddr, sync::Arc, time::Duration};

/// The machine's own network, and the way to those of the other nodes.
pub(in crate::server) struct ClusterNetwork {
    own: Arc<dyn Network>,
    link: Arc<NodeLink>,
}

impl ClusterNetwork {
    pub(in crate::server) fn new(own: Arc<dyn Network>, link: Arc<NodeLink>) -> Self {
        Self { own, link }
    }

    fn is_own(&self, flow: Flow) -> bool {
        flow.node == 0 || flow.node == self.link.own()
    }

    /// As our flows come from here.
    fn named(&self, flow: Flow) -> Flow {
        self.link.own_flows().named(flow)
    }

    /// As the machine's own network knows it.
    fn bare(&self, flow: Flow) -> Flow {
        self.link.own_flows().bare(flow)
    }

    fn tell(&self, message: &NodeMessage<'_>) -> Result<(), SendError> {
        match self.link.tell(message) {
            true => Ok(()),
            false if message.flow.transport.is_reliable() => Err(SendError::FlowFailed),
            false => Err(SendError::Full),
        }
    }

    /// While a node is away, its telephones are told from here, as far as they hear it.
    fn send_instead(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        let local = match flow.transport {
            Transport::Udp => self.own.local_to(Transport::Udp, flow.remote),
            _ => return Err(SendError::FlowFailed),
        };
        self.link.note_probe(&datagram, flow);
        let flow = Flow::udp(local.ok_or(SendError::NoSocket)?, flow.remote);
        self.own.send(flow, datagram)
    }

    fn send_elsewhere(
        &self,
        flow: Flow,
        datagram: Buffer,
        registered: Option<Partition>,
    ) -> Result<(), SendError> {
        if !self.link.may_hear(flow.node) {
            return self.send_instead(flow, datagram);
        }
        let message = NodeMessage::new(NodeVerb::Send, self.link.own(), flow);
        self.tell(&message.registering(registered).with_sip(&datagram))
    }
}

impl Network for ClusterNetwork {
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        match self.is_own(flow) {
            true => self.own.send(self.bare(flow), datagram),
            false => self.send_elsewhere(flow, datagram, None),
        }
    }

    fn try_send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        match self.is_own(flow) {
            true => self.own.try_send(self.bare(flow), datagram),
            false => self.send_elsewhere(flow, datagram, None),
        }
    }

    /// One of another node may have ended: that node is asked, and its end is treated when there is an answer.
    fn mark_trusted(&self, flow: Flow) -> bool {
        if self.is_own(flow) {
            return self.own.mark_trusted(self.bare(flow));
        }
        if flow.transport.is_reliable() {
            self.link.trust(flow);
        }
        true
    }

    /// The node that a request came to has handed it on, and does not wait for this.
    fn note_credentials(&self, flow: Flow, judgement: CredentialJudgement) {
        if self.is_own(flow) {
            self.own.note_credentials(self.bare(flow), judgement);
        }
    }

    /// The flow of another node is noted there, when the answer leaves. If that does not go where the request came from, the
    /// other node looks itself what it belongs to.
    fn send_registered(
        &self,
        flow: Flow,
        answer: Buffer,
        (from, aor): (Flow, &str),
    ) -> Result<(), SendError> {
        let partition = || Partition::of(aor);
        if self.is_own(from) && !from.transport.is_reliable() {
            (self.link.registered_flows).registered(self.named(from), partition());
        }
        match self.is_own(flow) {
            true => self.own.send(self.bare(flow), answer),
            false => self.send_elsewhere(flow, answer, (from == flow).then(partition)),
        }
    }

    fn expect_keepalives(&self, flow: Flow, within: Duration) {
        if self.is_own(flow) {
            return self.own.expect_keepalives(self.bare(flow), within);
        }
        let message = NodeMessage::new(NodeVerb::Keepalives, self.link.own(), flow);
        self.link.tell(&message.within(within));
    }

    fn may_stand(&self, flow: Flow) -> bool {
        match (flow.connection, flow.node) {
            (0, _) | (_, 0) => false,
            (_, node) if node == self.link.own() => self.own.mark_trusted(self.bare(flow)),
            // It is asked.
            (_, _) => true,
        }
    }

    /// Nobody says whether the other node has got it.
    fn may_lose(&self, flow: Flow) -> bool {
        !self.is_own(flow) || self.own.may_lose(self.bare(flow))
    }

    fn send_capture(&self, server: SocketAddr, packet: Buffer) -> Result<(), SendError> {
        self.own.send_capture(server, packet)
    }

    fn send_media(&self, relay: SocketAddr, command: Buffer) -> Result<(), SendError> {
        self.own.send_media(relay, command)
    }

    fn capture_stats(&self) -> NetworkStats {
        self.own.capture_stats()
    }

    fn local_to(&self, transport: Transport, remote: SocketAddr) -> Option<SocketAddr> {
        self.own.local_to(transport, remote)
    }

    fn speaks(&self, transport: Transport) -> bool {
        self.own.speaks(transport)
    }

    fn expect_certificate(&self, target: TlsTarget) {
        self.own.expect_certificate(target);
    }

    fn flow_to_domain(&self, flow: Flow, domain: &str) -> Option<Flow> {
        let found = self.own.flow_to_domain(self.bare(flow), domain)?;
        Some(self.named(found))
    }

    fn connect(&self, flow: Flow, holder: Option<HolderKey>) -> Result<Flow, SendError> {
        match self.is_own(flow) {
            true => Ok(self.named(self.own.connect(self.bare(flow), holder)?)),
            false => Err(SendError::FlowFailed),
        }
    }

    fn shown_certificate(&self, flow: Flow) -> Option<Arc<ShownCertificate>> {
        match self.is_own(flow) {
            true => self.own.shown_certificate(self.bare(flow)),
            false => None,
        }
    }

    fn wait_on(&self, flow: Flow) -> Duration {
        match self.is_own(flow) {
            true => self.own.wait_on(self.bare(flow)),
            false => Duration::ZERO,
        }
    }

    fn unread(&self) -> Unread {
        self.own.unread()
    }

    fn certificates(&self) -> Vec<CertificateStats> {
        self.own.certificates()
    }

    fn stats(&self) -> NetworkStats {
        self.own.stats()
    }

    fn queues(&self) -> Vec<QueueView> {
        self.own.queues()
    }
}
