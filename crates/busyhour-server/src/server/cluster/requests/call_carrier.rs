//! Which node of a cluster carries a dialog. Its route names the node that did so at first. While that is dead another node forwards
//! what comes, and adopts the dialog when it is refreshed; so may a third one, to which the other telephone sends, and the first one
//! once it lives again. Who adopts a dialog tells all others, and one of two keeps it.

use crate::server::{
    cluster::{
        cluster_node::ClusterNode,
        node_message::{NodeMessage, NodeVerb},
    },
    core::Core,
    sip::receive::Request,
};
use busyhour_sip::{Flow, Message};
use std::sync::Arc;

impl Core {
    /// The node that the route of a request within a dialog names.
    pub(super) fn named_carrier(&self, request: &Request<'_>) -> Option<u16> {
        request.essentials.to.tag()?;
        self.calls.edge().carrier_of(request.message)
    }

    /// As [`named_carrier`](Self::named_carrier), and whether that is another node which lives and could not be told of a request
    /// that is handled here.
    pub(in crate::server) fn carrier_of(&self, request: &Request<'_>) -> (Option<u16>, bool) {
        let Some(link) = self.cluster.as_ref().map(|cluster| &cluster.link) else {
            return (None, false);
        };
        let carrier = self.named_carrier(request);
        let is_elsewhere = |carrier| carrier != link.own() && link.is_live(carrier);
        (carrier, carrier.is_some_and(is_elsewhere))
    }

    /// A BYE goes on from here, and its dialog is not known here: a node that knows it has to be
    /// told, or the lamps of its devices stay lit. That is the carrier, which could not be told; or
    /// one that has adopted the dialog while its carrier was dead.
    pub(in crate::server) fn tell_nodes_of_end(&self, bye: &Request<'_>) {
        if let Some(cluster) = &self.cluster {
            let link = &cluster.link;
            let told = NodeMessage::new(NodeVerb::CallEnded, link.own(), bye.flow);
            link.add_notice(self.clock.now(), &told.with_sip(bye.datagram));
        }
    }

    /// The dialog of this response was adopted here, and its route names this carrier.
    pub(in crate::server) fn tell_nodes_of_adoption(
        &self,
        carrier: u16,
        flow: Flow,
        response: &[u8],
    ) {
        if let Some(cluster) = &self.cluster {
            let link = &cluster.link;
            let told = NodeMessage::new(NodeVerb::CallAdopted, link.own(), flow);
            let told = told.numbered(carrier.into()).with_sip(response);
            link.add_notice(self.clock.now(), &told);
        }
    }

    /// Another node has adopted a dialog.
    pub(in crate::server::cluster) fn call_was_adopted(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        told: &NodeMessage<'_>,
    ) {
        let (own, carrier) = (cluster.link.own(), told.number as u16);
        let Ok(response) = Message::parse(told.sip) else {
            return;
        };
        if own == told.from || !self.calls.carries(&response) {
            return;
        }
        match has_precedence(own, told.from, carrier) {
            true => self.tell_nodes_of_adoption(carrier, told.flow, told.sip),
            false => self.calls.adopted_elsewhere(&response),
        }
    }
}

/// Of two nodes that carry a dialog the one keeps it that its route names, since requests are handed to that; else the one with the
/// lower number. So both decide alike.
fn has_precedence(own: u16, other: u16, carrier: u16) -> bool {
    own == carrier || other != carrier && own < other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_nodes_has_precedence_whoever_decides() {
        let all = || 1..=4;
        for (own, other, carrier) in all().flat_map(|own| {
            all().flat_map(move |other| all().map(move |carrier| (own, other, carrier)))
        }) {
            if own != other {
                let ours = has_precedence(own, other, carrier);
                assert_ne!(ours, has_precedence(other, own, carrier));
                assert_eq!(ours, own == carrier || other != carrier && own < other);
            }
        }
    }
}
