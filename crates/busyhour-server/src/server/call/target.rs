//! Where a request for a device goes: its contacts, by their preference.

use crate::server::{
    core::Core,
    load::shares::Holder,
    peer::trusted_peer::TrustedPeer,
    push::pushes::{Sleeper, Waking},
};
use busyhour::bus::Name;
use busyhour_proxy::{
    Fallback, Hops, NextHop, Occasion, Target, TargetSet, Way, as_request_uri, dialogs::Party,
    dns::HopName,
};
use busyhour_registrar::{Binding, Contact, Lease, Refusal, address_of_record, numeric_address};
use busyhour_sip::{Flow, Host, Scheme, SipUri, Transport, Uri};
use std::{cmp::Reverse, net::SocketAddr, time::Duration};

/// The targets of a request, with the device and the flow of each by its label.
#[derive(Debug, Default)]
pub(super) struct Located {
    pub(super) targets: TargetSet,
    pub(super) called: Box<[Party]>,
    /// The telephones of the device that sleep.
    pub(super) asleep: Option<Box<Asleep>>,
    /// They are not known before DNS has answered.
    pub(super) lookup: Option<Box<NameLookup>>,
}

impl Core {
    /// Whether a request is for a user of ours: its URI has a domain of ours, or it is the contact
    /// that a registrar behind was told.
    pub(super) fn is_called_here(&self, flow: Flow, called: &SipUri<'_>) -> bool {
        self.domains.contain(&called.host) || self.devices.upstream.called(flow, called).is_some()
    }

    /// The address of record that is called.
    pub(super) fn called_address(
        &self,
        flow: Flow,
        called: &SipUri<'_>,
    ) -> Result<String, Refusal> {
        match self.devices.upstream.called(flow, called) {
            Some(aor) => Ok(aor),
            None => Ok(address_of_record(&Uri::Sip(*called), &self.domains)?),
        }
    }

    /// What goes from an address of record to the registrar that has it goes by its Service-Route (RFC
    /// 3608 §6.1).
    pub(super) fn route_by_registrar(&self, aor: Option<&str>, located: &mut Located) {
        let upstream = &self.devices.upstream;
        let Some(aor) = aor.filter(|_| upstream.is_used()) else {
            return;
        };
        for target in &mut located.targets.targets {
            for way in target.hops.ways_mut().filter(|way| way.route.is_none()) {
                let route = upstream.service_route(aor, way.hop.flow.remote);
                way.route = route.map(|route| (*route).into());
            }
        }
    }
}

/// What has to be looked up for a request, and for whom.
#[derive(Debug)]
pub(super) struct NameLookup {
    pub(super) name: HopName,
    /// Over TLS its servers show that they are of this domain.
    pub(super) domain: Box<str>,
    /// To which calls for it go.
    pub(super) peer: Name,
    /// The operator has named the domain.
    pub(super) is_named: bool,
    pub(super) uri: Option<Box<str>>,
    pub(super) holder: Holder,
    pub(super) account: Option<String>,
    pub(super) from: Flow,
}

/// Telephones that have to be woken before they can be called.
#[derive(Debug)]
pub(super) struct Asleep {
    pub(super) device: Name,
    /// For what: `call` or `message`.
    pub(super) kind: &'static str,
    pub(super) found: Vec<Sleeper>,
    /// Those of them that may be woken.
    pub(super) wakings: Vec<Waking>,
}

/// Why a device cannot be called, though it is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// It has no contact.
    NotRegistered,
    /// It has contacts of IAX2 only.
    OnlyIax2,
    /// The request wants TLS, and no contact has it.
    NoTls,
    /// The request is for one of its instances, which has no contact (RFC 5627 §5.1).
    NoInstance,
}

impl Located {
    /// The contacts of a device that a request for `uri` is sent to: those with the same q
    /// at once, those with a higher one before (RFC 3261 §16.6). Contacts that are probably
    /// unreachable come into question only if there is no other.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) fn contacts(
        device: &Name,
        bindings: &[Binding],
        uri: &SipUri<'_>,
    ) -> Result<Self, Unavailable> {
        Ok(Self::of(device, &callable(bindings, uri)?))
    }

    /// A request within a dialog goes on the flow of its route's token. If the device has
    /// registered the same contact on other flows only, it has moved, or its connection has
    /// ended: then those come first.
    pub(super) fn within_dialog(to: &Party, uri: &str, bindings: &[Binding]) -> Self {
        let token = to.flow;
        if let Some(target) = of_instance(uri, token, bindings) {
            let flow = target.hops.first().flow;
            return Self {
                targets: target.into(),
                called: [Party { flow, ..to.clone() }].into(),
                lookup: None,
                asleep: None,
            };
        }
        let same = bindings.iter().filter(|one| one.contact.uri() == uri);
        let flows: Vec<_> = same.clone().map(|one| hop_of(&one.contact).flow).collect();
        let has_moved = !flows.is_empty() && !flows.contains(&token);
        let first = flows
            .first()
            .copied()
            .filter(|_| has_moved)
            .unwrap_or(token);
        let mut target = Target::new(None, NextHop::registered(first));
        // A connection that is not registered any more has ended.
        let last = [token].into_iter();
        let last = last.filter(|token| has_moved && !token.transport.is_reliable());
        for flow in flows.into_iter().filter(|flow| *flow != first).chain(last) {
            target.hops.push(NextHop::registered(flow));
        }
        for listener in same.filter_map(|one| listener_of(&one.contact)) {
            target.hops.push(listener);
        }
        let to = Party {
            flow: first,
            ..to.clone()
        };
        Self {
            targets: target.into(),
            called: [to].into(),
            lookup: None,
            asleep: None,
        }
    }

    /// These ways to a peer, one after the other; the first one is where `party` is.
    pub(super) fn peer(
        peer: &TrustedPeer,
        party: Party,
        uri: Option<Box<str>>,
        hops: Hops,
    ) -> Self {
        let flow = hops.first().flow;
        let target = Target {
            uri,
            hops,
            silence_max: Some(peer.config().silence_max),
            group: 0,
            label: 0,
        };
        Self {
            targets: target.into(),
            called: [Party { flow, ..party }].into(),
            lookup: None,
            asleep: None,
        }
    }

    /// What DNS has to be asked for first.
    pub(super) fn after(lookup: NameLookup) -> Self {
        Self {
            lookup: Some(Box::new(lookup)),
            ..Self::default()
        }
    }

    /// Adds the voicemail, for when nobody answers within `ring_time`, the device is busy or
    /// cannot be reached. It is told whose caller it gets, and why (RFC 4458).
    pub(super) fn fall_back(
        &mut self,
        voicemail: &Name,
        bindings: &[Binding],
        called: &SipUri<'_>,
        ring_time: Duration,
    ) {
        let contacts = bindings.iter().map(|binding| &binding.contact);
        let is_fit = |contact: &&Contact| {
            is_sip(contact) && (called.scheme != Scheme::Sips || contact.transport().is_encrypted())
        };
        let found: Vec<_> = contacts.filter(is_fit).collect();
        if found.is_empty() {
            return;
        }
        let Self {
            targets,
            called: parties,
            ..
        } = Self::of(voicemail, &found);
        let first_label = self.called.len() as u64;
        let target = percent_encoded(called.text);
        for (occasion, cause) in CAUSES {
            let told = targets.targets.iter().map(|one| {
                let mut told = Target {
                    label: one.label + first_label,
                    ..one.clone()
                };
                for way in told.hops.ways_mut() {
                    let uri = way.uri.take();
                    let with_cause =
                        |uri: &str| format!("{uri};target={target};cause={cause}").into();
                    way.uri = uri.map(|uri| with_cause(as_request_uri(&uri)));
                }
                told
            });
            self.targets.fallbacks.push(Fallback {
                on: [occasion].into(),
                targets: told.collect(),
            });
        }
        self.targets.ring_time = Some(ring_time);
        let all = self.called.iter().chain(&parties).cloned();
        self.called = all.collect();
    }

    /// These contacts of a device, those of one q in a group.
    pub(super) fn of(device: &Name, contacts: &[&Contact]) -> Self {
        let mut located = Self::default();
        let (mut called, mut instances) = (Vec::new(), Vec::new());
        let (mut group, mut last_q) = (0, None);
        for contact in contacts {
            let way = Way {
                uri: Some(contact.uri().into()),
                route: (!contact.path().is_empty()).then(|| contact.path().into()),
                ..hop_of(contact).into()
            };
            let second = listener_of(contact).map(|hop| Way { hop, ..way.clone() });
            let flow = way.hop.flow;
            let instance = contact.instance();
            let known = instance.and_then(|_| instances.iter().position(|one| *one == instance));
            if let Some(index) = known {
                let hops = &mut located.targets.targets[index].hops;
                hops.push(way);
                second.into_iter().for_each(|way| hops.push(way));
                continue;
            }
            let q = q_milli(contact);
            group += u16::from(last_q.is_some_and(|last| last != q));
            last_q = Some(q);
            let mut target = Target {
                group,
                label: called.len() as u64,
                ..Target::new(None, way)
            };
            second.into_iter().for_each(|way| target.hops.push(way));
            located.targets.targets.push(target);
            called.push(Party::device(device.clone(), flow));
            instances.push(instance);
        }
        located.called = called.into();
        located
    }
}

/// The contacts that a request for `uri` may be sent to, those with the highest q first, and
/// of those with the same q the one that was registered last: a telephone that has crashed
/// registers again with another contact, and its old one stays until it expires.
///
/// # Errors
///
/// Why there is none.
pub(super) fn callable<'b>(
    bindings: &'b [Binding],
    uri: &SipUri<'_>,
) -> Result<Vec<&'b Contact>, Unavailable> {
    if bindings.is_empty() {
        return Err(Unavailable::NotRegistered);
    }
    let mut newest_first: Vec<_> = bindings.iter().collect();
    newest_first.sort_by_key(|binding| Reverse(granted_at(&binding.lease())));
    let contacts = newest_first.into_iter().map(|binding| &binding.contact);
    let mut found: Vec<_> = contacts.filter(|contact| is_sip(contact)).collect();
    if found.is_empty() {
        return Err(Unavailable::OnlyIax2);
    }
    if uri.scheme == Scheme::Sips {
        found.retain(|contact| contact.transport().is_encrypted());
    }
    if found.is_empty() {
        return Err(Unavailable::NoTls);
    }
    if let Some(instance) = uri.param("gr").flatten() {
        found.retain(|contact| contact.instance() == Some(instance));
    }
    if found.iter().any(|contact| contact.is_reachable()) {
        found.retain(|contact| contact.is_reachable());
    }
    // Of the registrations of one instance over several flows, one is tried after the
    // other (RFC 5626 §5.3): a device must ring once.
    found.sort_by_key(|contact| Reverse(q_milli(contact)));
    match found.is_empty() {
        true => Err(Unavailable::NoInstance),
        false => Ok(found),
    }
}

/// The way to the telephone of a dialog, which has this Contact in it and sent last on this flow,
/// for a request of ours: other telephones of its address of record do not know the dialog. Its
/// Path is the route (RFC 3327 §5.3).
pub(super) fn way_within(uri: &str, flow: Flow, bindings: &[Binding]) -> Way {
    if let Some(target) = of_instance(uri, flow, bindings) {
        return target.hops.first_way().clone();
    }
    let contacts = bindings.iter().map(|binding| &binding.contact);
    let fit: Vec<_> = contacts
        .filter(|it| it.is_reachable() && is_sip(it))
        .collect();
    let has_flow = |contact: &&&Contact| [contact.flow(), hop_of(contact).flow].contains(&flow);
    let same = || fit.iter().filter(|contact| contact.uri() == uri);
    // A Contact may have another port with each connection. Where there is one telephone, it is it.
    let only = || fit.first().filter(|_| fit.len() == 1);
    let found = same().find(has_flow).or_else(|| same().next());
    let found = found.or_else(|| fit.iter().find(has_flow)).or_else(only);
    let Some(contact) = found else {
        return NextHop::registered(flow).into();
    };
    Way {
        hop: match has_flow(&contact) {
            true => NextHop::registered(flow),
            false => hop_of(contact),
        },
        uri: None,
        route: (!contact.path().is_empty()).then(|| contact.path().into()),
    }
}

/// A GRUU goes to the contacts of its instance (RFC 5627 §5.1). Flows with a `reg-id` live beside
/// each other, and that of the token comes first; else the contact that was registered last does,
/// since the others are where the device was before. `None` for another URI, or if the instance is
/// not registered.
fn of_instance(uri: &str, token: Flow, bindings: &[Binding]) -> Option<Target> {
    let uri = Uri::parse(uri)?;
    let instance = uri.as_sip()?.param("gr").flatten()?;
    let is_same = |contact: &Contact| is_sip(contact) && contact.instance() == Some(instance);
    let same = bindings.iter().filter(|binding| is_same(&binding.contact));
    let mut same: Vec<_> = same.collect();
    same.sort_by_key(|binding| {
        let contact = &binding.contact;
        let stays = contact.flow_key().is_some() && hop_of(contact).flow == token;
        (
            !stays,
            !contact.is_reachable(),
            Reverse(granted_at(&binding.lease())),
        )
    });
    let same = same.into_iter().map(|binding| &binding.contact);
    let mut ways = same.map(|contact| Way {
        uri: Some(contact.uri().into()),
        route: (!contact.path().is_empty()).then(|| contact.path().into()),
        ..NextHop::registered(hop_of(contact).flow).into()
    });
    let mut target = Target::new(None, ways.next()?);
    ways.for_each(|way| target.hops.push(way));
    Some(target)
}

/// The way to a contact: the flow that it registered on, or the address in its URI if it
/// listens there for datagrams.
fn hop_of(contact: &Contact) -> NextHop {
    let flow = contact.flow();
    if contact.depends_on_flow() || !contact.path().is_empty() {
        return NextHop::registered(flow);
    }
    match numeric_address(contact.uri()) {
        // An address that has not registered here may not have asked for calls.
        Some((Transport::Udp, remote))
            if flow.transport == Transport::Udp && is_same_host(remote, flow) =>
        {
            NextHop::resolved(Flow::udp(flow.local, remote))
        }
        // A connection is made only when that of the registration is gone.
        _ => NextHop::registered(flow),
    }
}

/// When a contact was registered or refreshed, in nanoseconds since 1970.
fn granted_at(lease: &Lease) -> u64 {
    let granted_ns = u64::from(lease.granted_s) * 1_000_000_000;
    lease.expires_at.as_nanos().saturating_sub(granted_ns)
}

/// A device that registered over TCP, and listens on another port of its address, may end its
/// connection: then one is made to it. Over TLS it would have to prove who it is, and telephones
/// cannot.
fn listener_of(contact: &Contact) -> Option<NextHop> {
    let flow = contact.flow();
    if contact.depends_on_flow() || !contact.path().is_empty() {
        return None;
    }
    let (transport, remote) = numeric_address(contact.uri())?;
    let is_it = transport == Transport::Tcp && flow.transport == Transport::Tcp;
    (is_it && is_same_host(remote, flow)).then_some(NextHop::resolved(Flow {
        remote,
        connection: 0,
        ..flow
    }))
}

/// Of which domain a server has to be that DNS names. `maddr` says where the domain is, and not
/// that it is another one.
pub(super) fn domain_of(called: &SipUri<'_>, name: &HopName) -> Box<str> {
    match called.host {
        Host::Name(host) => host.to_ascii_lowercase().into(),
        Host::V4(_) | Host::V6(_) => name.host.clone(),
    }
}

fn is_same_host(remote: SocketAddr, flow: Flow) -> bool {
    remote.ip().to_canonical() == flow.remote.ip().to_canonical()
}

fn is_sip(contact: &Contact) -> bool {
    Uri::parse(contact.uri()).is_some_and(|uri| uri.as_sip().is_some())
}

/// Without a q a contact is as good as any (RFC 3261 §10.2.1.2).
fn q_milli(contact: &Contact) -> u16 {
    contact.q_milli().unwrap_or(1000)
}

/// The text of a URI as the value of a parameter of another one (RFC 3261 §25.1).
pub(super) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.!~*'()[]/:&+$".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// What voicemail is told about how it came to the call (RFC 4458 §2).
const CAUSES: [(Occasion, u16); 3] = [
    (Occasion::NoAnswer, 408),
    (Occasion::Busy, 486),
    (Occasion::Unavailable, 404),
];
