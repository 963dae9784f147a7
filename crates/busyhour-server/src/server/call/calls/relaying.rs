//! Messages of calls on their way out: those with a session description may need a media relay.

use super::{Calls, ShardInner};
use crate::server::call::{permit::Permit, step_actions::StepActions, tracking::Tracking};
use busyhour_media::{Description, MediaTable, MediaWish, Obstacle, Passing, Verdict};
use busyhour_proxy::{
    BranchId, Outbound,
    dialogs::{Dialogs, MediaFailure, MediaSides, Party},
};
use busyhour_sip::{Message, Method};
use std::{net::SocketAddr, sync::Arc};

/// The calls of one shard that use a relay.
pub(super) type ShardMedia = MediaTable<Outbound>;

impl Calls {
    /// Holds what needs a relay; the rest leaves. `cause` is the message that has led to it.
    pub(super) fn hold_for_relays(
        &self,
        state: &mut ShardInner,
        cause: Option<&Message<'_>>,
        out: &mut StepActions,
    ) {
        let relays = self.relays.relays();
        if relays.is_empty() {
            return self.tell_obstacles(state, cause, out);
        }
        let ShardInner {
            proxy,
            dialogs,
            media,
            ..
        } = state;
        let now = self.clock.now();
        let branch = cause.filter(|cause| cause.status().is_some());
        let branch = branch.and_then(|cause| cause.via().ok()?.branch());
        for outbound in out.proxy.take_outbound() {
            let datagram = outbound.datagram.clone();
            let Ok(message) = Message::parse(&datagram) else {
                out.leaving.push(outbound);
                continue;
            };
            let branch_sent = outbound.branch.map(BranchId::transaction);
            let permit = branch_sent.and_then(|transaction| proxy.data(transaction));
            let passing = Passing {
                datagram: &datagram,
                message: &message,
                to: outbound.flow,
                cause: branch,
                wish: self.wish(permit),
                is_followed: is_followed(&message, permit, dialogs),
            };
            let verdict = media.passing(now, passing, outbound, relays, &mut out.media);
            if let Verdict::Pass(outbound) = verdict {
                out.leaving.push(outbound);
            }
        }
        // Before it ends: what is refused for that has not left.
        for call_id in out.media.failed.drain(..) {
            dialogs.media_fails(&call_id, MediaSides::All, MediaFailure::RelayFailed);
        }
    }

    /// Whether a relay may have to rewrite what these send to each other.
    pub(in crate::server::call) fn may_relay<'p>(
        &self,
        parties: impl Iterator<Item = &'p Party>,
    ) -> bool {
        !self.relays.relays().is_empty() && self.wish_of(parties) != MediaWish::Never
    }

    /// Calls that have ended need their relay no more.
    pub(super) fn end_relayed(&self, media: &mut ShardMedia, out: &mut StepActions) {
        let relays = self.relays.relays();
        for call_id in out.dialogs.ended.drain(..) {
            media.ended(self.clock.now(), &call_id, relays, &mut out.media);
        }
    }

    /// A final response has ended a branch of an INVITE.
    pub(super) fn end_branch(
        &self,
        media: &mut ShardMedia,
        response: &Message<'_>,
        out: &mut StepActions,
    ) {
        let is_refusal = response.status().is_some_and(|status| status >= 300);
        let is_invite = response
            .cseq()
            .is_ok_and(|cseq| cseq.method == Method::Invite);
        let via = response.via();
        let branch = via.as_ref().ok().and_then(|via| via.branch());
        if let (true, true, Some(branch)) = (is_refusal, is_invite, branch) {
            let (now, relays) = (self.clock.now(), self.relays.relays());
            media.branch_failed(now, response, branch, relays, &mut out.media);
        }
    }

    /// A relay has answered, or somebody else has sent something to the relays' socket.
    pub(in crate::server) fn relay_replied(self: &Arc<Self>, from: SocketAddr, reply: &[u8]) {
        if !self.relays.relays().contains(from) || self.relays.take_pong(from, reply) {
            return;
        }
        if let Some(shard) = ShardMedia::shard_of(reply) {
            let (now, relays) = (self.clock.now(), self.relays.clone());
            self.step_in_shard(shard.into(), |media, out| {
                media.replied(now, from, reply, relays.relays(), &mut out.media);
            });
        }
    }

    /// What the peers of a call want, or else what is configured for all. Who wants none comes
    /// first.
    fn wish(&self, permit: Option<&Permit>) -> MediaWish {
        match permit {
            Some(permit) => self.wish_of(permit.caller().into_iter().chain(permit.all_called())),
            None => self.relays.wish(),
        }
    }

    fn wish_of<'p>(&self, parties: impl Iterator<Item = &'p Party>) -> MediaWish {
        let wishes = parties.filter_map(|party| Some(self.peers.of(party)?.config().media));
        let mut wish = None;
        for of_peer in wishes {
            wish = match (wish, of_peer) {
                (Some(MediaWish::Never), _) | (_, MediaWish::Never) => Some(MediaWish::Never),
                (Some(MediaWish::Always), _) | (_, MediaWish::Always) => Some(MediaWish::Always),
                (_, of_peer) => Some(of_peer),
            };
        }
        match wish {
            None | Some(MediaWish::Auto) => self.relays.wish(),
            Some(wish) => wish,
        }
    }

    /// Without a relay, names calls whose media cannot flow. Most are seen to be sound by their
    /// offer and where it goes.
    fn tell_obstacles(
        &self,
        state: &mut ShardInner,
        cause: Option<&Message<'_>>,
        out: &StepActions,
    ) {
        let offer = cause.filter(|cause| cause.method() == Some(Method::Invite));
        let Some(offer) = offer.and_then(Description::of) else {
            return;
        };
        for outbound in out.proxy.outbound() {
            let to = outbound.flow;
            let may_fail = offer.is_web != to.transport.is_web_socket()
                || !to.remote.ip().is_loopback() && !offer.is_web;
            let branch = outbound.branch.filter(|_| may_fail);
            let Some(branch) = branch else { continue };
            let permit = state.proxy.data(branch.transaction());
            let Some(permit) = permit.filter(|it| self.wish(Some(it)) != MediaWish::Never) else {
                continue;
            };
            let (Ok(message), Some(sender)) = (Message::parse(&outbound.datagram), permit.sender())
            else {
                continue;
            };
            let sides = match permit.tracking {
                Tracking::Call(call) => MediaSides::Branch(call, branch.number()),
                _ => MediaSides::Flow(to),
            };
            for obstacle in Obstacle::of_offer(&message, to) {
                self.relays.relays().counters.obstructed();
                let log = &self.devices.log;
                log.media_obstructed(&message, sender.flow, &obstacle);
                if let Ok(call_id) = message.call_id() {
                    let failure = failure_by(obstacle);
                    state.dialogs.media_fails(call_id, sides, failure);
                }
            }
        }
    }
}

/// How a record names it.
fn failure_by(obstacle: Obstacle) -> MediaFailure {
    match obstacle {
        Obstacle::WebToPlain => MediaFailure::WebToPlain,
        Obstacle::PlainToWeb => MediaFailure::PlainToWeb,
        Obstacle::SenderBehindNat { .. } => MediaFailure::SenderBehindNat,
        Obstacle::RecipientBehindNat { .. } => MediaFailure::RecipientBehindNat,
        Obstacle::NoCommonNetwork { .. } => MediaFailure::NoCommonNetwork,
        Obstacle::OtherFamily { .. } => MediaFailure::OtherFamily,
    }
}

/// Whether the end of the call of an INVITE will be told: its dialog is known, or a 2xx will
/// make it known.
fn is_followed(message: &Message<'_>, permit: Option<&Permit>, dialogs: &Dialogs) -> bool {
    let is_unknown = permit.is_some_and(|permit| matches!(permit.tracking, Tracking::Unknown(_)));
    let call_id = message.call_id();
    message.method() == Some(Method::Invite)
        && (is_unknown || call_id.is_ok_and(|call_id| dialogs.lasts(call_id)))
}
