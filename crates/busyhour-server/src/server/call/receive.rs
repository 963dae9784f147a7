//! Requests for the proxy, on the network's threads: checked, located and handed to their
//! call.

mod describing;
mod locating;
mod refusing;
mod shedding;

use super::{
    checked::{Begin, Checked, Parties},
    permit::NoRoom,
    target::Located,
};
use crate::server::{
    core::Core,
    load::shares::{Excess, Holder},
    peer::trusted_peer::TrustedPeer,
    sip::receive::Request,
    tenant::tenant_quota::TenantQuota,
};
use busyhour::{buffer::Buffer, bus::Name};
use busyhour_cluster::KeptPlace;
use busyhour_proxy::{
    Inbound, Received, Routing,
    dialogs::{CALL_ID_LEN_MAX, Party, Role, TAG_LEN_MAX},
};
use busyhour_registrar::{Refusal, address_of_record};
use busyhour_sip::{Flow, Host, Message, Method, SipUri, Status, Uri, source_of};
use std::{cell::RefCell, sync::Arc};

/// Why a request goes nowhere, and who sent it if he has proved it.
struct Declined {
    refusal: Refusal,
    proven: Option<Box<(Party, Holder)>>,
}

/// How often a request has come to be routed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    First,
    /// DNS was asked for it.
    AfterLookup,
}

/// Where a request goes, and who takes part.
struct Way {
    located: Located,
    parties: Parties,
    account: Option<String>,
    holder: Holder,
    is_from_peer: bool,
    is_at_home: bool,
}

impl Core {
    /// Whether a request of this method goes to another device; if not, the server itself
    /// answers it.
    pub(in crate::server) fn is_for_proxy(
        &self,
        request: &Request<'_>,
        method: Method<'_>,
    ) -> bool {
        match method {
            Method::Register | Method::Publish => false,
            // Within a dialog between devices, which our route tells.
            Method::Subscribe | Method::Options => {
                let identity = self.calls.edge().identity(request.message, request.flow);
                let mut routes = request.message.routes(busyhour_sip::HeaderName::Route);
                routes.any(|route| {
                    use busyhour_proxy::Identity;
                    route.is_ok_and(|route| identity.is_record_route(&route))
                })
            }
            _ => true,
        }
    }

    pub(in crate::server) fn proxy(self: &Arc<Self>, request: &Request<'_>) {
        self.proxy_at(request, Attempt::First);
    }

    fn proxy_at(self: &Arc<Self>, request: &Request<'_>, attempt: Attempt) {
        let Request {
            message,
            datagram,
            flow,
            ..
        } = *request;
        let inbound = Inbound {
            message,
            datagram,
            flow,
        };
        match self.calls.receive(&inbound) {
            Received::Absorbed => request.discard_span(),
            Received::UnknownCancel => {
                let status = Status::CALL_DOES_NOT_EXIST;
                self.responder
                    .respond_to(request, status, |answer| answer.finish());
            }
            // Whom it calls may have registered since it was refused.
            Received::New if self.absorb(message, flow, request.transaction) => {
                request.discard_span();
            }
            Received::New if self.sheds_again(request) => {}
            Received::New => self.route_to_target(request, &inbound, attempt),
        }
    }

    fn route_to_target(
        self: &Arc<Self>,
        request: &Request<'_>,
        inbound: &Inbound<'_, '_>,
        attempt: Attempt,
    ) {
        let message = request.message;
        let is_ack = message.method() == Some(Method::Ack);
        let is_new = request.essentials.to.tag().is_none() && !is_ack;
        if is_new && !self.is_emergency(request) && self.sheds_call(request.flow) {
            request.answered(Status::SERVICE_UNAVAILABLE);
            return self.shed_call(message, request.flow, request.transaction);
        }
        let identity = self.calls.edge().identity(message, request.flow);
        let routing =
            match Routing::read(message, request.essentials, self.calls.loops(), &identity) {
                Ok(routing) => routing,
                Err(_) if is_ack => return,
                Err(refusal) => {
                    request.answered(refusal.status());
                    self.log
                        .call_refused(message, request.flow, &refusal.to_string());
                    self.record_refused(request, refusal.status(), None);
                    return self.calls.refuse(inbound, &refusal);
                }
            };
        let way = match routing.is_in_dialog() {
            true => {
                let way = self.within_dialog(request, &routing, attempt);
                way.map_err(Declined::from)
            }
            false => self.outside_of_dialog(request, &routing),
        };
        let way = match way {
            Ok(Some(way)) => way,
            // It was answered, or waits for DNS.
            Ok(None) => return,
            // An ACK is never answered.
            Err(_) if is_ack => return,
            Err(Declined { refusal, proven }) => {
                self.record_refused(request, refusal.status(), proven.as_deref());
                return self.refuse_call(request, &refusal);
            }
        };
        let mut way = way;
        let passes = match is_ack {
            true => Ok(()),
            false => self.check_description(message, &way),
        };
        let passes = passes.and_then(|()| self.wake(&mut way.located, way.holder));
        if let Err(refusal) = passes {
            let proven = way.parties.caller().map(|caller| (caller, way.holder));
            self.record_refused(request, refusal.status(), proven.as_ref());
            return self.refuse_call(request, &refusal);
        }
        let (account, holder) = (way.account.as_deref(), way.holder);
        let checked = Checked {
            inbound,
            routing: &routing,
            holder,
            located: way.located,
            parties: way.parties,
            is_from_peer: way.is_from_peer,
            is_at_home: way.is_at_home,
            is_emergency: self.is_emergency(request),
            is_of_other_node: self.is_carried_elsewhere(request),
            is_in_cluster: self.cluster.is_some(),
            span: request.take_span(),
        };
        if is_ack {
            return self.calls.forward_ack(&checked);
        }
        match self.calls.begin(checked) {
            // What is challenged or refused is no call: it pays for no refusals.
            Ok(Begin::Begun) if is_new && message.method() == Some(Method::Invite) => {
                self.load.note_call();
            }
            Ok(Begin::Begun) => {}
            Ok(Begin::EndsElsewhere) => self.tell_nodes_of_request(request.flow, request.datagram),
            Ok(Begin::NotOfDialog) => {
                self.calls.counters.untrusted_routes.increment();
                self.refuse_call(request, &Refusal::NoDialog);
            }
            Ok(Begin::Refused(status, caller)) => {
                self.log
                    .call_refused(message, request.flow, status.reason());
                let proven = caller.map(|caller| (caller, holder));
                self.record_refused(request, status, proven.as_ref());
            }
            Err(reason) => {
                if reason == NoRoom::Share {
                    let quota = TenantQuota::Memory;
                    (self.responder).count_excess(Excess::Share, quota, request.flow, account);
                }
                let refusal = self.responder.overloaded();
                let proven = (Party::nobody(request.flow), holder);
                self.record_refused(request, refusal.status(), Some(&proven));
                self.refuse_call_for(request, &refusal, reason.reason());
            }
        }
    }

    /// Whether somebody calls for help.
    fn is_emergency(&self, request: &Request<'_>) -> bool {
        request.message.method() == Some(Method::Invite)
            && self.calls_for_help(request.essentials.request_uri.as_ref())
    }

    pub(super) fn calls_for_help(&self, called: Option<&Uri<'_>>) -> bool {
        let user = called.and_then(Uri::as_sip).and_then(|uri| uri.user);
        let is_it = |user: &str| self.config.calls.emergency.iter().any(|one| one == user);
        user.is_some_and(is_it)
    }

    /// `None` if DNS has to say first where it goes.
    fn within_dialog(
        self: &Arc<Self>,
        request: &Request<'_>,
        routing: &Routing<'_>,
        attempt: Attempt,
    ) -> Result<Option<Way>, Refusal> {
        let (parties, sender) = match routing.own_routes().next() {
            Some(_) => self.parties_of_route(request, routing)?,
            None => self.parties_of_names(request, routing)?,
        };
        let (from, to) = (&parties[sender as usize], &parties[sender.other() as usize]);
        let is_at_home = self.is_at_home(request, from);
        if !is_at_home && !self.may_move(request, (from, to))? {
            return Ok(None);
        }
        let located = match self.peers.of(to) {
            Some(peer) => {
                let next = routing.next_route().map(|route| route.text);
                let next = next.unwrap_or(routing.request_uri());
                if attempt == Attempt::First && self.waits_for_dns(request, peer, next) {
                    return Ok(None);
                }
                let hops = self.peers.hops_within(peer, to, next);
                Located::peer(peer, to.clone(), None, hops)
            }
            None => {
                let bindings = to.device.as_ref().map(|device| self.bindings_at(device));
                let (uri, bindings) = (routing.request_uri(), bindings.unwrap_or_default());
                // It is another node's, or registered nowhere, and may have moved since the route was written.
                let last = bindings
                    .is_empty()
                    .then(|| self.calls.recipient(request.message, &parties));
                let to = last.flatten().unwrap_or_else(|| to.clone());
                Located::within_dialog(&to, uri, &bindings)
            }
        };
        let peer = self.peers.of(from);
        let peer = peer.filter(|peer| self.peers.is_from(peer, request.flow));
        let own = peer.map(TrustedPeer::holder);
        Ok(Some(Way {
            located,
            is_from_peer: peer.is_some(),
            is_at_home,
            parties: Parties::Within(parties, sender),
            account: None,
            holder: own.unwrap_or_else(|| self.holder(request.flow, None)),
        }))
    }

    /// Whether a request came from where its sender was in the dialog, or is registered: both
    /// sides have the tokens of both, and each could send as the other.
    fn is_at_home(&self, request: &Request<'_>, from: &Party) -> bool {
        let source = |flow: Flow| source_of(flow.remote.ip());
        let is_there = |flow: Flow| source(flow) == source(request.flow);
        let is_registered = |device: &Name| {
            let bindings = self.bindings_at(device);
            bindings.iter().any(|it| is_there(it.contact.flow()))
        };
        match self.peers.of(from) {
            Some(_) => true,
            None => {
                is_there(from.flow)
                    || self.calls.flow_of(request.message).is_some_and(is_there)
                    || from.device.as_ref().is_some_and(is_registered)
            }
        }
    }

    /// A device that sends from somewhere else proves who it is; `false` if it was asked. An ACK
    /// cannot be asked for: it is carried, and nothing is learned from it.
    fn may_move(
        &self,
        request: &Request<'_>,
        (from, to): (&Party, &Party),
    ) -> Result<bool, Refusal> {
        let is_ack = request.message.method() == Some(Method::Ack);
        match &from.device {
            _ if request.flow == to.flow => Err(Refusal::NoDialog),
            Some(_) if is_ack => Ok(true),
            Some(device) => Ok(self.admission.admit_call(request, Some(device))?.is_some()),
            None => Err(Refusal::NoDialog),
        }
    }

    /// Whether the next hop of a peer has a name that has to be looked up. Then the request
    /// comes again when DNS has answered, whatever it says. It has no transaction yet, so what
    /// is sent again meanwhile waits as well, and is absorbed then.
    fn waits_for_dns(
        self: &Arc<Self>,
        request: &Request<'_>,
        peer: &TrustedPeer,
        next: &str,
    ) -> bool {
        let Some((name, transports)) = self.peers.unknown_name(peer, next) else {
            return false;
        };
        let (core, flow) = (Arc::downgrade(self), request.flow);
        let datagram = request.datagram.clone();
        let told = move |_| {
            if let Some(core) = core.upgrade() {
                core.proxy_again(flow, &datagram);
            }
        };
        let holder = self.holder(flow, None);
        let lookups = &self.lookups;
        let begun = lookups.locate(name, transports, holder, Box::new(told));
        begun.is_ok()
    }

    fn proxy_again(self: &Arc<Self>, flow: Flow, datagram: &Buffer) {
        // It was sound before.
        let Ok(mut message) = Message::parse(datagram) else {
            return;
        };
        let Ok(essentials) = message.keep_essentials() else {
            return;
        };
        let message = &message;
        let request = Request {
            message,
            essentials: &essentials,
            datagram,
            flow,
            transaction: self.responder.transactions().key(message, flow.remote),
            // Only what begins a call is followed, and this is within a dialog.
            span: RefCell::default(),
            place: KeptPlace::BEHIND,
        };
        self.proxy_at(&request, Attempt::AfterLookup);
    }

    /// The route's tokens say who takes part, and where the request goes (RFC 3261 §16.12).
    /// Who has them was given them by us, in the dialog.
    fn parties_of_route(
        &self,
        request: &Request<'_>,
        routing: &Routing<'_>,
    ) -> Result<([Party; 2], Role), Refusal> {
        let mut users = routing.own_routes().filter_map(|uri| uri.user);
        let (Some(sender), Some(recipient)) = (users.next(), users.next()) else {
            return Err(Refusal::NoDialog);
        };
        let pair = (self.calls.edge()).parties(request.message, [sender, recipient]);
        pair.ok_or_else(|| {
            self.calls.counters.untrusted_routes.increment();
            Refusal::NoDialog
        })
    }

    /// A telephone that sends everything here and forgets our route, as Twinkle does in calls
    /// to Linphone: its Call-ID and tags name a dialog that it has, and it sends from where it
    /// did so before.
    fn parties_of_names(
        &self,
        request: &Request<'_>,
        routing: &Routing<'_>,
    ) -> Result<([Party; 2], Role), Refusal> {
        let known = self.calls.parties(request.message);
        let known = known.filter(|_| routing.next_route().is_none());
        let is_its_sender =
            |(parties, sender): &([Party; 2], Role)| parties[*sender as usize].flow == request.flow;
        known.filter(is_its_sender).ok_or(Refusal::NoDialog)
    }

    /// `None` if the sender was asked who it is, or was told where the called user is.
    fn outside_of_dialog(
        &self,
        request: &Request<'_>,
        routing: &Routing<'_>,
    ) -> Result<Option<Way>, Declined> {
        if request.message.method() == Some(Method::Ack) {
            return Err(Refusal::NoDialog.into());
        }
        if request.message.method() == Some(Method::Invite) {
            check_names(request)?;
        }
        let called = Uri::parse(routing.request_uri());
        let called = called.as_ref().and_then(Uri::as_sip);
        let called = called.ok_or(Refusal::UnsupportedScheme)?;
        // Never a relay for strangers: requests go to our own devices, and those of our users
        // to the peers that the operator has chosen.
        let is_ours = self.is_called_here(request.flow, called);
        let abroad = self.peers.of_domain(called, is_ours);
        if routing.next_route().is_some() || !is_ours && abroad.is_none() {
            return Err(NOT_SERVED.into());
        }
        match self.peers.caller(request.flow) {
            Some(peer) => {
                let is_redirected =
                    peer.config().redirects && request.message.method() == Some(Method::Invite);
                let way = match (is_ours && abroad.is_none(), is_redirected) {
                    (true, true) => self.redirect(request, called, peer).map(|()| None),
                    (true, false) => self.call_of_peer(request, called, peer).map(Some),
                    (false, _) => Err(NOT_SERVED),
                };
                way.map_err(|refusal| Declined {
                    refusal,
                    proven: Some(Box::new((
                        Party::peer(peer.name().clone(), request.flow),
                        peer.holder(),
                    ))),
                })
            }
            None => {
                let other = self.peers.not_from_peer(request.flow, |peer| peer.may_call);
                if let Some((peer, true)) = other {
                    self.log.not_from_peer(peer, request.flow);
                }
                self.call_of_user(request, called, abroad)
            }
        }
    }

    /// A peer that may do so calls a user of ours, in whatever name.
    fn call_of_peer(
        &self,
        request: &Request<'_>,
        called: &SipUri<'_>,
        peer: &TrustedPeer,
    ) -> Result<Way, Refusal> {
        request.step("location");
        let aor = self.called_address(request.flow, called)?;
        let located = self.locate(request, &aor, called)?;
        peer.counters.calls_from.increment();
        self.responder.heard_at(request.flow);
        Ok(Way {
            located,
            parties: Parties::Outside(Party::peer(peer.name().clone(), request.flow), None),
            account: None,
            holder: peer.holder(),
            is_from_peer: true,
            is_at_home: true,
        })
    }

    /// Somebody who has to prove who he is calls a user of ours, or, if he has proved it,
    /// `abroad` or whom a peer knows. `None` if he was asked who he is.
    fn call_of_user(
        &self,
        request: &Request<'_>,
        called: &SipUri<'_>,
        abroad: Option<&TrustedPeer>,
    ) -> Result<Option<Way>, Declined> {
        // A NOTIFY tells what its sender is believed: that a telephone has to start anew, or that a
        // message waits. Outside of a dialog nobody has asked for it (RFC 6665 §4.1.3).
        if request.message.method() == Some(Method::Notify) {
            return Err(Refusal::NoDialog.into());
        }
        let from = request.message.from().map_err(Refusal::from)?;
        let caller = match address_of_record(&from.uri, &self.domains) {
            _ if is_anonymous(&from.uri) => None,
            Ok(caller) => Some(caller),
            Err(_) if !self.admission.is_required() => None,
            Err(_) => return Err(Refusal::Forbidden("Not Your Address").into()),
        };
        let sender = self.admission.admit_call(request, caller.as_deref())?;
        let Some(sender) = sender else {
            return Ok(None);
        };
        let is_call = request.message.method() == Some(Method::Invite);
        let tenant = caller.as_deref().filter(|_| is_call);
        let tenant = tenant.and_then(|aor| self.tenants.of_aor(aor));
        if tenant.is_some_and(|tenant| !tenant.admits_call()) && !self.is_emergency(request) {
            return Err(self.responder.overloaded().into());
        }
        let account = sender.account();
        let party = match &caller {
            Some(aor) => Party::device(Name::new(aor), request.flow),
            None => Party::nobody(request.flow),
        };
        let holder = self.holder(request.flow, account);
        request.step("location");
        match self.locate_for_user(request, called, abroad, account) {
            Ok(mut located) => {
                // Only who has proved who he is takes the way of that address.
                self.route_by_registrar(
                    caller.as_deref().filter(|_| account.is_some()),
                    &mut located,
                );
                Ok(Some(Way {
                    located,
                    parties: Parties::Outside(party, account.map(Name::new)),
                    holder,
                    account: account.map(str::to_owned),
                    is_from_peer: false,
                    is_at_home: true,
                }))
            }
            Err(refusal) => Err(Declined {
                refusal,
                proven: Some(Box::new((party, holder))),
            }),
        }
    }
}

impl From<Refusal> for Declined {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            proven: None,
        }
    }
}

/// A call whose names are too long to be kept would be in no list, have no record and count for
/// nobody.
fn check_names(request: &Request<'_>) -> Result<(), Refusal> {
    let call_id = request.message.call_id().map_err(Refusal::from)?;
    let tag = request.essentials.from.tag().unwrap_or("");
    if call_id.len() > CALL_ID_LEN_MAX {
        return Err(Refusal::BadRequest("Call-ID Too Long".into()));
    }
    if tag.len() > TAG_LEN_MAX {
        return Err(Refusal::BadRequest("From Tag Too Long".into()));
    }
    Ok(())
}

/// A caller that does not show who it is (RFC 3323 §4.1.1.3).
fn is_anonymous(uri: &Uri<'_>) -> bool {
    let host = uri.as_sip().map(|uri| uri.host);
    host.is_some_and(|host| host.matches(&Host::Name("anonymous.invalid")))
}

const NOT_SERVED: Refusal = Refusal::Forbidden("Domain Not Served Here");
