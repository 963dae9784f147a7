//! The signed token in the user part of the proxy's Record-Route URIs (RFC 5626 §5.3.2).
//!
//! ```text
//! 3 bits  version        8 bits   what follows    local, remote address: each
//! 2 bits  key number     ...                      4 or 16 octets and the port
//! 1 bit   role                                    connection: 4 octets
//! 2 bits  transport                               scopes: 2 × 4 octets
//!                        4        in a cluster: the node that carries the call, that of the flow
//!                        rest     address of record, or the name of a peer
//!                        10       first 80 bits of HMAC-SHA-256(key, all of this, dialog's name)
//! ```
//!
//! It is written in base64url (RFC 4648 §5), whose characters may all stand in a user part
//! as they are. There are two of them in each message (RFC 5658), one for each side, so
//! that a request within the dialog needs no memory: the topmost one says who sends, the
//! other one where it goes. As the dialog's name is signed but not written, a token is good
//! for its own dialog alone. The name is whatever the caller of these functions chooses, such
//! as the Call-ID and the tag of who began the dialog.

mod base64;

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use busyhour::bus::Name;
use busyhour_sip::{Flow, Transport};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::party::{Party, Role};
use base64::{base64_bytes, put_base64};

/// What a token says of one side of a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteToken {
    /// The side.
    pub role: Role,
    /// Its device and flow.
    pub party: Party,
    /// The node of a cluster that carries the call; 0 without a cluster.
    pub carrier: u16,
}

/// Writes and reads tokens, with the current key and the one before it.
#[derive(Clone)]
pub struct RouteTokens {
    current: Key,
    previous: Option<Key>,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefusal {
    /// It is not one of our tokens, or was cut or joined.
    #[error("the user part of the route is no token")]
    Malformed,
    /// Another version of this program wrote it.
    #[error("the token is of another version")]
    Version,
    /// Its key is neither the current one nor the one before it.
    #[error("the token is of an old or foreign key")]
    Key,
    /// It was changed, or is of another dialog or of another server.
    #[error("the token's signature is wrong")]
    Signature,
    /// Both tokens are of the same side.
    #[error("both tokens are of one side of the dialog")]
    Side,
}

#[derive(Clone)]
struct Key {
    number: u8,
    /// The hash state after the key, which saves two blocks each time.
    keyed: Hmac<Sha256>,
}

impl RouteTokens {
    /// Signs with `key`, which must stay secret.
    pub fn new(key: [u8; 32]) -> Self {
        Self {
            current: Key::new(0, key),
            previous: None,
        }
    }

    /// Signs with another key from now on; tokens of the last one stay valid until the
    /// next change.
    pub fn rotate(&mut self, key: [u8; 32]) {
        let number = (self.current.number + 1) % KEY_NUMBERS;
        let last = std::mem::replace(&mut self.current, Key::new(number, key));
        self.previous = Some(last);
    }

    /// Appends the token for messages of the dialog with this name.
    ///
    /// ```
    /// use busyhour::bus::Name;
    /// use busyhour_proxy::dialogs::{Party, Role, RouteToken, RouteTokens};
    /// use busyhour_sip::Flow;
    ///
    /// let tokens = RouteTokens::new([7; 32]);
    /// let flow = Flow::udp("192.0.2.1:5060".parse()?, "192.0.2.7:40000".parse()?);
    /// let party = Party::device(Name::new("sip:alice@example.com"), flow);
    /// let token = RouteToken { role: Role::Caller, party, carrier: 0 };
    /// let mut text = String::new();
    /// tokens.write(&token, "a84b4c76", &mut text);
    /// assert_eq!(text.len(), 55);
    /// assert_eq!(tokens.read(&text, "a84b4c76"), Ok(token));
    /// assert!(tokens.read(&text, "another").is_err());
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn write(&self, token: &RouteToken, dialog: &str, out: &mut String) {
        let mut bytes = Vec::with_capacity(80);
        token.put(self.current.number, &mut bytes);
        let signature = self.current.sign(&bytes, dialog);
        bytes.extend_from_slice(&signature);
        put_base64(&bytes, out);
    }

    /// Reads the token in the user part of a route of a message of this dialog.
    ///
    /// # Errors
    ///
    /// [`TokenRefusal`] says why it is not believed.
    pub fn read(&self, text: &str, dialog: &str) -> Result<RouteToken, TokenRefusal> {
        let bytes = base64_bytes(text).ok_or(TokenRefusal::Malformed)?;
        let split = bytes.split_last_chunk::<SIGNATURE_LEN>();
        let (payload, signature) = split.ok_or(TokenRefusal::Malformed)?;
        let [first, ..] = payload else {
            return Err(TokenRefusal::Malformed);
        };
        if ![VERSION, VERSION_WITH_NODE].contains(&(first >> 5)) {
            return Err(TokenRefusal::Version);
        }
        let number = first >> 3 & (KEY_NUMBERS - 1);
        let mut keys = [Some(&self.current), self.previous.as_ref()]
            .into_iter()
            .flatten();
        let key = keys
            .find(|key| key.number == number)
            .ok_or(TokenRefusal::Key)?;
        let is_ours: bool = key.sign(payload, dialog).ct_eq(signature).into();
        if !is_ours {
            return Err(TokenRefusal::Signature);
        }
        RouteToken::take(payload).ok_or(TokenRefusal::Malformed)
    }

    /// Whether a text has the form of a token. It tells a URI of our Record-Route where no
    /// dialog is at hand (RFC 3261 §16.4); only [`read`](Self::read) checks the signature.
    pub fn is_token(text: &str) -> bool {
        let bytes = base64_bytes(text).unwrap_or_default();
        let is_long = bytes.len() > SIGNATURE_LEN;
        is_long
            && bytes
                .first()
                .is_some_and(|first| [VERSION, VERSION_WITH_NODE].contains(&(first >> 5)))
    }

    /// Reads both tokens of a request, the topmost first: the parties by role, and which
    /// of them sends.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`TokenRefusal::Side`].
    pub fn read_pair(
        &self,
        sender: &str,
        recipient: &str,
        dialog: &str,
    ) -> Result<([Party; 2], Role), TokenRefusal> {
        let (sender, recipient) = (self.read(sender, dialog)?, self.read(recipient, dialog)?);
        match (sender.role, recipient.role) {
            (Role::Caller, Role::Callee) => Ok(([sender.party, recipient.party], Role::Caller)),
            (Role::Callee, Role::Caller) => Ok(([recipient.party, sender.party], Role::Callee)),
            _ => Err(TokenRefusal::Side),
        }
    }
}

impl std::fmt::Debug for RouteTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RouteTokens(…)")
    }
}

impl Key {
    fn new(number: u8, key: [u8; 32]) -> Self {
        let mut block = [0; 64];
        block[..32].copy_from_slice(&key);
        Self {
            number,
            keyed: Hmac::new(&block.into()),
        }
    }

    fn sign(&self, payload: &[u8], dialog: &str) -> [u8; SIGNATURE_LEN] {
        let mut mac = self.keyed.clone();
        mac.update(b"route token");
        mac.update(&(payload.len() as u32).to_be_bytes());
        mac.update(payload);
        mac.update(dialog.as_bytes());
        let mut signature = [0; SIGNATURE_LEN];
        signature.copy_from_slice(&mac.finalize().into_bytes()[..SIGNATURE_LEN]);
        signature
    }
}

impl RouteToken {
    fn put(&self, key_number: u8, bytes: &mut Vec<u8>) {
        let Flow {
            transport,
            local,
            remote,
            connection,
            node,
        } = self.party.flow;
        let place = TRANSPORTS
            .iter()
            .position(|it| *it == transport.beneath())
            .unwrap_or(0);
        let nodes = u32::from(self.carrier) << 16 | u32::from(node);
        let version = match nodes {
            0 => VERSION,
            _ => VERSION_WITH_NODE,
        };
        bytes.push(version << 5 | key_number << 3 | (self.role as u8) << 2 | place as u8);
        let scopes = [local, remote].map(scope);
        let device = self.party.device.as_deref();
        let (is_sip, rest) = match device.and_then(|device| device.strip_prefix(SIP)) {
            Some(rest) => (true, rest),
            None => (false, device.or(self.party.peer.as_deref()).unwrap_or("")),
        };
        let flags = [
            (LOCAL_V6, local.is_ipv6()),
            (REMOTE_V6, remote.is_ipv6()),
            (CONNECTION, connection != 0),
            (SCOPES, scopes != [0; 2]),
            (DEVICE, device.is_some()),
            (DEVICE_SIP, is_sip),
            (PEER, device.is_none() && self.party.peer.is_some()),
            (WEB_SOCKET, transport.is_web_socket()),
        ];
        bytes.push(
            flags
                .iter()
                .filter(|(_, is_set)| *is_set)
                .map(|(flag, _)| flag)
                .sum(),
        );
        if nodes != 0 {
            bytes.extend_from_slice(&nodes.to_be_bytes());
        }
        put_address(local, bytes);
        put_address(remote, bytes);
        if connection != 0 {
            bytes.extend_from_slice(&connection.to_be_bytes());
        }
        if scopes != [0; 2] {
            scopes
                .iter()
                .for_each(|scope| bytes.extend_from_slice(&scope.to_be_bytes()));
        }
        bytes.extend_from_slice(rest.as_bytes());
    }

    /// `None` only for what this program never signs.
    fn take(payload: &[u8]) -> Option<Self> {
        let ([first, flags], mut rest) = payload.split_first_chunk::<2>()?;
        let has = |flag: u8| flags & flag != 0;
        let beneath = *TRANSPORTS.get(usize::from(first & 3))?;
        let nodes = match first >> 5 == VERSION_WITH_NODE {
            true => take_number(&mut rest)?,
            false => 0,
        };
        let (carrier, node) = ((nodes >> 16) as u16, nodes as u16);
        let mut local = take_address(&mut rest, has(LOCAL_V6))?;
        let mut remote = take_address(&mut rest, has(REMOTE_V6))?;
        let connection = match has(CONNECTION) {
            true => take_number(&mut rest)?,
            false => 0,
        };
        if has(SCOPES) {
            set_scope(&mut local, take_number(&mut rest)?);
            set_scope(&mut remote, take_number(&mut rest)?);
        }
        let text = std::str::from_utf8(rest).ok()?;
        let device = match (has(DEVICE), has(DEVICE_SIP)) {
            (true, true) => Some(Name::new(&[SIP, text].concat())),
            (true, false) => Some(Name::new(text)),
            (false, _) => None,
        };
        let peer = (device.is_none() && has(PEER)).then(|| Name::new(text));
        let role = Role::ALL[usize::from(first >> 2 & 1)];
        let flow = Flow {
            transport: match has(WEB_SOCKET) {
                true => beneath.with_web_socket(),
                false => beneath,
            },
            local,
            remote,
            connection,
            node,
        };
        Some(Self {
            role,
            party: Party { device, peer, flow },
            carrier,
        })
    }
}

fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

fn set_scope(address: &mut SocketAddr, scope: u32) {
    if let SocketAddr::V6(address) = address {
        *address = SocketAddrV6::new(*address.ip(), address.port(), 0, scope);
    }
}

fn put_address(address: SocketAddr, bytes: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => bytes.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
    }
    bytes.extend_from_slice(&address.port().to_be_bytes());
}

fn take_address(rest: &mut &[u8], is_v6: bool) -> Option<SocketAddr> {
    let ip = match is_v6 {
        true => IpAddr::from(*take::<16>(rest)?),
        false => IpAddr::from(*take::<4>(rest)?),
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*take::<2>(rest)?)))
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    take::<4>(rest).map(|octets| u32::from_be_bytes(*octets))
}

fn take<'a, const LEN: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; LEN]> {
    let (taken, left) = rest.split_first_chunk::<LEN>()?;
    *rest = left;
    Some(taken)
}

const VERSION: u8 = 1;
/// With the node that carries the call and that of the flow before its addresses.
const VERSION_WITH_NODE: u8 = 2;
const KEY_NUMBERS: u8 = 4;
const SIGNATURE_LEN: usize = 10;
const TRANSPORTS: [Transport; 3] = [Transport::Udp, Transport::Tcp, Transport::Tls];
const SIP: &str = "sip:";
const LOCAL_V6: u8 = 1;
const REMOTE_V6: u8 = 2;
const CONNECTION: u8 = 4;
const SCOPES: u8 = 8;
const DEVICE: u8 = 16;
const DEVICE_SIP: u8 = 32;
const PEER: u8 = 64;
const WEB_SOCKET: u8 = 128;
