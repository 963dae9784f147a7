//! Messages in a stream, whatever its segments.

use busyhour_sip::{Frame, HeaderName, Limits, Message, ParseError};

const FIRST: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nl: 4\r\n\r\n\r\n\r\n";
const SECOND: &[u8] = b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";

/// All pieces of a stream that arrives in segments of `step` bytes.
fn pieces(stream: &[u8], step: usize) -> Vec<Frame> {
    let (mut received, mut frames) = (Vec::new(), Vec::new());
    for arrival in stream.chunks(step) {
        received.extend_from_slice(arrival);
        loop {
            let frame = Frame::first(&received, &Limits::default()).expect("sound");
            let length = match frame {
                Frame::Incomplete => break,
                Frame::KeepAlive { bytes, .. } | Frame::Message { bytes } => bytes,
            };
            received.drain(..length);
            frames.push(frame);
        }
    }
    assert!(received.is_empty());
    frames
}

#[test]
fn a_stream_gives_the_same_messages_for_any_segments() {
    let stream = [FIRST, b"\r\n\r\n", SECOND, FIRST].concat();
    let expected = [
        Frame::Message { bytes: FIRST.len() },
        Frame::KeepAlive {
            bytes: 4,
            is_ping: true,
        },
        Frame::Message {
            bytes: SECOND.len(),
        },
        Frame::Message { bytes: FIRST.len() },
    ];
    for step in 1..=stream.len() {
        assert_eq!(pieces(&stream, step), expected, "{step} bytes at a time");
    }
}

#[test]
fn a_single_line_end_is_a_pong() {
    let frame = Frame::first(b"\r\nSIP/2.0", &Limits::default());
    assert_eq!(
        frame,
        Ok(Frame::KeepAlive {
            bytes: 2,
            is_ping: false
        })
    );
    assert_eq!(
        Frame::first(b"\r\n\r", &Limits::default()),
        Ok(Frame::Incomplete)
    );
}

#[test]
fn a_stream_that_cannot_be_framed_is_an_error() {
    let judge = |stream: &[u8]| {
        Frame::first(
            stream,
            &Limits {
                message_bytes: 60,
                ..Limits::default()
            },
        )
    };
    let no_length = judge(b"OPTIONS sip:a SIP/2.0\r\nX: 1\r\n\r\n");
    assert_eq!(
        no_length,
        Err(ParseError::Missing(HeaderName::ContentLength))
    );
    assert!(judge(b"OPTIONS sip:a SIP/2.0\r\nl: x\r\n\r\n").is_err());
    assert_eq!(
        judge(b"OPTIONS sip:a SIP/2.0\r\nl: 99\r\n\r\n"),
        Err(ParseError::TooLarge)
    );
    assert_eq!(
        judge(b"OPTIONS sip:a SIP/2.0\r\nl: 99999999999999999999\r\n\r\n"),
        Err(ParseError::TooLarge)
    );
    assert_eq!(judge(&[b'x'; 61]), Err(ParseError::TooLarge));
    assert_eq!(judge(b"noise\r\n\r\n"), Err(ParseError::StartLine));
}

#[test]
fn a_framed_message_is_read_with_its_body() {
    let Ok(Frame::Message { bytes }) = Frame::first(FIRST, &Limits::default()) else {
        panic!("a message")
    };
    assert_eq!(
        Message::parse(&FIRST[..bytes]).map(|message| message.body()),
        Ok(&b"\r\n\r\n"[..])
    );
}
