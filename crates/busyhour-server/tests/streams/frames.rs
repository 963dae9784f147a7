//! The state machine of a WebSocket, in virtual time and without sockets. The frames are written
//! by a client's library.

use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
};
use busyhour_server::net::{CloseCode, Connection, Ending, FrameEvent, Heard, StreamPolicy};
use proptest::prelude::*;
use std::time::Duration;
use tungstenite::protocol::frame::{
    FrameHeader,
    coding::{Control, Data, OpCode},
};

const MESSAGE: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nCall-ID: \xc3\xa4\r\n\r\n";
const REQUEST: &str = "GET /sip HTTP/1.1\r\nHost: sip.example.org:8088\r\nUpgrade: websocket\r\n\
    Connection: keep-alive, Upgrade\r\nOrigin: https://sip.example.org\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: chat, sip\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

/// One WebSocket, and what it brought.
struct Ear {
    connection: Connection,
    buffers: BufferPool,
    now: Instant,
    messages: Vec<Buffer>,
    pings: usize,
    events: Vec<FrameEvent>,
}

impl Ear {
    fn new() -> Self {
        let policy = StreamPolicy {
            idle: Duration::from_secs(1000),
            stalled: Duration::from_secs(10),
            unanswered: Duration::from_secs(5),
            web_socket_ping: Some(Duration::from_secs(30)),
            ..StreamPolicy::default()
        };
        Self {
            connection: Connection::web_socket(&policy, Instant::ZERO),
            buffers: BufferPool::builder().build().unwrap(),
            now: Instant::ZERO,
            messages: Vec::new(),
            pings: 0,
            events: Vec::new(),
        }
    }

    fn open() -> Self {
        let mut ear = Self::new();
        ear.bring(REQUEST.as_bytes());
        assert!(matches!(ear.events[..], [FrameEvent::Opened(_)]));
        ear.events.clear();
        ear
    }

    fn bring(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.connection.room(&self.buffers).unwrap();
            let count = room.len().min(bytes.len());
            assert!(count > 0, "there is always some room");
            room[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            let Self {
                connection,
                buffers,
                now,
                messages,
                pings,
                events,
            } = self;
            let heard = &mut |heard| match heard {
                Heard::Message(message) => messages.push(message),
                Heard::Ping => *pings += 1,
                Heard::Frame(event) => events.push(event),
                Heard::Broken(..) => panic!("frames have a length"),
            };
            connection.filled(count, buffers, *now, heard).unwrap();
        }
    }

    fn texts(&self) -> Vec<Vec<u8>> {
        self.messages
            .iter()
            .map(|message| message.to_vec())
            .collect()
    }
}

/// A frame as a client sends it.
fn frame(opcode: OpCode, is_final: bool, body: &[u8]) -> Vec<u8> {
    masked(
        FrameHeader {
            is_final,
            opcode,
            mask: Some([7, 99, 0, 250]),
            ..FrameHeader::default()
        },
        body,
    )
}

fn masked(header: FrameHeader, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut body = body.to_vec();
    let mask = header.mask.unwrap_or_default();
    header.format(body.len() as u64, &mut bytes).unwrap();
    let each = body.iter_mut().zip(mask.into_iter().cycle());
    each.for_each(|(byte, mask)| *byte ^= mask);
    bytes.extend(body);
    bytes
}

fn text(body: &[u8]) -> Vec<u8> {
    frame(OpCode::Data(Data::Text), true, body)
}

fn control(kind: Control, body: &[u8]) -> Vec<u8> {
    frame(OpCode::Control(kind), true, body)
}

/// A message in so many frames.
fn fragments(body: &[u8], count: usize) -> Vec<Vec<u8>> {
    let size = body.len().div_ceil(count).max(1);
    let chunks: Vec<&[u8]> = body.chunks(size).collect();
    let last = chunks.len() - 1;
    let pieces = chunks.iter().enumerate().map(|(place, chunk)| {
        let kind = if place == 0 {
            Data::Text
        } else {
            Data::Continue
        };
        frame(OpCode::Data(kind), place == last, chunk)
    });
    pieces.collect()
}

#[test]
fn the_request_of_a_browser_opens_it_and_says_sip() {
    let mut ear = Ear::new();
    ear.bring(REQUEST.as_bytes());
    let [FrameEvent::Opened(answer)] = &ear.events[..] else {
        panic!("{:?}", ear.events);
    };
    let answer = String::from_utf8_lossy(answer).to_lowercase();
    assert!(answer.starts_with("http/1.1 101 "), "{answer}");
    // The example of RFC 6455 §1.3.
    assert!(answer.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"));
    assert!(answer.contains("sec-websocket-protocol: sip\r\n"));
    assert!(answer.ends_with("\r\n\r\n"));
}

#[test]
fn a_request_that_is_none_is_refused_with_the_reason() {
    for (from, to, status, reason) in [
        ("chat, sip", "chat", "400", "offer sip"),
        ("GET ", "POST ", "426", "over WebSocket"),
        ("Upgrade: websocket\r\n", "", "426", "over WebSocket"),
        ("Version: 13", "Version: 8", "426", "13"),
        ("https://sip.", "https://evil.", "403", "sip.ws_origins"),
        ("HTTP/1.1", "HTTP/9.9", "400", "HTTP/1.1"),
        ("Sec-WebSocket-Key", "X", "400", ""),
    ] {
        let mut ear = Ear::new();
        ear.bring(REQUEST.replace(from, to).as_bytes());
        let [FrameEvent::Refused(answer)] = &ear.events[..] else {
            panic!("{from}: {:?}", ear.events);
        };
        let answer = String::from_utf8_lossy(answer);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.contains(reason), "{answer}");
        ear.bring(&text(MESSAGE));
        assert!(ear.messages.is_empty(), "nothing more is read");
        assert_eq!(ear.connection.ending(), Ending::Broken);
    }
    let mut ear = Ear::new();
    ear.bring(b"GET / HTTP/1.1\r\n");
    ear.bring(&b"Cookie: a\r\n".repeat(1000));
    assert!(matches!(&ear.events[..], [FrameEvent::Refused(_)]));
}

#[test]
fn bytes_against_the_protocol_close_it_with_the_code_that_says_why() {
    let data = |kind| OpCode::Data(kind);
    let plain = |opcode| FrameHeader {
        opcode,
        mask: Some([1, 2, 3, 4]),
        ..FrameHeader::default()
    };
    let too_long = FrameHeader {
        mask: Some([0; 4]),
        ..plain(data(Data::Text))
    };
    let mut announced = Vec::new();
    too_long.format(u64::MAX, &mut announced).unwrap();
    for (bytes, code) in [
        (
            masked(
                FrameHeader {
                    mask: None,
                    ..plain(data(Data::Text))
                },
                MESSAGE,
            ),
            CloseCode::Protocol,
        ),
        (
            masked(
                FrameHeader {
                    rsv1: true,
                    ..plain(data(Data::Text))
                },
                MESSAGE,
            ),
            CloseCode::Protocol,
        ),
        (
            frame(data(Data::Continue), true, MESSAGE),
            CloseCode::Protocol,
        ),
        (
            [frame(data(Data::Text), false, MESSAGE), text(MESSAGE)].concat(),
            CloseCode::Protocol,
        ),
        (control(Control::Ping, &[0; 126]), CloseCode::Protocol),
        (
            frame(OpCode::Control(Control::Ping), false, b""),
            CloseCode::Protocol,
        ),
        (vec![0x83, 0x80, 0, 0, 0, 0], CloseCode::Protocol),
        (
            text(b"OPTIONS sip:\xff SIP/2.0\r\n\r\n"),
            CloseCode::NotText,
        ),
        (announced, CloseCode::TooBig),
        (
            [
                frame(data(Data::Text), false, &[b'a'; 65_000]),
                frame(data(Data::Continue), true, &[b'a'; 536]),
            ]
            .concat(),
            CloseCode::TooBig,
        ),
        (
            frame(data(Data::Text), false, b"")
                .into_iter()
                .chain(frame(data(Data::Continue), false, b"").repeat(300))
                .collect(),
            CloseCode::TooBig,
        ),
    ] {
        let mut ear = Ear::open();
        ear.bring(&text(MESSAGE));
        ear.bring(&bytes);
        assert_eq!(ear.events, [FrameEvent::Broken(code)]);
        ear.bring(&text(MESSAGE));
        assert_eq!(ear.texts(), [MESSAGE], "nothing more is read");
    }
}

#[test]
fn a_close_is_said_back_and_a_bad_code_is_not() {
    for (body, code) in [
        (&b""[..], 1000),
        (&b"\x03\xe9away"[..], 1001),
        (&b"\x0f\xa0"[..], 4000),
        (&b"\x03\xed"[..], 1002),
        (&b"\x03"[..], 1002),
        (&b"\x03\xe8\xff"[..], 1002),
    ] {
        let mut ear = Ear::open();
        ear.bring(&[text(MESSAGE), control(Control::Close, body)].concat());
        let [FrameEvent::Closed(answer)] = ear.events[..] else {
            panic!("{:?}", ear.events);
        };
        assert_eq!(answer.number(), code);
        assert_eq!(ear.texts(), [MESSAGE]);
        assert_eq!(ear.connection.ending(), Ending::ByPeer);
        assert_eq!(ear.connection.held_bytes(), 0);
    }
}

#[test]
fn binary_messages_need_not_be_text() {
    let mut ear = Ear::open();
    let body = b"OPTIONS sip:\xff SIP/2.0\r\n\r\n";
    ear.bring(&frame(OpCode::Data(Data::Binary), true, body));
    assert_eq!(ear.texts(), [body]);
}

#[test]
fn a_silent_websocket_is_pinged_and_ends_without_an_answer() {
    let mut ear = Ear::open();
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    assert_eq!(ear.connection.deadline(), at(10), "the first message");
    assert!(!ear.connection.wants_ping(at(30)));
    ear.bring(&text(MESSAGE));
    assert_eq!(ear.connection.deadline(), at(30));
    assert!(!ear.connection.wants_ping(at(29)));
    assert!(ear.connection.wants_ping(at(30)));
    assert!(!ear.connection.wants_ping(at(30)), "one at a time");
    assert_eq!(ear.connection.deadline(), at(35));
    ear.now = at(31);
    ear.bring(&control(Control::Pong, b""));
    assert_eq!(ear.events, [FrameEvent::Pong]);
    assert_eq!(ear.connection.deadline(), at(61));
    // A client that was told to send something within two minutes need not: it answers pings.
    assert_eq!(
        ear.connection.deadline_within(Duration::from_secs(130)),
        at(61)
    );
    assert_eq!(ear.connection.ending(), Ending::Idle);
}

#[test]
fn line_ends_are_keep_alives_and_no_messages() {
    let mut ear = Ear::open();
    ear.bring(&[text(b"\r\n\r\n"), text(b"\r\n"), text(b""), text(MESSAGE)].concat());
    assert_eq!((ear.pings, ear.texts()), (1, vec![MESSAGE.to_vec()]));
    assert!(ear.events.is_empty());
}

proptest! {
    #[test]
    fn frames_give_the_same_messages_however_they_are_fragmented_and_segmented(
        parts in prop::collection::vec((0..4usize, 1..9usize, 0..6000usize), 0..16),
        cuts in prop::collection::vec(1..700usize, 1..40),
    ) {
        let mut stream = REQUEST.as_bytes().to_vec();
        let (mut messages, mut pings) = (Vec::new(), Vec::new());
        for (kind, count, len) in parts {
            let body = [MESSAGE, "é".repeat(len / 2).as_bytes()].concat();
            match kind {
                0 => stream.extend(text(MESSAGE)),
                1 => {
                    let ping = vec![count as u8; len % 126];
                    stream.extend(control(Control::Ping, &ping));
                    pings.push(ping);
                }
                _ => {
                    // Pings may come between fragments (RFC 6455 §5.4).
                    for fragment in fragments(&body, count) {
                        stream.extend(fragment);
                        if kind == 3 {
                            stream.extend(control(Control::Ping, b"between"));
                            pings.push(b"between".to_vec());
                        }
                    }
                }
            }
            match kind {
                0 => messages.push(MESSAGE.to_vec()),
                1 => {}
                _ => messages.push(body),
            }
        }
        let mut ear = Ear::new();
        let (mut rest, mut cuts) = (&stream[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            ear.bring(now);
            rest = later;
        }
        prop_assert_eq!(ear.texts(), messages);
        let heard = ear.events.iter().filter_map(|event| match event {
            FrameEvent::Ping(body) => Some(body.clone()),
            _ => None,
        });
        prop_assert_eq!(heard.collect::<Vec<_>>(), pings);
        ear.messages.clear();
        prop_assert_eq!(ear.connection.held_bytes(), 0);
        prop_assert_eq!(ear.buffers.live_count(), 0);
    }

    #[test]
    fn any_bytes_end_or_are_read_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
        is_open in any::<bool>(),
    ) {
        let mut ear = if is_open { Ear::open() } else { Ear::new() };
        ear.bring(&bytes);
        prop_assert!(ear.connection.held_bytes() <= 4 * bytes.len().max(2048));
    }
}
