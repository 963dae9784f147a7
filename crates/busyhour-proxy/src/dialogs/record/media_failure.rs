//! Why the two sides of a call did not hear each other, as far as a proxy can know it.

/// Why the media of a call could not flow.
///
/// ```
/// use busyhour_proxy::dialogs::MediaFailure;
///
/// assert_eq!(MediaFailure::SenderBehindNat.as_str(), "sender-behind-nat");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaFailure {
    /// A browser offered DTLS-SRTP with ICE to somebody who has only RTP.
    WebToPlain,
    /// The other way round.
    PlainToWeb,
    /// Who offered has a private address for the media behind NAT.
    SenderBehindNat,
    /// Who got the offer is at a private address behind NAT.
    RecipientBehindNat,
    /// One is in a private network, and the other is not in one.
    NoCommonNetwork,
    /// One has IPv4 and the other IPv6.
    OtherFamily,
    /// No media relay took the call that needed one.
    RelayFailed,
}

impl MediaFailure {
    /// Its name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WebToPlain => "web-to-plain",
            Self::PlainToWeb => "plain-to-web",
            Self::SenderBehindNat => "sender-behind-nat",
            Self::RecipientBehindNat => "recipient-behind-nat",
            Self::NoCommonNetwork => "no-common-network",
            Self::OtherFamily => "other-family",
            Self::RelayFailed => "relay-failed",
        }
    }
}
