//! The state machine of a connection, in virtual time and without sockets.

use busyhour::{
    buffer::{Buffer, BufferPool},
    clock::Instant,
};
use busyhour_server::net::{Connection, Ending, Heard, StreamPolicy};
use busyhour_sip::ParseError;
use proptest::prelude::*;
use std::time::Duration;

const FIRST: &str = "OPTIONS sip:a SIP/2.0\r\nl: 4\r\n\r\n\r\n\r\n";
const SECOND: &str = "SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n";

#[derive(Default)]
struct Ear {
    messages: Vec<Buffer>,
    pings: usize,
    broken: Option<(Buffer, ParseError)>,
}

impl Ear {
    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Message(message) => self.messages.push(message),
            Heard::Ping => self.pings += 1,
            Heard::Broken(bytes, error) => self.broken = Some((bytes, error)),
            Heard::Frame(event) => panic!("no WebSocket: {event:?}"),
        }
    }
}

fn buffers() -> BufferPool {
    BufferPool::builder().build().unwrap()
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn policy() -> StreamPolicy {
    StreamPolicy {
        idle: Duration::from_secs(100),
        stalled: Duration::from_secs(10),
        ..StreamPolicy::default()
    }
}

/// Delivers all the bytes, in pieces as large as the room at a time.
fn bring(
    connection: &mut Connection,
    buffers: &BufferPool,
    now: Instant,
    mut bytes: &[u8],
    ear: &mut Ear,
) {
    while !bytes.is_empty() {
        let room = connection.room(buffers).unwrap();
        let count = room.len().min(bytes.len());
        assert!(count > 0, "there is always some room");
        room[..count].copy_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        connection
            .filled(count, buffers, now, &mut |heard| ear.hear(heard))
            .unwrap();
    }
}

proptest! {
    #[test]
    fn a_stream_gives_the_same_messages_however_it_is_segmented(
        kinds in prop::collection::vec(0..4usize, 0..20),
        body_len in 0..5000usize,
        cuts in prop::collection::vec(1..700usize, 1..40),
    ) {
        let large = format!("NOTIFY sip:a SIP/2.0\r\nContent-Length: {body_len}\r\n\r\n{}", "x".repeat(body_len));
        let parts = [FIRST, SECOND, "\r\n\r\n", &large];
        let stream: String = kinds.iter().map(|kind| parts[*kind]).collect();
        let buffers = buffers();
        let (mut connection, mut ear) = (Connection::new(&policy(), at(0)), Ear::default());
        let (mut rest, mut cuts) = (stream.as_bytes(), cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            bring(&mut connection, &buffers, at(0), piece, &mut ear);
            rest = after;
        }
        let wanted: Vec<&str> = kinds.iter().filter(|kind| **kind != 2).map(|kind| parts[*kind]).collect();
        let heard: Vec<&[u8]> = ear.messages.iter().map(|message| &**message).collect();
        let wanted_bytes: Vec<&[u8]> = wanted.iter().map(|text| text.as_bytes()).collect();
        prop_assert_eq!(heard, wanted_bytes);
        prop_assert_eq!(ear.pings, kinds.iter().filter(|kind| **kind == 2).count());
        prop_assert!(ear.broken.is_none());
        drop(ear);
        prop_assert_eq!(buffers.live_count(), 0, "a connection that waits holds no memory");
    }

    #[test]
    fn any_bytes_are_bounded_and_never_panic(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 0..60),
    ) {
        let buffers = buffers();
        let (mut connection, mut ear) = (Connection::new(&policy(), at(0)), Ear::default());
        for piece in &pieces {
            bring(&mut connection, &buffers, at(0), piece, &mut ear);
            ear.messages.clear();
        }
        drop(ear);
        prop_assert!(buffers.live_count() <= 1);
    }
}

#[test]
fn messages_are_parts_of_the_buffer_they_landed_in() {
    let (buffers, mut ear) = (buffers(), Ear::default());
    let mut connection = Connection::new(&policy(), at(0));
    let stream = [FIRST, SECOND].concat();
    bring(
        &mut connection,
        &buffers,
        at(0),
        stream.as_bytes(),
        &mut ear,
    );
    let first = ear.messages[0].as_ptr_range();
    assert_eq!(
        first.end,
        ear.messages[1].as_ptr(),
        "the message is part of the buffer"
    );
    assert_eq!(buffers.live_count(), 1);
}

#[test]
fn the_first_message_and_each_complete_one_have_a_time_limit() {
    let (buffers, mut ear) = (buffers(), Ear::default());
    let mut connection = Connection::new(&policy(), at(0));
    assert_eq!(
        (connection.deadline(), connection.ending()),
        (at(10), Ending::Stalled)
    );
    for second in 1..9 {
        bring(&mut connection, &buffers, at(second), b"X", &mut ear);
        assert_eq!(
            connection.deadline(),
            at(10),
            "single bytes do not extend the time"
        );
    }
    let mut connection = Connection::new(&policy(), at(0));
    bring(
        &mut connection,
        &buffers,
        at(5),
        SECOND.as_bytes(),
        &mut ear,
    );
    assert_eq!(
        (connection.deadline(), connection.ending()),
        (at(105), Ending::Idle)
    );
    bring(&mut connection, &buffers, at(50), b"\r\n\r\n", &mut ear);
    assert_eq!(
        connection.deadline(),
        at(150),
        "a keep-alive extends the time of the connection"
    );
    bring(&mut connection, &buffers, at(60), b"OPTIONS", &mut ear);
    assert_eq!(
        (connection.deadline(), connection.ending()),
        (at(70), Ending::Stalled)
    );
    bring(&mut connection, &buffers, at(65), b" sip:a", &mut ear);
    assert_eq!(connection.deadline(), at(70));
}

#[test]
fn keep_alives_alone_do_not_make_a_connection_trusted() {
    let (buffers, mut ear) = (buffers(), Ear::default());
    let mut connection = Connection::new(&policy(), at(0));
    bring(&mut connection, &buffers, at(9), b"\r\n\r\n", &mut ear);
    assert_eq!((ear.pings, connection.deadline()), (1, at(10)));
}

#[test]
fn invalid_bytes_are_reported_once_and_the_rest_is_ignored() {
    let cases: [(&str, ParseError); 3] = [
        (
            "OPTIONS sip:a SIP/2.0\r\nVia: x\r\n\r\n",
            ParseError::Missing(busyhour_sip::HeaderName::ContentLength),
        ),
        ("GET / HTTP/1.1\r\n\r\n", ParseError::StartLine),
        (
            "OPTIONS sip:a SIP/2.0\r\nl: 70000\r\n\r\n",
            ParseError::TooLarge,
        ),
    ];
    for (bytes, wanted) in cases {
        let (buffers, mut ear) = (buffers(), Ear::default());
        let mut connection = Connection::new(&policy(), at(0));
        let stream = [FIRST, bytes].concat();
        bring(
            &mut connection,
            &buffers,
            at(0),
            stream.as_bytes(),
            &mut ear,
        );
        let (rest, error) = ear.broken.take().expect("an error");
        assert_eq!((&*rest, error), (bytes.as_bytes(), wanted));
        assert_eq!(ear.messages.len(), 1, "the messages before it count");
        assert_eq!(connection.ending(), Ending::Broken);
        bring(
            &mut connection,
            &buffers,
            at(1),
            SECOND.as_bytes(),
            &mut ear,
        );
        assert_eq!(ear.messages.len(), 1);
        assert!(ear.broken.is_none());
    }
}

#[test]
fn a_head_without_an_end_is_refused_at_the_limit() {
    let (buffers, mut ear) = (buffers(), Ear::default());
    let mut connection = Connection::new(&policy(), at(0));
    bring(&mut connection, &buffers, at(0), &[b'X'; 70_000], &mut ear);
    assert_eq!(
        ear.broken.map(|(_, error)| error),
        Some(ParseError::TooLarge)
    );
}

#[test]
fn a_lack_of_memory_is_reported() {
    let buffers = BufferPool::builder().budget_bytes(1 << 20).build().unwrap();
    let mut held = Vec::new();
    while let Ok(buffer) = buffers.copy_from(&[0; 2048]) {
        held.push(buffer);
    }
    let mut connection = Connection::new(&policy(), at(0));
    assert!(connection.room(&buffers).is_err());
    held.clear();
    assert!(connection.room(&buffers).is_ok());
}

#[test]
fn line_ends_after_a_message_do_not_delay_the_next_one() {
    let buffers = buffers();
    for rest in ["\r", "\r\n", "\r\n\r"] {
        let mut connection = Connection::new(&policy(), at(0));
        let mut ear = Ear::default();
        let bytes = format!("{SECOND}{rest}");
        bring(&mut connection, &buffers, at(1), bytes.as_bytes(), &mut ear);
        assert_eq!(ear.messages.len(), 1);
        assert_eq!(connection.deadline(), at(101), "{rest:?}");
        assert_eq!(connection.ending(), Ending::Idle);
        bring(&mut connection, &buffers, at(50), b"OPTI", &mut ear);
        assert_eq!(connection.ending(), Ending::Stalled);
        assert_eq!(connection.deadline(), at(60));
    }
}

#[test]
fn an_idle_connection_uses_no_buffer() {
    let buffers = buffers();
    let mut connection = Connection::new(&policy(), at(0));
    let mut ear = Ear::default();
    bring(
        &mut connection,
        &buffers,
        at(1),
        SECOND.as_bytes(),
        &mut ear,
    );
    ear.messages.clear();
    connection.room(&buffers).unwrap();
    connection.nothing_came();
    assert_eq!(buffers.live_count(), 0);
}
