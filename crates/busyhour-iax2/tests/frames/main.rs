//! IAX2 frames and elements against the layouts of RFC 5456.

#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;
mod properties;

use busyhour_iax2::frames::{
    Command, DateTime, Element, ElementWriter, Elements, Frame, FrameError, FullFrame, Kind,
};
use proptest::prelude::*;

/// A REGREQ as it is on the wire, octet by octet (RFC 5456 §8.1.1).
#[test]
fn a_register_request_octet_by_octet() {
    let wire = [
        0x80, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x00, 0x00, 0x06, 0x0d, 0x06, 0x03, b'b',
        b'o', b'b', 0x13, 0x02, 0x00, 0x3c,
    ];
    let Ok(Frame::Full(frame)) = Frame::parse(&wire) else {
        panic!("a full frame")
    };
    assert_eq!(
        (frame.source_call, frame.destination_call, frame.timestamp),
        (5, 0, 10)
    );
    assert_eq!(
        (frame.outbound, frame.inbound, frame.is_retransmitted),
        (0, 0, false)
    );
    assert_eq!(frame.kind, Kind::Iax(Command::RegisterRequest));
    let elements = Elements::parse(frame.payload).expect("sound");
    assert_eq!(elements.text(Element::Username), Some("bob"));
    assert_eq!(elements.number(Element::Refresh), Some(60));
    assert_eq!(elements.number(Element::Cause), None);
    let mut again = Vec::new();
    frame.write(&mut again);
    assert_eq!(again, wire);
}

#[test]
fn mini_and_meta_frames_are_distinguished() {
    let mini = Frame::parse(&[0x00, 0x07, 0x12, 0x34, 0xff]);
    assert_eq!(
        mini,
        Ok(Frame::Mini {
            source_call: 7,
            timestamp: 0x1234,
            payload: &[0xff]
        })
    );
    assert_eq!(Frame::parse(&[0x00, 0x00, 0x01]), Ok(Frame::Meta));
}

#[test]
fn every_shorter_datagram_is_refused() {
    let mut wire = Vec::new();
    FullFrame::default().write(&mut wire);
    assert_eq!(wire.len(), 12);
    for length in 0..12 {
        assert_eq!(
            Frame::parse(&wire[..length]),
            Err(FrameError::Truncated),
            "{length}"
        );
    }
    assert_eq!(
        Frame::parse(&[0x00, 0x07, 0x12]),
        Err(FrameError::Truncated)
    );
}

#[test]
fn truncated_elements_are_refused() {
    for broken in [&[0x06][..], &[0x06, 0x02, b'a'], &[0x06, 0x00, 0x13]] {
        assert_eq!(Elements::parse(broken), None, "{broken:?}");
    }
    let unknown = Elements::parse(&[0xfe, 0x01, 0x09]).expect("sound");
    assert_eq!(unknown.data(Element::Unknown(0xfe)), Some(&[9][..]));
}

#[test]
fn texts_are_cut_between_characters() {
    let mut payload = Vec::new();
    ElementWriter::new(&mut payload)
        .text(Element::Cause, &"é".repeat(200))
        .number8(Element::CauseCode, 3);
    let elements = Elements::parse(&payload).expect("sound");
    assert_eq!(elements.text(Element::Cause).map(str::len), Some(254));
    assert_eq!(elements.number(Element::CauseCode), Some(3));
}

#[test]
fn apparent_addresses_have_the_layout_that_implementations_use() {
    let mut payload = Vec::new();
    ElementWriter::new(&mut payload)
        .apparent_address("192.0.2.7:4569".parse().expect("an address"));
    assert_eq!(payload[..10], [0x12, 16, 2, 0, 0x11, 0xd9, 192, 0, 2, 7]);
    let mapped = "[::ffff:192.0.2.7]:4569".parse().expect("an address");
    let mut again = Vec::new();
    ElementWriter::new(&mut again).apparent_address(mapped);
    assert_eq!(again, payload);
    let mut broken = payload.clone();
    broken[2] = 7;
    assert_eq!(
        Elements::parse(&broken).and_then(|elements| elements.apparent_address()),
        None
    );
}

#[test]
fn dates_beyond_the_calendar_are_refused() {
    let noon = DateTime {
        year: 2026,
        month: 11,
        day: 21,
        hour: 12,
        minute: 30,
        second: 58,
    };
    assert_eq!(DateTime::from_wire(noon.to_wire()), Some(noon));
    assert_eq!(DateTime::from_wire(0), None);
    assert_eq!(DateTime::from_wire(u32::MAX), None);
    assert_eq!(
        DateTime::from_unix(0),
        DateTime {
            year: 2000,
            month: 1,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0
        }
    );
    assert_eq!(DateTime::from_unix(u64::MAX).year, 2127);
    let leap = DateTime::from_unix(1_709_164_800);
    assert_eq!((leap.year, leap.month, leap.day), (2024, 2, 29));
}

proptest! {
    #[test]
    fn the_shared_property_holds_for_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        properties::hold(&bytes);
    }

    #[test]
    fn any_elements_are_read_as_they_were_written(mut payload in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut bytes = Vec::new();
        FullFrame { payload: &payload, ..FullFrame::default() }.write(&mut bytes);
        properties::hold(&bytes);
        if let Some(length) = payload.get_mut(1) {
            *length %= 16;
        }
        let _ = Elements::parse(&payload).map(|elements| elements.iter().count());
    }

    #[test]
    fn a_date_is_read_as_it_was_written(seconds in 946_684_800u64..4_985_971_198) {
        let date = DateTime::from_unix(seconds);
        prop_assert_eq!(DateTime::from_wire(date.to_wire()), Some(date));
    }
}

#[test]
fn the_shared_property_holds_for_changed_seeds() {
    any_bytes::hold_for("iax2_frame", 50_000, properties::hold);
}
