//! How the proxy names itself in messages, and how it knows what is its own.

use super::permit::Permit;
use busyhour_proxy::{
    Edge, Identity, Passage,
    dialogs::{Party, Role, RouteToken, RouteTokens},
};
use busyhour_registrar::{Advertised, Domains};
use busyhour_sip::{Flow, Host, Message, Scheme, SipUri, Transport, Uri};
use std::{fmt::Write, net::SocketAddr, sync::Arc};

/// The proxy's side of messages; a clone is another handle on the same one.
#[derive(Debug, Clone)]
pub(in crate::server) struct ServerEdge(Arc<EdgeInner>);

#[derive(Debug)]
struct EdgeInner {
    advertised: Advertised,
    domains: Domains,
    tokens: RouteTokens,
}

/// What is ours in one request.
pub(super) struct RequestIdentity<'a> {
    edge: &'a ServerEdge,
    /// The address that it came to.
    local: SocketAddr,
    /// What tokens of its dialog are signed for, whoever sends it.
    names: [String; 2],
    /// Names that nobody has configured are ours too, if no domain is configured.
    any_name: bool,
}

use CallerIn::{From, To};

impl ServerEdge {
    pub(in crate::server) fn new(advertised: Advertised, domains: Domains, key: [u8; 32]) -> Self {
        Self(Arc::new(EdgeInner {
            advertised,
            domains,
            tokens: RouteTokens::new(key),
        }))
    }

    pub(super) fn tokens(&self) -> &RouteTokens {
        &self.0.tokens
    }

    /// What is ours in a request that came on `flow`.
    pub(super) fn identity<'a>(&'a self, request: &Message<'a>, flow: Flow) -> RequestIdentity<'a> {
        let is_in_dialog = request.to().is_ok_and(|to| to.tag().is_some());
        RequestIdentity {
            edge: self,
            local: flow.local,
            names: [From, To].map(|caller| dialog_name(request, caller)),
            any_name: !is_in_dialog && self.0.domains.are_all(),
        }
    }

    /// Our address as the other side of a flow knows it.
    fn address(&self, flow: Flow) -> SocketAddr {
        let advertised = self.0.advertised.to(flow.remote.ip());
        advertised.unwrap_or(flow.local)
    }

    fn put_uri(&self, scheme: Scheme, token: &RouteToken, call_id: &str, out: &mut String) {
        let flow = token.party.flow;
        out.push('<');
        out.push_str(scheme.as_str());
        out.push(':');
        self.0.tokens.write(token, call_id, out);
        // Writing to a String cannot fail.
        let _ = write!(out, "@{}", self.address(flow));
        // In a SIPS URI the transport says what TLS runs over (RFC 3261 §26.2.2).
        if scheme == Scheme::Sip {
            out.push_str(flow.transport.uri_suffix());
        }
        out.push_str(";lr>");
    }
}

impl Edge for ServerEdge {
    type Data = Permit;

    fn put_sent_by(&self, flow: Flow, out: &mut String) {
        let _ = write!(out, "{}", self.address(flow));
    }

    /// Two URIs, one for each side, always: they say who takes part, so that a request
    /// within the dialog needs no memory.
    fn put_record_route(&self, passage: &Passage<'_, '_, Permit>, out: &mut String) {
        let Passage {
            request,
            from,
            to,
            data: permit,
            label,
        } = *passage;
        let call_id = &dialog_name(request, From);
        // The route of a dialog never changes (RFC 3261 §12.2).
        if permit.is_in_dialog() {
            return;
        }
        let called = request.request_uri().ok();
        let scheme = match called {
            Some(Uri::Sip(uri)) if is_tls(to) || is_tls(from) => uri.scheme,
            _ => Scheme::Sip,
        };
        let side = |role, device, flow| RouteToken {
            role,
            party: Party { device, flow },
        };
        let device = permit.called(label).and_then(|party| party.device.clone());
        let callee = side(Role::Callee, device, to);
        let caller = side(Role::Caller, permit.caller.clone(), from);
        self.put_uri(scheme, &callee, call_id, out);
        out.push_str(", ");
        self.put_uri(scheme, &caller, call_id, out);
    }
}

impl Identity for RequestIdentity<'_> {
    fn is_us(&self, host: &Host<'_>, port: Option<u16>) -> bool {
        let EdgeInner {
            advertised,
            domains,
            ..
        } = &*self.edge.0;
        let is_it = |ours: SocketAddr| {
            let is_port = match port {
                Some(port) => port == ours.port(),
                None => DEFAULT_PORTS.contains(&ours.port()),
            };
            let is_host = match host {
                Host::V4(ip) => ours.ip().to_canonical() == *ip,
                Host::V6(ip) => ours.ip() == *ip,
                Host::Name(_) => false,
            };
            is_port && is_host
        };
        if is_it(self.local) || advertised.all().any(is_it) {
            return true;
        }
        match host {
            Host::Name(_) => self.any_name || !domains.are_all() && domains.contain(host),
            Host::V4(_) | Host::V6(_) => false,
        }
    }

    fn is_record_route(&self, uri: &SipUri<'_>) -> bool {
        let is_token = |user: &str| {
            let mut names = self.names.iter();
            names.any(|name| self.edge.tokens().read(user, name).is_ok())
        };
        uri.user.is_some_and(is_token)
    }
}

/// The header that has the caller's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallerIn {
    From,
    To,
}

/// What the tokens of a dialog are signed for: its Call-ID and the tag of its caller. Without
/// the tag, who calls with the Call-ID of another call would get tokens for that.
pub(super) fn dialog_name(request: &Message<'_>, caller: CallerIn) -> String {
    let address = match caller {
        From => request.from(),
        To => request.to(),
    };
    let address = address.ok();
    let tag = address.as_ref().and_then(|address| address.tag());
    let call_id = request.call_id().unwrap_or("");
    format!("{call_id}\n{}", tag.unwrap_or(""))
}

fn is_tls(flow: Flow) -> bool {
    flow.transport == Transport::Tls
}

/// Without and with TLS (RFC 3261 §19.1.2).
const DEFAULT_PORTS: [u16; 2] = [5060, 5061];
