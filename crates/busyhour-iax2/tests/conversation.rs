//! A registration as the device sees it, with the numbers of each frame, and the
//! counters.

use busyhour::clock::{Instant, UnixTime};
use busyhour_iax2::{
    Actions, Calls, Credentials, Keys, Login, Policy, Request, RequestKind, RequestOutcome,
    frames::{Command, Element, ElementWriter, Elements, Frame, FullFrame, Kind},
};
use busyhour_registrar::Now;
use busyhour_sip::Flow;
use std::{net::SocketAddr, time::Duration};

/// The table of calls, with one device.
struct Line {
    calls: Calls,
    now: Instant,
    out: Actions,
    requests: Vec<Request>,
    flow: Flow,
}

impl Line {
    fn new() -> Self {
        Self {
            calls: Calls::new(Keys::new([5; 32]), 0, Policy::default()),
            now: Instant::ZERO,
            out: Actions::default(),
            requests: Vec::new(),
            flow: flow(7),
        }
    }

    /// Gives the table a frame and returns its answers. Each password counts as
    /// right.
    fn give(&mut self, frame: &FullFrame<'_>) -> Vec<Box<[u8]>> {
        let mut datagram = Vec::new();
        frame.write(&mut datagram);
        let accept = |_: &Credentials<'_>| Login::Accepted;
        let at = self.moment();
        self.calls
            .receive(at, self.flow, &datagram, &accept, &mut self.out);
        self.requests.extend(self.out.take_requests());
        self.hear()
    }

    /// As `give`, for exactly one answer.
    fn ask(&mut self, frame: &FullFrame<'_>) -> Box<[u8]> {
        let mut answers = self.give(frame);
        assert_eq!(answers.len(), 1, "{answers:02x?}");
        answers.remove(0)
    }

    fn hear(&mut self) -> Vec<Box<[u8]>> {
        let frames = self.out.take_frames().into_iter();
        frames.map(|(_, datagram)| datagram).collect()
    }

    fn moment(&self) -> Now {
        let unix = UnixTime::from_secs(1_800_000_000);
        Now {
            now: self.now,
            unix,
            steady: unix,
        }
    }

    /// The elements of a first frame with the call token that the server has sent.
    fn vouched(&mut self) -> Vec<u8> {
        let answer = self.ask(&hello(&first(&[])));
        let elements = Elements::parse(frame(&answer).payload).expect("sound");
        first(elements.data(Element::CallToken).expect("a token"))
    }

    /// Lets the call go on until REGAUTH; returns it.
    fn challenged(&mut self) -> Box<[u8]> {
        let elements = self.vouched();
        self.ask(&hello(&elements))
    }
}

fn flow(device: u8) -> Flow {
    let address = |host| SocketAddr::from(([192, 0, 2, host], 4569));
    Flow::udp(address(1), address(device))
}

fn frame(datagram: &[u8]) -> FullFrame<'_> {
    match Frame::parse(datagram) {
        Ok(Frame::Full(frame)) => frame,
        other => panic!("{other:?}"),
    }
}

/// The frame without its elements.
fn head(datagram: &[u8]) -> FullFrame<'static> {
    let FullFrame {
        source_call,
        destination_call,
        is_retransmitted,
        timestamp,
        outbound,
        inbound,
        kind,
        payload: _,
    } = frame(datagram);
    FullFrame {
        source_call,
        destination_call,
        is_retransmitted,
        timestamp,
        outbound,
        inbound,
        kind,
        payload: &[],
    }
}

fn first(token: &[u8]) -> Vec<u8> {
    let mut elements = Vec::new();
    ElementWriter::new(&mut elements)
        .text(Element::Username, "alice")
        .data(Element::CallToken, token);
    elements
}

fn hello(elements: &[u8]) -> FullFrame<'_> {
    FullFrame {
        source_call: 9,
        timestamp: 3,
        kind: Kind::Iax(Command::RegisterRequest),
        payload: elements,
        ..FullFrame::default()
    }
}

/// The header of an answer of the server.
fn answer(
    ours: u16,
    timestamp: u32,
    (outbound, inbound): (u8, u8),
    command: Command,
) -> FullFrame<'static> {
    FullFrame {
        source_call: ours,
        destination_call: 9,
        timestamp,
        outbound,
        inbound,
        kind: Kind::Iax(command),
        ..FullFrame::default()
    }
}

/// A frame of the device in the server's call.
fn talk(ours: u16, command: Command, outbound: u8, inbound: u8) -> FullFrame<'static> {
    FullFrame {
        source_call: 9,
        destination_call: ours,
        timestamp: 700,
        outbound,
        inbound,
        kind: Kind::Iax(command),
        ..FullFrame::default()
    }
}

#[test]
fn each_answer_has_the_numbers_of_its_call() {
    let mut line = Line::new();
    let opening = line.vouched();
    let regauth = line.ask(&hello(&opening));
    let ours = frame(&regauth).source_call;
    assert!(ours > 1, "1 is of what belongs to no call");
    let of_call = |timestamp, outbound, inbound, command| {
        answer(ours, timestamp, (outbound, inbound), command)
    };
    assert_eq!(head(&regauth), of_call(0, 0, 1, Command::RegisterAuth));
    let elements = Elements::parse(frame(&regauth).payload).expect("sound");
    assert_eq!(elements.text(Element::Username), Some("alice"));
    assert_eq!(line.calls.stats().call_count, 1);

    line.now = line.now + Duration::from_millis(250);
    let proof = talk(ours, Command::RegisterRequest, 1, 1);
    assert!(line.give(&proof).is_empty());
    let request = line.requests.remove(0);
    let verdict = RequestOutcome::Registered {
        refresh_s: 60,
        message_count: None,
    };
    let at = line.moment();
    (line.calls).conclude(at, &request.call, &verdict, &mut line.out);
    let regack = line.hear().remove(0);
    assert_eq!(head(&regack), of_call(250, 1, 2, Command::RegisterAck));

    // The device has not acknowledged REGACK, so the call stays, and REGACK is
    // retransmitted.
    let again = FullFrame {
        is_retransmitted: true,
        ..of_call(250, 1, 2, Command::RegisterAck)
    };
    assert_eq!(head(&line.ask(&proof)), again);
    assert_eq!(line.calls.stats().call_count, 1);
    let before = line.calls.stats().retransmitted;
    assert_eq!(head(&line.ask(&talk(ours, Command::VoiceNak, 2, 1))), again);
    assert_eq!(line.calls.stats().retransmitted, before + 1);

    assert!(line.give(&talk(ours, Command::Ack, 2, 2)).is_empty());
    let stats = line.calls.stats();
    let counted = (stats.call_count, stats.record_count, stats.completed);
    assert_eq!(counted, (0, 1, 1));
    let late = line.ask(&proof);
    assert_eq!(head(&late), of_call(700, 2, 2, Command::Ack));
    let late = line.ask(&hello(&opening));
    assert_eq!(head(&late), of_call(3, 2, 2, Command::Ack));
    let stray = line.ask(&talk(77, Command::LagRequest, 5, 6));
    let invalid = FullFrame {
        source_call: 77,
        ..of_call(700, 6, 5, Command::Invalid)
    };
    assert_eq!(head(&stray), invalid);
    let stats = line.calls.stats();
    assert_eq!((stats.late_duplicates, stats.invalid_sent), (2, 1));
    assert!(line.give(&talk(77, Command::Ack, 5, 6)).is_empty());
    assert_eq!(line.calls.stats().stray, 1);
}

#[test]
fn a_call_answers_frames_that_are_no_registration_too() {
    let mut line = Line::new();
    let regauth = line.challenged();
    let ours = frame(&regauth).source_call;
    let mut number = 0;
    for (command, reply) in [
        (Command::LagRequest, Command::LagReply),
        (Command::Ping, Command::Pong),
        (Command::Unknown(77), Command::Unsupported),
    ] {
        number += 1;
        let heard = line.ask(&talk(ours, command, number, number));
        let expected = answer(ours, 700, (number, number + 1), reply);
        assert_eq!(head(&heard), expected);
        let elements = Elements::parse(frame(&heard).payload).expect("sound");
        let unknown = (reply == Command::Unsupported).then_some(77);
        assert_eq!(elements.number(Element::IaxUnknown), unknown);
    }
    let media = FullFrame {
        kind: Kind::Other {
            frame_type: 2,
            subclass: 4,
        },
        ..talk(ours, Command::Ping, 4, 4)
    };
    let ack = answer(ours, 700, (4, 5), Command::Ack);
    assert_eq!(head(&line.ask(&media)), ack);
    assert_eq!(head(&line.ask(&media)), ack, "it is sent once more");
    line.now = line.now + Duration::from_millis(40);
    let early = line.ask(&talk(ours, Command::Ping, 9, 4));
    assert_eq!(head(&early), answer(ours, 40, (4, 5), Command::VoiceNak));
    let hangup = line.ask(&talk(ours, Command::Hangup, 5, 4));
    assert_eq!(head(&hangup), answer(ours, 700, (4, 6), Command::Ack));
    let stats = line.calls.stats();
    let asked = (stats.lag_requests, stats.pokes, stats.unsupported);
    assert_eq!(asked, (1, 1, 1));
    let frames = (stats.media, stats.duplicates, stats.vnaks_sent);
    assert_eq!(frames, (1, 1, 1));
    assert_eq!((stats.aborted, stats.call_count), (1, 0));
}

#[test]
fn records_of_ended_calls_are_removed() {
    let mut line = Line::new();
    line.calls = Calls::new(
        Keys::new([5; 32]),
        0,
        Policy {
            records_max: 1,
            ..Policy::default()
        },
    );
    for call in [9, 10] {
        let elements = line.vouched();
        let opening = FullFrame {
            source_call: call,
            ..hello(&elements)
        };
        let ours = frame(&line.ask(&opening)).source_call;
        let hangup = FullFrame {
            source_call: call,
            ..talk(ours, Command::Hangup, 1, 1)
        };
        line.ask(&hangup);
    }
    let stats = line.calls.stats();
    assert_eq!((stats.aborted, stats.record_count), (2, 1));
    assert_eq!(stats.records_evicted, 1);
}

#[test]
fn an_answer_outside_of_a_call_has_the_number_of_no_call() {
    let mut line = Line::new();
    let of_none = |command| FullFrame {
        source_call: 1,
        destination_call: 9,
        timestamp: 3,
        inbound: 1,
        kind: Kind::Iax(command),
        ..FullFrame::default()
    };
    let token = line.ask(&hello(&first(&[])));
    assert_eq!(head(&token), of_none(Command::CallToken));
    let nameless = line.ask(&hello(&[]));
    assert_eq!(head(&nameless), of_none(Command::RegisterReject));
    let mut name = Vec::new();
    ElementWriter::new(&mut name).text(Element::Username, "alice");
    let missing = line.ask(&hello(&name));
    assert_eq!(head(&missing), of_none(Command::RegisterReject));
    for (command, answer) in [
        (Command::Poke, Command::Pong),
        (Command::New, Command::Reject),
        (Command::Unknown(77), Command::Unsupported),
    ] {
        let kind = Kind::Iax(command);
        let heard = line.ask(&FullFrame { kind, ..hello(&[]) });
        assert_eq!(head(&heard), of_none(answer));
    }
    let malformed = hello(&[1, 200]);
    assert!(line.give(&malformed).is_empty());
    assert!(line.give(&talk(0, Command::Pong, 0, 0)).is_empty());
    let stats = line.calls.stats();
    let refused = (stats.nameless, stats.tokens_missing, stats.malformed);
    assert_eq!(refused, (1, 1, 1));
    assert_eq!((stats.pokes, stats.unsupported, stats.stray), (1, 2, 1));
    assert_eq!((stats.tokens_issued, stats.sent), (1, 6));
    let media = FullFrame {
        kind: Kind::Other {
            frame_type: 2,
            subclass: 4,
        },
        ..hello(&[])
    };
    assert!(line.give(&media).is_empty());
    assert_eq!(line.calls.stats().media, 1);
}

#[test]
fn a_silent_device_is_reported_once_and_gets_four_retransmissions() {
    let mut line = Line::new();
    let regauth = line.challenged();
    let before = line.calls.stats().sent;
    assert_eq!(line.out.take_challenged(), [(flow(7), "alice".into())]);
    while line.calls.stats().timed_out == 0 {
        line.now = line.calls.next_deadline().expect("the call continues");
        line.calls.expire(line.now, &mut line.out);
        assert_eq!(line.out.take_challenged(), []);
    }
    let heard = line.hear();
    for datagram in &heard {
        let again = FullFrame {
            is_retransmitted: true,
            ..head(&regauth)
        };
        assert_eq!(head(datagram), again);
        assert_eq!(frame(datagram).payload, frame(&regauth).payload);
    }
    let stats = line.calls.stats();
    let counted = (heard.len(), stats.retransmitted, stats.sent);
    assert_eq!(counted, (4, 4, before + 4));
    assert_eq!((stats.timed_out, stats.call_count), (1, 0));
}

#[test]
fn a_device_unregisters_and_outcomes_are_counted() {
    let (refused, later) = (("Registration Refused", 29), ("Try Again Later", 41));
    for (verdict, expected) in [
        (RequestOutcome::Released, None),
        (RequestOutcome::Forbidden, Some(refused)),
        (RequestOutcome::Failed, Some(later)),
    ] {
        let (command, counted) = match expected {
            None => (Command::RegisterAck, (1, 0)),
            Some(_) => (Command::RegisterReject, (0, 1)),
        };
        let mut line = Line::new();
        let elements = line.vouched();
        let release = FullFrame {
            kind: Kind::Iax(Command::RegisterRelease),
            ..hello(&elements)
        };
        let ours = frame(&line.ask(&release)).source_call;
        assert!(
            line.give(&talk(ours, Command::RegisterRelease, 1, 1))
                .is_empty()
        );
        let request = line.requests.remove(0);
        assert_eq!(request.wish, RequestKind::Release);
        let at = line.moment();
        (line.calls).conclude(at, &request.call, &verdict, &mut line.out);
        let heard = line.hear().remove(0);
        assert_eq!(head(&heard), answer(ours, 0, (1, 2), command));
        let elements = Elements::parse(frame(&heard).payload).expect("sound");
        assert_eq!(elements.number(Element::Refresh), None);
        let cause = (elements.text(Element::Cause)).zip(elements.number(Element::CauseCode));
        assert_eq!(cause, expected);
        let stats = line.calls.stats();
        assert_eq!((stats.accepted, stats.rejected), counted);
        assert_eq!(stats.sent, 3, "a token, a challenge and this");
        // A late frame has no effect.
        (line.calls).conclude(at, &request.call, &verdict, &mut line.out);
        assert!(line.hear().is_empty());
    }
}

#[test]
fn a_token_is_valid_only_at_its_address_and_with_the_servers_key() {
    let mut line = Line::new();
    let elements = line.vouched();
    line.flow = flow(8);
    let elsewhere = line.ask(&hello(&elements));
    assert_eq!(head(&elsewhere).kind, Kind::Iax(Command::CallToken));
    line.flow = flow(7);
    line.calls = Calls::new(Keys::new([6; 32]), 0, Policy::default());
    let other_key = line.ask(&hello(&elements));
    assert_eq!(head(&other_key).kind, Kind::Iax(Command::CallToken));
    assert_eq!(line.calls.stats().tokens_refused, 1);
}

#[test]
fn the_servers_call_numbers_use_the_whole_range() {
    let mut line = Line::new();
    let mut highest = 0;
    for _ in 0..64 {
        highest = highest.max(frame(&line.challenged()).source_call);
    }
    assert!(highest > 0x4000, "{highest}, with a chance of 2 to the -64");
    assert_eq!(line.calls.stats().replaced, 63);
}

#[test]
fn a_token_is_valid_for_ten_seconds() {
    let mut line = Line::new();
    let answer = line.ask(&hello(&first(&[])));
    let elements = Elements::parse(frame(&answer).payload).expect("sound");
    let token = elements.data(Element::CallToken).expect("a token");
    line.now = line.now + Duration::from_millis(10_001);
    let refused = line.ask(&hello(&first(token)));
    assert_eq!(head(&refused).kind, Kind::Iax(Command::CallToken));
    let stats = line.calls.stats();
    assert_eq!((stats.tokens_refused, stats.tokens_issued), (1, 2));
}
