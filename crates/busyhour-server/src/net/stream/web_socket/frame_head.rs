use super::CloseCode;
use tungstenite::protocol::frame::{
    FrameHeader,
    coding::{Control, Data, OpCode},
};

/// What goes out in front of a message: the head of its frame, or nothing where messages are
/// sent as they are. A frame without a body of its own is all head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameHead {
    bytes: [u8; HEAD_LEN_MAX],
    len: u8,
}

impl FrameHead {
    /// In front of a message of SIP: a text if it is one, else binary (RFC 7118 §4.2).
    pub fn message(message: &[u8]) -> Self {
        let kind = match std::str::from_utf8(message) {
            Ok(_) => Data::Text,
            Err(_) => Data::Binary,
        };
        Self::of(OpCode::Data(kind), message.len())
    }

    /// A ping without a body.
    pub fn ping() -> Self {
        Self::of(OpCode::Control(Control::Ping), 0)
    }

    /// In front of what the other side's ping had in it.
    pub fn pong(body: &[u8]) -> Self {
        Self::of(OpCode::Control(Control::Pong), body.len())
    }

    /// The whole frame that closes.
    pub fn close(code: CloseCode) -> Self {
        let number = code.number().to_be_bytes();
        let mut head = Self::of(OpCode::Control(Control::Close), number.len());
        let begin = usize::from(head.len);
        head.bytes[begin..begin + number.len()].copy_from_slice(&number);
        head.len += number.len() as u8;
        head
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn of(opcode: OpCode, body_len: usize) -> Self {
        let header = FrameHeader {
            opcode,
            ..FrameHeader::default()
        };
        let mut bytes = [0; HEAD_LEN_MAX];
        let mut left = &mut bytes[..];
        // There is room for every head without a mask.
        let _ = header.format(body_len as u64, &mut left);
        let len = (HEAD_LEN_MAX - left.len()) as u8;
        Self { bytes, len }
    }
}

/// Two bytes, and eight for the longest length (RFC 6455 §5.2); a server does not mask.
const HEAD_LEN_MAX: usize = 10;
