//! Answers that belong to no call, so they are neither stored nor retransmitted.

use super::Actions;
use super::keys::STATELESS_CALL;
use crate::frames::{Command, Element, ElementWriter, FullFrame, Kind};
use busyhour_sip::Flow;

/// Answers `frame` for a call that never was, with `payload`.
pub(super) fn stateless(
    flow: Flow,
    frame: &FullFrame<'_>,
    command: Command,
    payload: &[u8],
    out: &mut Actions,
) {
    let answer = FullFrame {
        source_call: STATELESS_CALL,
        destination_call: frame.source_call,
        timestamp: frame.timestamp,
        inbound: frame.outbound.wrapping_add(1),
        kind: Kind::Iax(command),
        payload,
        ..FullFrame::default()
    };
    out.send(flow, |bytes| answer.write(bytes));
}

/// Tells a device that its call does not exist.
pub(super) fn invalid(flow: Flow, frame: &FullFrame<'_>, out: &mut Actions) {
    let answer = mirrored(frame, Command::Invalid);
    out.send(flow, |bytes| answer.write(bytes));
}

/// Acknowledges a frame of a call that is over: numbers as they were at its end.
pub(super) fn acknowledge_late(
    flow: Flow,
    frame: &FullFrame<'_>,
    (our_call, outbound, inbound): (u16, u8, u8),
    out: &mut Actions,
) {
    let answer = FullFrame {
        source_call: our_call,
        outbound,
        inbound,
        ..mirrored(frame, Command::Ack)
    };
    out.send(flow, |bytes| answer.write(bytes));
}

/// The elements of a REGREJ or REJECT.
pub(super) fn cause(text: &str, code: u8) -> Vec<u8> {
    let mut elements = Vec::with_capacity(text.len() + 5);
    ElementWriter::new(&mut elements)
        .text(Element::Cause, text)
        .number8(Element::CauseCode, code);
    elements
}

/// The elements of an UNSUPPORT.
pub(super) fn unknown(command: Command) -> Vec<u8> {
    let mut elements = Vec::with_capacity(3);
    ElementWriter::new(&mut elements).number8(Element::IaxUnknown, command.code());
    elements
}

fn mirrored(frame: &FullFrame<'_>, command: Command) -> FullFrame<'static> {
    FullFrame {
        source_call: frame.destination_call,
        destination_call: frame.source_call,
        timestamp: frame.timestamp,
        outbound: frame.inbound,
        inbound: frame.outbound,
        kind: Kind::Iax(command),
        ..FullFrame::default()
    }
}

/// Values of CAUSECODE (RFC 5456 §8.6).
pub(super) mod code {
    pub const FACILITY_REJECTED: u8 = 29;
    pub const TEMPORARY_FAILURE: u8 = 41;
}
