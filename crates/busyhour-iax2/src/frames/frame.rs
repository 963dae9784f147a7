//! Frames (RFC 5456 §8.1).

use super::{Command, Kind};
use busyhour_sip::Output;

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Reliable and numbered.
    Full(FullFrame<'a>),
    /// Media between two full frames.
    Mini {
        /// The sender's call, 15 bits and not 0.
        source_call: u16,
        /// The low half of the time stamp, in milliseconds.
        timestamp: u16,
        /// Media.
        payload: &'a [u8],
    },
    /// Trunked media or video, which a registrar does not need.
    Meta,
}

/// A full frame: twelve octets and its information elements or media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullFrame<'a> {
    /// The sender's number of the call, 15 bits.
    pub source_call: u16,
    /// The receiver's number of the call, 15 bits; 0 while it is not known.
    pub destination_call: u16,
    /// Sent before.
    pub is_retransmitted: bool,
    /// Milliseconds since the call's first frame.
    pub timestamp: u32,
    /// This frame's number.
    pub outbound: u8,
    /// The number the sender expects next.
    pub inbound: u8,
    /// Type and subclass.
    pub kind: Kind,
    /// What follows the header.
    pub payload: &'a [u8],
}

/// Why a datagram is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Shorter than the header it begins.
    #[error("frame cut short")]
    Truncated,
}

impl<'a> Frame<'a> {
    /// Reads one datagram.
    ///
    /// # Errors
    /// When it is shorter than its header.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, FrameError> {
        let (first, rest) = take_u16(datagram).ok_or(FrameError::Truncated)?;
        match (first & FLAG != 0, first & CALL) {
            (true, source_call) => FullFrame::parse(source_call, rest).map(Self::Full),
            (false, 0) => Ok(Self::Meta),
            (false, source_call) => {
                let (timestamp, payload) = take_u16(rest).ok_or(FrameError::Truncated)?;
                Ok(Self::Mini {
                    source_call,
                    timestamp,
                    payload,
                })
            }
        }
    }
}

impl<'a> FullFrame<'a> {
    /// Appends the frame. Call numbers are cut to 15 bits.
    pub fn write(&self, out: &mut impl Output) {
        let retransmitted = if self.is_retransmitted { FLAG } else { 0 };
        out.put(&(self.source_call & CALL | FLAG).to_be_bytes());
        out.put(&(self.destination_call & CALL | retransmitted).to_be_bytes());
        out.put(&self.timestamp.to_be_bytes());
        out.put(&[self.outbound, self.inbound]);
        out.put(&self.kind.octets());
        out.put(self.payload);
    }

    fn parse(source_call: u16, rest: &'a [u8]) -> Result<Self, FrameError> {
        let (header, payload) = rest
            .split_first_chunk::<10>()
            .ok_or(FrameError::Truncated)?;
        let [
            d0,
            d1,
            t0,
            t1,
            t2,
            t3,
            outbound,
            inbound,
            frame_type,
            subclass,
        ] = *header;
        let destination = u16::from_be_bytes([d0, d1]);
        Ok(Self {
            source_call,
            destination_call: destination & CALL,
            is_retransmitted: destination & FLAG != 0,
            timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
            outbound,
            inbound,
            kind: Kind::new(frame_type, subclass),
            payload,
        })
    }
}

impl Default for FullFrame<'_> {
    /// An ACK without numbers, to be filled in.
    fn default() -> Self {
        Self {
            source_call: 0,
            destination_call: 0,
            is_retransmitted: false,
            timestamp: 0,
            outbound: 0,
            inbound: 0,
            kind: Kind::Iax(Command::Ack),
            payload: &[],
        }
    }
}

fn take_u16(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<2>()?;
    Some((u16::from_be_bytes(*first), rest))
}

/// The `F` bit of the first number, the `R` bit of the second.
const FLAG: u16 = 0x8000;
const CALL: u16 = 0x7fff;
