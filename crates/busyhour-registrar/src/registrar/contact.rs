//! The part of a binding that a refresh leaves alone, in one piece of memory.

mod reach;

pub use reach::Reach;

use super::address::{datagram_address, listens_apart, listens_at};
use busyhour_sip::{Flow, Transport};
use std::{
    fmt::{self, Debug, Formatter},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
};
use triomphe::ThinArc;

/// A contact of an address of record, without its lease; a clone is the same one.
///
/// There may be a million contacts, so each one is packed: the texts one after the
/// other, each after its length, and the addresses as bytes.
///
/// ```
/// use busyhour_registrar::{Contact, ContactParts};
/// use busyhour_sip::Flow;
///
/// let parts = ContactParts {
///     uri: "sip:alice@192.0.2.7:40000",
///     parameters: "",
///     q_milli: Some(500),
///     call_id: "843817637684230@998sdasdh09",
///     path: "",
///     user_agent: "phone 1.0",
///     flow: Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?),
/// };
/// let contact = Contact::new(parts);
/// assert_eq!(contact.parts(), parts);
/// assert_eq!(contact.uri(), "sip:alice@192.0.2.7:40000");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Contact(ThinArc<(), u8>);

/// What a [`Contact`] is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactParts<'a> {
    /// The contact URI as the device wrote it.
    pub uri: &'a str,
    /// Contact parameters other than `q` and `expires`, each with its leading semicolon.
    pub parameters: &'a str,
    /// Preference in thousandths, 0 to 1000; `None` when the device gave none.
    pub q_milli: Option<u16>,
    /// Call-ID of the registration that made the binding.
    pub call_id: &'a str,
    /// The Path header values, comma separated; empty when there was none (RFC 3327).
    pub path: &'a str,
    /// The User-Agent header, empty when there was none.
    pub user_agent: &'a str,
    /// The flow on which the registration came, on which the device can be reached.
    pub flow: Flow,
}

impl ContactParts<'_> {
    /// Bytes that are kept for it.
    pub fn kept_len(&self) -> usize {
        self.texts().iter().map(|text| text.len()).sum()
    }
}

impl Contact {
    /// Packs its parts.
    pub fn new(parts: ContactParts<'_>) -> Self {
        let texts = parts.texts();
        let mut bytes = Vec::with_capacity(HEAD_LEN + parts.kept_len());
        bytes.push(kind(&parts));
        bytes.extend(parts.q_milli.unwrap_or(0).to_le_bytes());
        put_address(&mut bytes, parts.flow.remote);
        put_address(&mut bytes, parts.flow.local);
        texts
            .iter()
            .for_each(|text| put_len(&mut bytes, text.len()));
        texts.iter().for_each(|text| bytes.extend(text.as_bytes()));
        let Flow {
            connection, node, ..
        } = parts.flow;
        if connection > 0 || node > 0 {
            bytes.extend(connection.to_le_bytes());
        }
        if node > 0 {
            bytes.extend(node.to_le_bytes());
        }
        Self::of(&bytes)
    }

    fn of(bytes: &[u8]) -> Self {
        Self(ThinArc::from_header_and_slice((), bytes))
    }

    fn bytes(&self) -> &[u8] {
        &self.0.slice
    }

    /// All of it.
    pub fn parts(&self) -> ContactParts<'_> {
        let (flow, texts) = self.head_and_texts();
        let [uri, parameters, call_id, path, user_agent] = texts.map(text);
        ContactParts {
            uri,
            parameters,
            q_milli: self.q_milli(),
            call_id,
            path,
            user_agent,
            flow,
        }
    }

    /// See [`ContactParts::uri`].
    pub fn uri(&self) -> &str {
        self.text(0)
    }

    /// See [`ContactParts::parameters`].
    pub fn parameters(&self) -> &str {
        self.text(1)
    }

    /// See [`ContactParts::q_milli`].
    pub fn q_milli(&self) -> Option<u16> {
        let mut reader = Reader(self.bytes());
        let (kind, q_milli) = (reader.byte(), u16::from_le_bytes(reader.array()));
        (kind & HAS_Q != 0).then_some(q_milli)
    }

    /// See [`ContactParts::call_id`].
    pub fn call_id(&self) -> &str {
        self.text(2)
    }

    /// See [`ContactParts::path`].
    pub fn path(&self) -> &str {
        self.text(3)
    }

    /// See [`ContactParts::user_agent`].
    pub fn user_agent(&self) -> &str {
        self.text(4)
    }

    /// See [`ContactParts::flow`].
    pub fn flow(&self) -> Flow {
        self.head_and_texts().0
    }

    /// What carried the registration; cheaper than all of the [flow](Self::flow).
    pub fn transport(&self) -> Transport {
        transport(Reader(self.bytes()).byte())
    }

    /// What is known of whether messages reach the device. This is not stored.
    pub fn reach(&self) -> Reach {
        match Reader(self.bytes()).byte() & (UNREACHABLE | UNVERIFIED) {
            0 => Reach::Reachable,
            UNVERIFIED => Reach::Unverified,
            _ => Reach::Unreachable,
        }
    }

    /// Whether messages probably reach the device: nothing says otherwise.
    pub fn is_reachable(&self) -> bool {
        self.reach().is_believed()
    }

    /// The same contact with another reach.
    ///
    /// ```
    /// # use busyhour_registrar::{Contact, ContactParts, Reach};
    /// # use busyhour_sip::Flow;
    /// # let flow = Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
    /// # let (uri, parameters, call_id, path, user_agent) = ("sip:a@192.0.2.7", "", "c", "", "");
    /// # let parts = ContactParts { uri, parameters, q_milli: None, call_id, path, user_agent, flow };
    /// let contact = Contact::new(parts);
    /// assert!(contact.is_reachable() && !contact.with_reach(Reach::Unreachable).is_reachable());
    /// let unverified = contact.with_reach(Reach::Unverified);
    /// assert!(unverified.is_reachable() && unverified != contact);
    /// assert_eq!(unverified.with_reach(Reach::Reachable), contact);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn with_reach(&self, reach: Reach) -> Self {
        if self.reach() == reach {
            return self.clone();
        }
        let mut bytes = self.bytes().to_vec();
        if let Some(kind) = bytes.first_mut() {
            *kind &= !(UNREACHABLE | UNVERIFIED);
            *kind |= match reach {
                Reach::Reachable => 0,
                Reach::Unverified => UNVERIFIED,
                Reach::Unreachable => UNREACHABLE,
            };
        }
        Self::of(&bytes)
    }

    /// The same contact whose connection has ended, for instance with the process that had it.
    ///
    /// ```
    /// # use busyhour_registrar::{Contact, ContactParts};
    /// # use busyhour_sip::{Flow, Transport};
    /// # let udp = Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
    /// # let (uri, parameters, call_id, path, user_agent) = ("sip:a@192.0.2.7", "", "c", "", "");
    /// let flow = Flow { transport: Transport::Tcp, connection: 7, ..udp };
    /// # let parts = ContactParts { uri, parameters, q_milli: None, call_id, path, user_agent, flow };
    /// let contact = Contact::new(parts);
    /// assert_eq!(contact.without_connection().flow(), Flow { connection: 0, ..flow });
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn without_connection(&self) -> Self {
        let parts = self.parts();
        let flow = Flow {
            connection: 0,
            ..parts.flow
        };
        Self::new(ContactParts { flow, ..parts })
    }

    /// Whether an address translation stands before the device: it registered over datagrams from
    /// another address than its contact names, and is reached over that flow. The translation
    /// forgets the flow if nothing goes over it.
    ///
    /// ```
    /// # use busyhour_registrar::{Contact, ContactParts};
    /// # use busyhour_sip::Flow;
    /// # let flow = Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
    /// # let (parameters, call_id, path, user_agent) = ("", "c", "", "");
    /// let is_translated = |uri| {
    ///     let parts = ContactParts { uri, parameters, q_milli: None, call_id, path, user_agent, flow };
    ///     Contact::new(parts).is_translated()
    /// };
    /// assert!(is_translated("sip:a@192.168.1.5:5060"));
    /// assert!(!is_translated("sip:a@192.0.2.7:40000") && !is_translated("sip:a@192.0.2.8"));
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn is_translated(&self) -> bool {
        let (flow, [uri, ..]) = self.head_and_texts();
        let source = (flow.remote.ip().to_canonical(), flow.remote.port());
        !flow.transport.is_reliable()
            && datagram_address(text(uri)).is_some_and(|named| named != source)
            && self.depends_on_flow()
    }

    /// Whether the device is reached over this flow. If it registered through a proxy
    /// with a Path, the flow belongs to the proxy. Over datagrams the device may listen
    /// on another port than it sends from, or register another device. Over a
    /// connection the device depends on the connection, unless it is one of TCP, and the device
    /// names another port of the same address and does not ask to keep the flow (RFC 5626): then it
    /// listens on that port, and many such phones close their connection as soon as they have
    /// registered. Over TLS nobody connects to a telephone, since it cannot prove who it is.
    ///
    /// ```
    /// # use busyhour_registrar::{Contact, ContactParts};
    /// # use busyhour_sip::{Flow, Transport};
    /// # let flow = Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
    /// # let (parameters, call_id, path, user_agent) = ("", "c", "", "");
    /// let depends = |uri| {
    ///     let parts = ContactParts { uri, parameters, q_milli: None, call_id, path, user_agent, flow };
    ///     Contact::new(parts).depends_on_flow()
    /// };
    /// assert!(depends("sip:a@192.0.2.7:40000") && depends("sip:a@192.168.1.5"));
    /// assert!(!depends("sip:a@192.0.2.7:5060") && !depends("sip:a@192.0.2.8"));
    /// // It listens, and closes its connection when it has registered.
    /// let tcp = Flow { transport: Transport::Tcp, ..flow };
    /// let over_tcp = |uri, parameters| {
    ///     let parts = ContactParts { uri, parameters, q_milli: None, call_id, path, user_agent, flow: tcp };
    ///     Contact::new(parts).depends_on_flow()
    /// };
    /// assert!(!over_tcp("sip:a@192.0.2.7:5060", ""));
    /// assert!(over_tcp("sip:a@192.0.2.7:5060;ob", "") && over_tcp("sip:a@10.0.0.5:5060", ""));
    /// let tls = Flow { transport: Transport::Tls, ..flow };
    /// let uri = "sip:a@192.0.2.7:5061;transport=tls";
    /// let parts = ContactParts { uri, parameters, q_milli: None, call_id, path, user_agent, flow: tls };
    /// assert!(Contact::new(parts).depends_on_flow());
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn depends_on_flow(&self) -> bool {
        let (flow, [uri, _, _, path, _]) = self.head_and_texts();
        let depends = match flow.transport.is_reliable() {
            true => {
                flow.transport != Transport::Tcp
                    || !listens_apart(text(uri), flow.remote)
                    || self.flow_key().is_some()
            }
            false => listens_at(text(uri), flow.remote),
        };
        path.is_empty() && depends
    }

    /// Whether it has all of these parts.
    pub(super) fn is_made_of(&self, parts: &ContactParts<'_>) -> bool {
        let (flow, texts) = self.head_and_texts();
        let wanted = parts.texts();
        let mut texts = texts.iter().zip(&wanted);
        flow == parts.flow
            && self.q_milli() == parts.q_milli
            && texts.all(|(own, wanted)| *own == wanted.as_bytes())
    }

    /// Whether its URI is written like this.
    pub(super) fn has_uri_text(&self, uri: &str) -> bool {
        self.text_bytes()[0] == uri.as_bytes()
    }

    /// Whether a registration with this Call-ID made it.
    pub(super) fn has_call_id(&self, call_id: &str) -> bool {
        self.text_bytes()[2] == call_id.as_bytes()
    }

    /// What an answer shows of it: URI and parameters.
    pub(super) fn shown(&self) -> [&str; 2] {
        let [uri, parameters, ..] = self.text_bytes();
        [uri, parameters].map(text)
    }

    /// The texts as bytes: reading them as texts costs more than the rest.
    fn head_and_texts(&self) -> (Flow, [&[u8]; TEXTS]) {
        let mut reader = Reader(self.bytes());
        let kind = reader.byte();
        reader.take(size_of::<u16>());
        let remote = reader.address(kind & REMOTE_V6 != 0);
        let local = reader.address(kind & LOCAL_V6 != 0);
        let texts = reader.texts();
        let flow = Flow {
            transport: transport(kind),
            local,
            remote,
            // Last of all, and only where there is one.
            connection: u32::from_le_bytes(reader.array()),
            node: u16::from_le_bytes(reader.array()),
        };
        (flow, texts)
    }

    fn text(&self, index: usize) -> &str {
        text(self.text_bytes()[index])
    }

    fn text_bytes(&self) -> [&[u8]; TEXTS] {
        let mut reader = Reader(self.bytes());
        let kind = reader.byte();
        let len_of = |flag| if kind & flag != 0 { V6_LEN } else { V4_LEN };
        reader.take(size_of::<u16>() + len_of(REMOTE_V6) + len_of(LOCAL_V6));
        reader.texts()
    }
}

impl Debug for Contact {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.parts(), f)
    }
}

impl<'a> ContactParts<'a> {
    fn texts(&self) -> [&'a str; TEXTS] {
        [
            self.uri,
            self.parameters,
            self.call_id,
            self.path,
            self.user_agent,
        ]
    }
}

/// Reads the packed bytes. If bytes are missing, the missing fields read as empty.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().unwrap_or([0; N])
    }

    fn address(&mut self, is_v6: bool) -> SocketAddr {
        if !is_v6 {
            let address = Ipv4Addr::from(self.array::<4>());
            return SocketAddr::new(address.into(), u16::from_le_bytes(self.array()));
        }
        let address = Ipv6Addr::from(self.array::<16>());
        let port = u16::from_le_bytes(self.array());
        let (flow, scope) = (
            u32::from_le_bytes(self.array()),
            u32::from_le_bytes(self.array()),
        );
        SocketAddrV6::new(address, port, flow, scope).into()
    }

    fn len(&mut self) -> usize {
        // Most texts are short.
        if let [byte @ ..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return usize::from(*byte);
        }
        let (mut len, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            len |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return len;
            }
        }
    }

    fn texts(&mut self) -> [&'a [u8]; TEXTS] {
        let mut lens = [0; TEXTS];
        for len in &mut lens {
            *len = self.len();
        }
        let mut texts: [&[u8]; TEXTS] = [&[]; TEXTS];
        for (text, len) in texts.iter_mut().zip(lens) {
            *text = self.take(len);
        }
        texts
    }
}

/// The transport, and flags for the fields that follow.
fn kind(parts: &ContactParts<'_>) -> u8 {
    let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
    let over = parts.flow.transport;
    let transport = match over.beneath() {
        Transport::Udp => 0,
        Transport::Tcp => 1,
        _ => 2,
    };
    transport
        | flag(over.is_web_socket(), WEB_SOCKET)
        | flag(parts.q_milli.is_some(), HAS_Q)
        | flag(parts.flow.remote.is_ipv6(), REMOTE_V6)
        | flag(parts.flow.local.is_ipv6(), LOCAL_V6)
}

fn transport(kind: u8) -> Transport {
    let beneath = match kind & 3 {
        0 => Transport::Udp,
        1 => Transport::Tcp,
        _ => Transport::Tls,
    };
    match kind & WEB_SOCKET {
        0 => beneath,
        _ => beneath.with_web_socket(),
    }
}

fn put_address(bytes: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => bytes.extend(ip.octets()),
        IpAddr::V6(ip) => bytes.extend(ip.octets()),
    }
    bytes.extend(address.port().to_le_bytes());
    if let SocketAddr::V6(address) = address {
        bytes.extend(address.flowinfo().to_le_bytes());
        bytes.extend(address.scope_id().to_le_bytes());
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn put_len(bytes: &mut Vec<u8>, len: usize) {
    let mut rest = len;
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// It was a text when it was packed.
fn text(bytes: &[u8]) -> &str {
    if bytes.is_empty() {
        return "";
    }
    std::str::from_utf8(bytes).unwrap_or_default()
}

const TEXTS: usize = 5;
const HAS_Q: u8 = 4;
const REMOTE_V6: u8 = 8;
const LOCAL_V6: u8 = 16;
const UNREACHABLE: u8 = 32;
const WEB_SOCKET: u8 = 64;
const UNVERIFIED: u8 = 128;
const V4_LEN: usize = 6;
const V6_LEN: usize = 26;
/// Enough for all but the longest texts.
const HEAD_LEN: usize = 3 + 2 * V6_LEN + 2 * TEXTS + size_of::<u32>();

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address() -> impl Strategy<Value = SocketAddr> {
        let v6 = any::<(u128, u16, u32, u32)>().prop_map(|(ip, port, flow, scope)| {
            SocketAddr::from(SocketAddrV6::new(ip.into(), port, flow, scope))
        });
        let v4 = any::<(u32, u16)>();
        prop_oneof![
            v4.prop_map(|(ip, port)| SocketAddr::new(Ipv4Addr::from(ip).into(), port)),
            v6
        ]
    }

    proptest! {
        #[test]
        fn a_packed_contact_is_unpacked_unchanged(
            texts in any::<[String; TEXTS]>(),
            repeat in 0..100_usize,
            q_milli in any::<Option<u16>>(),
            transport in prop_oneof![
                Just(Transport::Udp),
                Just(Transport::Tcp),
                Just(Transport::Tls),
                Just(Transport::Ws),
                Just(Transport::Wss),
            ],
            connection in any::<u32>(),
            node in any::<u16>(),
            (remote, local) in (address(), address()),
        ) {
            let long = texts[3].repeat(repeat * 20);
            let parts = ContactParts {
                uri: &texts[0],
                parameters: &texts[1],
                q_milli,
                call_id: &texts[2],
                path: &long,
                user_agent: &texts[4],
                flow: Flow { transport, local, remote, connection, node },
            };
            let contact = Contact::new(parts);
            prop_assert_eq!(contact.parts(), parts);
            prop_assert_eq!(
                [contact.uri(), contact.parameters(), contact.call_id(), contact.path(), contact.user_agent()],
                parts.texts()
            );
            prop_assert_eq!((contact.flow(), contact.q_milli()), (parts.flow, q_milli));
        }
    }

    #[test]
    fn an_ordinary_contact_is_small() {
        let contact = Contact::new(ContactParts {
            uri: "sip:alice@192.0.2.7:40000",
            parameters: "",
            q_milli: None,
            call_id: "843817637684230@998sdasdh09",
            path: "",
            user_agent: "phone 1.0",
            flow: Flow::udp(
                "192.0.2.1:5060".parse().unwrap(),
                "192.0.2.7:40000".parse().unwrap(),
            ),
        });
        assert_eq!(contact.bytes().len(), 3 + 12 + 5 + 25 + 27 + 9);
    }
}
