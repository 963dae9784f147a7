//! How the proxy names itself in messages, and how it knows what is its own.

use super::permit::Permit;
use crate::server::peer::peers::Peers;
use busyhour_proxy::{
    Edge, Identity, Passage,
    dialogs::{Party, Role, RouteToken, RouteTokens},
};
use busyhour_registrar::{Advertised, Domains};
use busyhour_sip::{Flow, HeaderName, Host, Message, Scheme, SipUri, Uri, push_socket_address};
use std::{net::SocketAddr, sync::Arc};

/// The proxy's side of messages; a clone is another handle on the same one.
#[derive(Clone)]
pub(in crate::server) struct ServerEdge(Arc<EdgeInner>);

struct EdgeInner {
    advertised: Advertised,
    domains: Domains,
    tokens: RouteTokens,
    peers: Arc<Peers>,
    /// The number of this node of a cluster, which carries the calls of these routes; or 0.
    node: u16,
}

/// What is ours in one request.
pub(super) struct RequestIdentity<'a> {
    edge: &'a ServerEdge,
    /// The address that it came to.
    local: SocketAddr,
    request: &'a Message<'a>,
    /// Names that nobody has configured are ours too, if no domain is configured.
    any_name: bool,
}

impl ServerEdge {
    pub(in crate::server) fn new(
        advertised: Advertised,
        domains: Domains,
        key: [u8; 32],
        peers: Arc<Peers>,
        node: u16,
    ) -> Self {
        Self(Arc::new(EdgeInner {
            advertised,
            domains,
            tokens: RouteTokens::new(key),
            peers,
            node,
        }))
    }

    pub(super) fn tokens(&self) -> &RouteTokens {
        &self.0.tokens
    }

    /// The node that carries the call of a request within a dialog, as our route says; `None`
    /// without a route of a cluster.
    pub(in crate::server) fn carrier_of(&self, request: &Message<'_>) -> Option<u16> {
        // Ours are the first two at most; each costs a signature.
        let mut routes = request.routes(HeaderName::Route).take(2);
        let token = routes.find_map(|route| {
            let user = route.ok()?.user?;
            let mut senders = Role::ALL.into_iter();
            let read = |sender| self.tokens().read(user, &dialog_name(request, sender)).ok();
            RouteTokens::is_token(user).then(|| senders.find_map(read))?
        });
        token.map(|token| token.carrier).filter(|node| *node != 0)
    }

    /// The parties of a request within a dialog, by role, and which of them sends, as these values
    /// of our route say; `None` if they are not of this dialog.
    pub(super) fn parties(
        &self,
        request: &Message<'_>,
        [sender, recipient]: [&str; 2],
    ) -> Option<([Party; 2], Role)> {
        let mut pairs = Role::ALL.into_iter().filter_map(|role| {
            let dialog = dialog_name(request, role);
            let pair = self.tokens().read_pair(sender, recipient, &dialog);
            pair.ok().filter(|(_, sender)| *sender == role)
        });
        pairs.next()
    }

    /// As [`parties`](Self::parties), of a request that another node has forwarded.
    pub(in crate::server) fn parties_told(
        &self,
        request: &Message<'_>,
    ) -> Option<([Party; 2], Role)> {
        let mut routes = request.routes(HeaderName::Route);
        let mut user = || routes.next()?.ok()?.user;
        self.parties(request, [user()?, user()?])
    }

    /// What is ours in a request that came on `flow`.
    pub(super) fn identity<'a>(
        &'a self,
        request: &'a Message<'a>,
        flow: Flow,
    ) -> RequestIdentity<'a> {
        let is_in_dialog = request.to().is_ok_and(|to| to.tag().is_some());
        RequestIdentity {
            edge: self,
            local: flow.local,
            request,
            any_name: !is_in_dialog && self.0.domains.are_all(),
        }
    }

    /// Our address as the other side of a flow knows it.
    fn address(&self, flow: Flow) -> SocketAddr {
        self.0.advertised.for_flow(flow)
    }

    fn put_uri(&self, scheme: Scheme, token: &RouteToken, dialog: &str, out: &mut String) {
        let flow = token.party.flow;
        out.push('<');
        out.push_str(scheme.as_str());
        out.push(':');
        self.0.tokens.write(token, dialog, out);
        out.push('@');
        push_socket_address(out, self.address(flow));
        // In a SIPS URI the transport says what TLS runs over (RFC 3261 §26.2.2).
        if scheme == Scheme::Sip {
            out.push_str(flow.transport.uri_suffix());
        }
        out.push_str(";lr>");
    }
}

impl Edge for ServerEdge {
    type Data = Permit;

    /// A peer may answer from another one of its addresses.
    fn may_answer(&self, sent: Flow, came: Flow) -> bool {
        let [sent, came] = [sent, came].map(|flow| flow.remote.ip().to_canonical());
        sent == came || self.0.peers.has_both([sent, came])
    }

    fn put_sent_by(&self, flow: Flow, out: &mut String) {
        push_socket_address(out, self.address(flow));
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
        // The route of a dialog never changes (RFC 3261 §12.2).
        if permit.is_in_dialog() {
            return;
        }
        let dialog = &dialog_name(request, Role::Caller);
        let called = request.request_uri().ok();
        let scheme = match called {
            Some(Uri::Sip(uri)) if is_tls(to) || is_tls(from) => uri.scheme,
            _ => Scheme::Sip,
        };
        let side = |role, party: Option<&Party>, flow| {
            let nobody = || Party::nobody(flow);
            let party = party.map_or_else(nobody, |party| Party {
                flow,
                ..party.clone()
            });
            RouteToken {
                role,
                party,
                carrier: self.0.node,
            }
        };
        let callee = side(Role::Callee, permit.called(label), to);
        let caller = side(Role::Caller, permit.caller(), from);
        self.put_uri(scheme, &callee, dialog, out);
        out.push_str(", ");
        self.put_uri(scheme, &caller, dialog, out);
    }

    /// Peers that are believed are also told (RFC 3325 §5); telephones are told if the sender
    /// does not forbid it.
    fn passes_identity(&self, passage: &Passage<'_, '_, Permit>) -> bool {
        let permit = passage.data;
        let is_told = || {
            permit
                .called(passage.label)
                .is_some_and(|to| self.0.peers.believes(to))
        };
        permit.is_believed && (!is_private(passage.request) || is_told())
    }

    fn passes_identity_back(&self, response: &Message<'_>, permit: &Permit, label: u64) -> bool {
        let peers = &self.0.peers;
        let is_told = || permit.sender().is_some_and(|to| peers.believes(to));
        let is_believed = permit
            .called(label)
            .is_some_and(|from| peers.believes(from));
        is_believed && (!is_private(response) || is_told())
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
            let mut senders = Role::ALL.into_iter();
            senders.any(|sender| {
                let dialog = dialog_name(self.request, sender);
                self.edge.tokens().read(user, &dialog).is_ok()
            })
        };
        // Most users of a Request-URI are no tokens, which costs less to see.
        (uri.user).is_some_and(|user| RouteTokens::is_token(user) && is_token(user))
    }
}

/// What the tokens of a dialog are signed for, read from a request that this side sends: its
/// Call-ID and the tag of its caller. Without the tag, who calls with the Call-ID of another
/// call would get tokens for that.
pub(super) fn dialog_name(request: &Message<'_>, sender: Role) -> String {
    let caller = match sender {
        Role::Caller => request.from(),
        Role::Callee => request.to(),
    };
    let caller = caller.ok();
    let tag = caller.as_ref().and_then(|caller| caller.tag());
    let call_id = request.call_id().unwrap_or("");
    [call_id, tag.unwrap_or("")].join("\n")
}

/// Whether the sender wants nobody but trusted servers to know who it is (RFC 3325 §9.3).
fn is_private(message: &Message<'_>) -> bool {
    let headers = message.all_headers();
    let lines = headers.filter(|(_, name, _)| name.eq_ignore_ascii_case("Privacy"));
    let mut wanted = lines.flat_map(|(_, _, value)| value.split(';'));
    wanted.any(|value| value.trim().eq_ignore_ascii_case("id"))
}

fn is_tls(flow: Flow) -> bool {
    flow.transport.is_encrypted()
}

/// Without and with TLS (RFC 3261 §19.1.2).
const DEFAULT_PORTS: [u16; 2] = [5060, 5061];
