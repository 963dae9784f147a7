//! A registration as the device hears it, with each number of each frame, and what is
//! counted of it.

use busyhour::clock::{Instant, UnixTime};
use busyhour_iax2::{
    Actions, Calls, Credentials, Keys, Login, Policy, Request, RequestOutcome,
    frames::{Command, Element, ElementWriter, Elements, Frame, FullFrame, Kind},
};
use busyhour_registrar::Now;
use busyhour_sip::Flow;
use std::{net::SocketAddr, time::Duration};

/// The table, and its only device.
struct Line {
    calls: Calls,
    now: Instant,
    out: Actions,
    requests: Vec<Request>,
}

impl Line {
    fn new() -> Self {
        Self {
            calls: Calls::new(Keys::new([5; 32]), 0, Policy::default()),
            now: Instant::ZERO,
            out: Actions::default(),
            requests: Vec::new(),
        }
    }

    /// The answers to a frame. Each password is right.
    fn give(&mut self, frame: &FullFrame<'_>) -> Vec<Box<[u8]>> {
        let mut datagram = Vec::new();
        frame.write(&mut datagram);
        let accept = |_: &Credentials<'_>| Login::Accepted;
        let at = self.moment();
        self.calls
            .receive(at, flow(), &datagram, &accept, &mut self.out);
        self.requests.extend(self.out.take_requests());
        self.hear()
    }

    /// The same where one answer is expected.
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

    /// REGREQ with the token that comes for one without; up to the challenge.
    fn challenged(&mut self) -> Box<[u8]> {
        let answer = self.ask(&hello(&first(&[])));
        let elements = Elements::parse(frame(&answer).payload).expect("sound");
        let token = elements.data(Element::CallToken).expect("a token");
        self.ask(&hello(&first(token)))
    }
}

fn flow() -> Flow {
    let address = |host| SocketAddr::from(([192, 0, 2, host], 4569));
    Flow::udp(address(1), address(7))
}

fn frame(datagram: &[u8]) -> FullFrame<'_> {
    match Frame::parse(datagram) {
        Ok(Frame::Full(frame)) => frame,
        other => panic!("{other:?}"),
    }
}

/// Everything but the elements.
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

/// A frame of the device's to our call.
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
fn each_answer_bears_the_numbers_of_its_call() {
    let mut line = Line::new();
    let regauth = line.challenged();
    let ours = frame(&regauth).source_call;
    assert!(ours > 1, "1 is of what belongs to no call");
    let of_call = |timestamp, outbound, inbound, command| FullFrame {
        source_call: ours,
        destination_call: 9,
        timestamp,
        outbound,
        inbound,
        kind: Kind::Iax(command),
        ..FullFrame::default()
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

    // It has not said that it has REGACK: the call lasts, and REGACK comes again.
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
    let stray = line.ask(&talk(77, Command::LagRequest, 5, 6));
    let invalid = FullFrame {
        source_call: 77,
        ..of_call(700, 6, 5, Command::Invalid)
    };
    assert_eq!(head(&stray), invalid);
    let stats = line.calls.stats();
    assert_eq!((stats.late_duplicates, stats.invalid_sent), (1, 1));
    assert!(line.give(&talk(77, Command::Ack, 5, 6)).is_empty());
    assert_eq!(line.calls.stats().stray, 1);
}

#[test]
fn an_answer_to_no_call_has_the_number_of_none() {
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
}

#[test]
fn a_device_that_is_silent_is_asked_four_times_more_and_then_named() {
    let mut line = Line::new();
    let regauth = line.challenged();
    let before = line.calls.stats().sent;
    let mut unanswered = Vec::new();
    while unanswered.is_empty() {
        line.now = line.calls.next_deadline().expect("the call lasts");
        line.calls.expire(line.now, &mut line.out);
        unanswered = line.out.take_unanswered();
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
    assert_eq!(unanswered, [(flow(), "alice".into())]);
    let stats = line.calls.stats();
    let counted = (heard.len(), stats.retransmitted, stats.sent);
    assert_eq!(counted, (4, 4, before + 4));
    assert_eq!((stats.timed_out, stats.call_count), (1, 0));
}

#[test]
fn a_token_is_good_for_ten_seconds() {
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
