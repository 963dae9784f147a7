//! Outbound (RFC 5626) and public GRUUs (RFC 5627), for devices that name their
//! instance and their flow.

use super::{Contact, Refusal, RequestedContact};
use busyhour_sip::{HeaderName, Message, Params, ParseError, Uri};
use std::time::Duration;

/// One flow of one device: the key of its binding in place of the contact URI
/// (RFC 5626 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowKey<'a> {
    /// The `+sip.instance` parameter, angle brackets included.
    pub instance: &'a str,
    /// The `reg-id` parameter.
    pub reg_id: u32,
}

/// What a REGISTER asks of the two extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extensions {
    /// Outbound applies to the registration, and the answer has `Require: outbound`.
    pub outbound: bool,
    /// It does, and there is no proxy in between, so we ask the device for keep-alives.
    pub is_direct: bool,
    /// The device knows GRUUs, and is told its own.
    pub gruu: bool,
}

impl<'a> FlowKey<'a> {
    /// The key in the parameters of a contact, if both halves are there.
    pub fn of(params: &Params<'a>) -> Option<Self> {
        let reg_id = params.value("reg-id")?.parse().ok()?;
        Some(Self {
            instance: params.value(INSTANCE)?,
            reg_id,
        })
        .filter(|key| key.reg_id > 0)
    }
}

impl Extensions {
    /// Reads what the headers ask for, beside what stands in the contacts.
    ///
    /// # Errors
    ///
    /// [`Refusal::FirstHopLacksOutbound`] when the first proxy on the way does
    /// not keep flows, [`Refusal::BadRequest`] when a contact that is to live
    /// has a [`FlowKey`] and is not the only such one, or Path is broken.
    pub(super) fn read(
        message: &Message<'_>,
        contacts: &[RequestedContact<'_>],
    ) -> Result<Self, Refusal> {
        let supports = |option| message.has_token(HeaderName::Supported, option);
        let has_key = |wish: &RequestedContact<'_>| wish.key.is_some();
        let outbound = contacts.iter().any(has_key) && supports(OUTBOUND);
        let is_direct = outbound && message.elements(HeaderName::Via).nth(1).is_none();
        if outbound && !keys_stand_alone(contacts) {
            return Err(Refusal::BadRequest(KEY_NOT_ALONE.into()));
        }
        if outbound && !is_direct && !first_hop_keeps_flows(message)? {
            return Err(Refusal::FirstHopLacksOutbound);
        }
        Ok(Self {
            outbound,
            is_direct,
            gruu: supports(GRUU),
        })
    }
}

impl Contact {
    /// The key of its binding, where the device gave one.
    pub fn flow_key(&self) -> Option<FlowKey<'_>> {
        FlowKey::of(&Params::parse(self.parameters())?)
    }

    /// The URN of the device (RFC 5626 §4.1), where it gave one.
    pub fn instance(&self) -> Option<&str> {
        let params = Params::parse(self.parameters())?;
        let instance = params.value(INSTANCE)?;
        instance.strip_prefix('<')?.strip_suffix('>')
    }

    /// Whether a registration of `newer` is one of this binding: of the same flow
    /// of the same device (RFC 5626 §6), else of an equal URI (RFC 3261 §10.3).
    pub(super) fn is_replaced_by(&self, newer: &Self) -> bool {
        if let Some(key) = newer.flow_key() {
            return self.flow_key() == Some(key);
        }
        let is_equal = || Uri::parse(newer.uri()).is_some_and(|uri| self.has_uri(&uri));
        self.uri() == newer.uri() || is_equal()
    }

    /// Whether its URI is equal to `wanted` (RFC 3261 §19.1.4).
    pub(super) fn has_uri(&self, wanted: &Uri<'_>) -> bool {
        Uri::parse(self.uri()).is_some_and(|uri| uri.matches(wanted))
    }

    /// The public GRUU of the device, without `sip:` headers or ports: its
    /// address of record `aor` with its instance (RFC 5627 §5.1). None without an
    /// instance that can stand in a URI.
    pub fn public_gruu(&self, aor: &str) -> Option<String> {
        let urn = self.instance()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.!~*'():".contains(&byte);
        let fits = !urn.is_empty() && urn.bytes().all(is_plain);
        fits.then(|| format!("{aor};gr={urn}"))
    }
}

/// A request may register only one flow; it may also remove other flows (RFC 5626 §6).
fn keys_stand_alone(contacts: &[RequestedContact<'_>]) -> bool {
    let mut living = contacts.iter().filter(|wish| wish.is_living());
    living.clone().count() < 2 || living.all(|wish| wish.key.is_none())
}

/// The first proxy added its Path first, below those of the later ones.
fn first_hop_keeps_flows(message: &Message<'_>) -> Result<bool, ParseError> {
    let last = message.addresses(HeaderName::Path).last().transpose()?;
    Ok(last.is_some_and(|path| {
        let uri = path.uri.as_sip();
        uri.is_some_and(|uri| uri.param("ob").is_some())
    }))
}

/// Seconds between keep-alives that a device is asked for: short enough for
/// the address translations in between (RFC 5626 §4.4.1).
pub const FLOW_TIMER_S: u32 = 120;
/// A flow of such a device has failed after this time of silence: the time that the
/// device was told, and some time for the network.
pub const SILENCE_MAX: Duration = Duration::from_secs(FLOW_TIMER_S as u64 + 10);
/// The option tag of RFC 5626.
pub(super) const OUTBOUND: &str = "outbound";
/// The option tag of RFC 5627.
pub(super) const GRUU: &str = "gruu";
const INSTANCE: &str = "+sip.instance";
const KEY_NOT_ALONE: &str = "Contact With reg-id Is Not The Only One";
