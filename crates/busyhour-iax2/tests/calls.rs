//! The table of calls with arbitrary frames, and with more calls than there are
//! call numbers.

use busyhour::clock::{Instant, UnixTime};
use busyhour_iax2::{
    Actions, Calls, Credentials, Keys, Login, Policy, Request, RequestOutcome,
    frames::{Command, Element, ElementWriter, Elements, Frame, FullFrame, Kind},
};
use busyhour_registrar::Now;
use busyhour_sip::{Flow, auth::challenge_response};
use proptest::prelude::*;
use std::{collections::HashMap, net::SocketAddr, time::Duration};

/// What devices, unknown senders and the registrar may do.
#[derive(Debug, Clone)]
enum Operation {
    /// A first frame, without a token or with the last token for this address.
    Open {
        source: u8,
        call: u16,
        has_token: bool,
        is_release: bool,
    },
    /// Any frame of a call, to the server's number of it or to another one.
    Talk {
        source: u8,
        call: u16,
        to_ours: bool,
        outbound: u8,
        inbound: u8,
        subclass: u8,
        proves: bool,
    },
    /// Any octets.
    Noise(u8, Vec<u8>),
    /// The registrar's answer to the oldest request.
    Conclude(u8),
    /// Time advances.
    Wait(u16),
}

/// The table, and what its devices have received from it.
struct Table {
    calls: Calls,
    now: Instant,
    out: Actions,
    tokens: HashMap<u8, Vec<u8>>,
    ours: HashMap<(u8, u16), (u16, String)>,
    requests: Vec<Request>,
}

impl Table {
    fn new(policy: Policy) -> Self {
        Self {
            calls: Calls::new(Keys::new([5; 32]), 0, policy),
            now: Instant::ZERO,
            out: Actions::default(),
            tokens: HashMap::new(),
            ours: HashMap::new(),
            requests: Vec::new(),
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Open {
                source,
                call,
                has_token,
                is_release,
            } => {
                self.open(*source, *call, *has_token, *is_release);
            }
            Operation::Talk {
                source,
                call,
                to_ours,
                outbound,
                inbound,
                subclass,
                proves,
            } => {
                let ours = self.ours.get(&(*source, *call)).cloned();
                let (number, challenge) = ours.unwrap_or((77, String::new()));
                let mut elements = Vec::new();
                if *proves {
                    let result = challenge_response(&challenge, "wonder");
                    ElementWriter::new(&mut elements).data(Element::Md5Result, result.as_bytes());
                }
                let frame = FullFrame {
                    source_call: *call,
                    destination_call: if *to_ours { number } else { 78 },
                    outbound: *outbound,
                    inbound: *inbound,
                    kind: Kind::Iax(Command::new(*subclass)),
                    payload: &elements,
                    ..FullFrame::default()
                };
                self.give(*source, &frame);
            }
            Operation::Noise(source, octets) => self.receive(*source, octets),
            Operation::Conclude(verdict) => self.conclude(*verdict),
            Operation::Wait(millis) => self.wait(u64::from(*millis)),
        }
    }

    fn open(&mut self, source: u8, call: u16, has_token: bool, is_release: bool) {
        let token = self.tokens.get(&source).filter(|_| has_token);
        let token = token.cloned().unwrap_or_default();
        let mut elements = Vec::new();
        ElementWriter::new(&mut elements)
            .text(Element::Username, "alice")
            .data(Element::CallToken, &token);
        let command = match is_release {
            true => Command::RegisterRelease,
            false => Command::RegisterRequest,
        };
        let frame = FullFrame {
            source_call: call,
            kind: Kind::Iax(command),
            payload: &elements,
            ..FullFrame::default()
        };
        self.give(source, &frame);
    }

    fn give(&mut self, source: u8, frame: &FullFrame<'_>) {
        let mut datagram = Vec::new();
        frame.write(&mut datagram);
        self.receive(source, &datagram);
    }

    fn receive(&mut self, source: u8, datagram: &[u8]) {
        let before = self.calls.stats();
        let knows = |device: &Credentials<'_>| match device
            .proves(&challenge_response(device.challenge, "wonder"))
        {
            true => Login::Accepted,
            false => Login::Refused,
        };
        let (at, flow) = (self.moment(), flow(source));
        self.calls
            .receive(at, flow, datagram, &knows, &mut self.out);
        let sent: usize = self.hear();
        if before.call_count == 0 && self.calls.stats().call_count == 0 {
            assert!(
                sent < 3 * datagram.len().max(12),
                "{sent} octets to an unknown address"
            );
        }
    }

    fn conclude(&mut self, verdict: u8) {
        if self.requests.is_empty() {
            return;
        }
        let request = self.requests.remove(0);
        let verdict = match verdict % 4 {
            0 => RequestOutcome::Registered {
                refresh_s: 60,
                message_count: None,
            },
            1 => RequestOutcome::Released,
            2 => RequestOutcome::Forbidden,
            _ => RequestOutcome::Failed,
        };
        let at = self.moment();
        self.calls
            .conclude(at, &request.call, &verdict, &mut self.out);
        self.hear();
    }

    /// Advances the time; alarms go off when they are due.
    fn wait(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        while let Some(deadline) = self.calls.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(deadline);
            self.calls.expire(self.now, &mut self.out);
            self.hear();
            assert!(
                self.calls
                    .next_deadline()
                    .is_none_or(|next| next > self.now)
            );
        }
        self.now = end;
    }

    /// Receives what was sent and checks that each frame is valid; returns the number
    /// of octets.
    fn hear(&mut self) -> usize {
        self.requests.extend(self.out.take_requests());
        let frames = self.out.take_frames();
        for (flow, datagram) in &frames {
            let Ok(Frame::Full(frame)) = Frame::parse(datagram) else {
                panic!("no full frame: {datagram:02x?}");
            };
            let elements = Elements::parse(frame.payload).expect("valid elements");
            let source = source_of(flow.remote);
            if let Some(token) = elements.data(Element::CallToken) {
                self.tokens.insert(source, token.to_vec());
            }
            if let Some(challenge) = elements.text(Element::Challenge) {
                let ours = (frame.source_call, challenge.to_owned());
                self.ours.insert((source, frame.destination_call), ours);
            }
        }
        frames.iter().map(|(_, datagram)| datagram.len()).sum()
    }

    fn moment(&self) -> Now {
        Now {
            now: self.now,
            unix: UnixTime::from_secs(1_800_000_000),
            steady: UnixTime::from_secs(1_800_000_000),
        }
    }
}

fn flow(source: u8) -> Flow {
    Flow::udp(
        SocketAddr::from(([192, 0, 2, 1], 4569)),
        SocketAddr::from(([10, 0, 0, source], 4569)),
    )
}

fn source_of(address: SocketAddr) -> u8 {
    match address {
        SocketAddr::V4(address) => address.ip().octets()[3],
        SocketAddr::V6(_) => panic!("no such source"),
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let open = (0..3u8, 1..4u16, any::<bool>(), any::<bool>());
    let open = open.prop_map(|(source, call, has_token, is_release)| Operation::Open {
        source,
        call,
        has_token,
        is_release,
    });
    let place = (0..3u8, 1..4u16, prop::bool::weighted(0.9), 0..4u8, 0..4u8);
    let what = (
        prop_oneof![4 => 1..18u8, 1 => any::<u8>()],
        prop::bool::weighted(0.7),
    );
    let talk = (place, what).prop_map(|(place, (subclass, proves))| {
        let (source, call, to_ours, outbound, inbound) = place;
        Operation::Talk {
            source,
            call,
            to_ours,
            outbound,
            inbound,
            subclass,
            proves,
        }
    });
    let noise = (0..3u8, prop::collection::vec(any::<u8>(), 0..40));
    prop_oneof![
        4 => open,
        6 => talk,
        1 => noise.prop_map(|(source, octets)| Operation::Noise(source, octets)),
        3 => any::<u8>().prop_map(Operation::Conclude),
        2 => (0..6000u16).prop_map(Operation::Wait),
    ]
}

proptest! {
    #[test]
    fn any_frames_leave_a_valid_and_bounded_table(
        operations in prop::collection::vec(operation(), 1..200)
    ) {
        let policy = Policy {
            calls_max: 6,
            calls_per_source_max: 2,
            records_max: 4,
            ..Policy::default()
        };
        let mut table = Table::new(policy);
        for operation in &operations {
            table.apply(operation);
            let stats = table.calls.stats();
            prop_assert!(stats.call_count <= 6 && stats.record_count <= 4, "{:?}", stats);
            let ended = stats.completed + stats.timed_out + stats.aborted + stats.replaced;
            prop_assert_eq!(stats.opened, ended + stats.call_count);
        }
        table.wait(60_000);
        let stats = table.calls.stats();
        prop_assert_eq!((stats.call_count, stats.record_count), (0, 0));
        prop_assert_eq!(table.calls.next_deadline(), None);
    }
}

/// This would be impossible if the table reserved each number for a minute
/// after its call.
#[test]
fn call_numbers_do_not_limit_registrations_per_second() {
    let mut table = Table::new(Policy {
        records_max: 100_000,
        ..Policy::default()
    });
    for round in 0..40_000u32 {
        let call = (round % 100) as u16 + 1;
        table.open(1, call, false, false);
        table.open(1, call, true, false);
        for (outbound, command) in [(1, Command::RegisterRequest), (2, Command::Ack)] {
            table.apply(&Operation::Talk {
                source: 1,
                call,
                to_ours: true,
                outbound,
                inbound: outbound,
                subclass: command.code(),
                proves: true,
            });
            table.conclude(0);
        }
        if round % 1_000 == 999 {
            table.wait(25);
        }
    }
    let stats = table.calls.stats();
    assert_eq!(
        (stats.accepted, stats.completed),
        (40_000, 40_000),
        "all of them in one second"
    );
    assert_eq!((stats.call_count, stats.record_count), (0, 100));
}

#[test]
fn tables_with_one_key_give_each_call_another_challenge() {
    let challenges = |number: u16| {
        let mut table = Table::new(Policy::default());
        table.calls = Calls::new(Keys::new([5; 32]), number, Policy::default());
        for call in [1, 2] {
            table.open(1, call, false, false);
            table.open(1, call, true, false);
        }
        [1, 2].map(|call| table.ours[&(1, call)].1.clone())
    };
    let mut all = [challenges(0), challenges(1)].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 4);
}
