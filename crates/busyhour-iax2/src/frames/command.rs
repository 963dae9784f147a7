//! What a full frame is for: its type and subclass (RFC 5456 §8.2 – §8.4).

use super::codes::codes;

/// Frame type and subclass together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Type 6: an IAX control message.
    Iax(Command),
    /// Any other type: media, DTMF, call control, …
    Other {
        /// The frame type.
        frame_type: u8,
        /// The subclass as on the wire, its `C` bit included.
        subclass: u8,
    },
}

codes! {
    /// The subclass of an IAX frame.
    Command:
    New = 0x01 "NEW";
    Ping = 0x02 "PING";
    Pong = 0x03 "PONG";
    Ack = 0x04 "ACK";
    Hangup = 0x05 "HANGUP";
    Reject = 0x06 "REJECT";
    Accept = 0x07 "ACCEPT";
    AuthRequest = 0x08 "AUTHREQ";
    AuthReply = 0x09 "AUTHREP";
    Invalid = 0x0a "INVAL";
    LagRequest = 0x0b "LAGRQ";
    LagReply = 0x0c "LAGRP";
    RegisterRequest = 0x0d "REGREQ";
    RegisterAuth = 0x0e "REGAUTH";
    RegisterAck = 0x0f "REGACK";
    RegisterReject = 0x10 "REGREJ";
    RegisterRelease = 0x11 "REGREL";
    VoiceNak = 0x12 "VNAK";
    Poke = 0x1e "POKE";
    MessageWaiting = 0x20 "MWI";
    Unsupported = 0x21 "UNSUPPORT";
    CallToken = 0x28 "CALLTOKEN";
}

impl Command {
    /// Whether the receiver counts it in its sequence number. ACK, INVAL and
    /// VNAK, and the frames outside of any call, are not counted (RFC 5456 §7).
    pub const fn is_sequenced(self) -> bool {
        !matches!(
            self,
            Self::Ack | Self::Invalid | Self::VoiceNak | Self::CallToken
        )
    }
}

impl Kind {
    /// Reads the two octets.
    pub const fn new(frame_type: u8, subclass: u8) -> Self {
        match frame_type {
            IAX => Self::Iax(Command::new(subclass)),
            _ => Self::Other {
                frame_type,
                subclass,
            },
        }
    }

    /// The two octets on the wire.
    pub const fn octets(self) -> [u8; 2] {
        match self {
            Self::Iax(command) => [IAX, command.code()],
            Self::Other {
                frame_type,
                subclass,
            } => [frame_type, subclass],
        }
    }
}

const IAX: u8 = 6;
