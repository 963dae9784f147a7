/// Why a WebSocket is closed (RFC 6455 §7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCode {
    /// It has done what it was for; the answer to a close without a code.
    Normal,
    /// The server ends, or ends what is silent.
    GoingAway,
    /// The other side broke the protocol.
    Protocol,
    /// A text is not UTF-8.
    NotText,
    /// It holds more than its share.
    Policy,
    /// A message is larger than any message of SIP may be.
    TooBig,
    /// There is no room now.
    TryAgain,
    /// The code with which the other side closed: it is said back (RFC 6455 §5.5.1).
    Theirs(u16),
}

impl CloseCode {
    /// As it stands in the frame.
    pub fn number(self) -> u16 {
        match self {
            Self::Normal => 1000,
            Self::GoingAway => 1001,
            Self::Protocol => 1002,
            Self::NotText => 1007,
            Self::Policy => 1008,
            Self::TooBig => 1009,
            Self::TryAgain => 1013,
            Self::Theirs(number) => number,
        }
    }

    /// What answers a close frame with this payload.
    pub(super) fn answering(payload: &[u8]) -> Self {
        match payload {
            [] => Self::Normal,
            [high, low, reason @ ..] => {
                let number = u16::from_be_bytes([*high, *low]);
                match is_sendable(number) && std::str::from_utf8(reason).is_ok() {
                    true => Self::Theirs(number),
                    false => Self::Protocol,
                }
            }
            _ => Self::Protocol,
        }
    }
}

/// Whether a frame may bear this code (RFC 6455 §7.4).
fn is_sendable(number: u16) -> bool {
    matches!(number, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
