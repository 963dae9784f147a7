//! Which node of a cluster carries a dialog. Its route names the node that did so at first. While that is dead, another node forwards
//! what comes, and adopts the dialog when it is refreshed; a third one may do so, too, to which the other telephone sends, and the first one
//! once it lives again. Each tells all others, and one of two keeps the dialog.

use crate::server::{
    cluster::{
        cluster_node::ClusterNode,
        node_message::{NodeMessage, NodeVerb},
    },
    core::Core,
    sip::receive::Request,
};
use busyhour_proxy::dialogs::{Carried, Party};
use busyhour_sip::{Flow, Message, Method};
use std::sync::Arc;

impl Core {
    /// The node that the route of a request within a dialog names.
    pub(super) fn named_carrier(&self, request: &Request<'_>) -> Option<u16> {
        request.essentials.to.tag()?;
        self.calls.edge().carrier_of(request.message)
    }

    /// Whether another node carries the dialog of a request that is handled here, since that node
    /// could not be told.
    pub(in crate::server) fn is_carried_elsewhere(&self, request: &Request<'_>) -> bool {
        let Some(link) = self.cluster.as_ref().map(|cluster| &cluster.link) else {
            return false;
        };
        let carrier = self.named_carrier(request);
        carrier.is_some_and(|carrier| carrier != link.own() && link.is_live(carrier))
    }

    /// Another node may carry the dialog of this request, which came over this flow and goes on from here. It is a BYE: then the lamps
    /// of its devices would stay lit there. Or it is the INVITE or UPDATE by which the dialog was adopted here.
    pub(in crate::server) fn tell_nodes_of_request(&self, flow: Flow, request: &[u8]) {
        let (Some(cluster), Ok(message)) = (&self.cluster, Message::parse(request)) else {
            return;
        };
        let Some((parties, _)) = self.calls.edge().parties_told(&message) else {
            return;
        };
        let link = &cluster.link;
        let told = NodeMessage::new(NodeVerb::InDialog, link.own(), flow).with_sip(request);
        let about = dialog_text(&message, &parties);
        link.add_notice(self.clock.now(), (&about, None), &told);
    }

    /// Another node has told of a request within a dialog. The route says who its parties are: a stranger who knows its names may
    /// have another dialog of the same ones.
    pub(in crate::server::cluster) fn dialog_notice(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        told: &NodeMessage<'_>,
    ) {
        let Ok(request) = Message::parse(told.sip) else {
            return;
        };
        let Some((parties, sender)) = self.calls.edge().parties_told(&request) else {
            return;
        };
        match request.method() {
            Some(Method::Bye) => self.calls.ended_elsewhere(&request, (&parties, sender)),
            _ => self.was_adopted(cluster, told, (&request, &parties)),
        }
    }

    fn was_adopted(
        self: &Arc<Self>,
        cluster: &ClusterNode,
        told: &NodeMessage<'_>,
        (request, parties): (&Message<'_>, &[Party; 2]),
    ) {
        let own = cluster.link.own();
        let keeps = match self.calls.carried(request, parties) {
            None => return,
            Some(Carried::FromBeginning) => true,
            Some(Carried::Adopted) => {
                let carrier = self.calls.edge().carrier_of(request);
                has_precedence(own, told.from, carrier)
            }
        };
        let (link, about) = (&cluster.link, dialog_text(request, parties));
        match keeps {
            true => {
                let message = NodeMessage::new(NodeVerb::InDialog, own, told.flow);
                let (to, message) = ((&about, Some(told.from)), message.with_sip(told.sip));
                link.add_notice(self.clock.now(), to, &message);
            }
            false => {
                link.withdraw_notices(&about);
                self.calls.hand_over(request, parties);
            }
        }
    }
}

/// Tells the dialog of a request between these parties apart from all others.
fn dialog_text(request: &Message<'_>, parties: &[Party; 2]) -> Arc<str> {
    let (from, to) = (request.from().ok(), request.to().ok());
    let tags = [from, to].map(|it| {
        it.and_then(|it| it.tag().map(str::to_owned))
            .unwrap_or_default()
    });
    let [low, high] = match tags {
        [one, other] if one <= other => [one, other],
        [one, other] => [other, one],
    };
    let [caller, callee] = parties.each_ref().map(|party| match party.name() {
        Some(name) => name.to_string(),
        None => party.flow.remote.to_string(),
    });
    let call_id = request.call_id().unwrap_or_default();
    [call_id, &low, &high, &caller, &callee].join("\n").into()
}

/// Of two nodes that have adopted a dialog the one keeps it that its route names, since requests are handed to that; else the one
/// with the lower number. So both decide alike.
fn has_precedence(own: u16, other: u16, carrier: Option<u16>) -> bool {
    carrier == Some(own) || carrier != Some(other) && own < other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_two_nodes_keeps_a_dialog_whoever_decides() {
        for (own, other, carrier, keeps) in [
            (1, 2, Some(2), false),
            (2, 1, Some(2), true),
            (1, 2, Some(1), true),
            (2, 1, Some(1), false),
            (1, 2, Some(3), true),
            (2, 1, Some(3), false),
            (1, 2, None, true),
            (2, 1, None, false),
        ] {
            assert_eq!(
                has_precedence(own, other, carrier),
                keeps,
                "{own} beside {other}, by a route of {carrier:?}"
            );
        }
    }
}
