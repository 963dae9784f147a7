//! The registrar's side of IAX2 (RFC 5456): calls, pure.
//!
//! A registration is a short call of its own:
//!
//! ```text
//! device                                     Calls                    server
//!   │ REGREQ, call token empty                 │                         │
//!   │ ───────────────────────────────────────► │  nothing is kept        │
//!   │ ◄─────────────────────────────────────── │  CALLTOKEN              │
//!   │ REGREQ, with the token                   │                         │
//!   │ ───────────────────────────────────────► │  a call begins          │
//!   │ ◄─────────────────────────────────────── │  REGAUTH, a challenge   │
//!   │ REGREQ, with the MD5 result              │                         │
//!   │ ───────────────────────────────────────► │ ── Request ───────────► │ committed
//!   │ ◄─────────────────────────────────────── │ ◄─ conclude ─────────── │
//!   │ ACK                            REGACK    │                         │
//!   │ ───────────────────────────────────────► │  a record stays         │
//! ```
//!
//! [`Calls`] takes the time and datagrams, and gives datagrams and requests
//! ([`Actions`]); it owns no socket, clock or thread. What RFC 5456 §7 wants of
//! reliable frames is in [`Calls`] whole: numbers, acknowledgements, duplicates,
//! VNAK, retransmission.
//!
//! **Nothing is kept for a stranger.** A call token is signed, not stored, so a
//! forged source address costs no memory, and gets less than three times the
//! octets it sent, unless call tokens are optional: then a forged one costs a
//! call, within its limits, and gets what is sent again to a silent device.
//!
//! **Call numbers are not used up.** A call is known by both addresses and the
//! device's number; ours only has to fit. So a call that is over can be
//! forgotten at once, but for a [`RECORD_LIFE`] a compact record answers late
//! duplicates: 15 bits of call numbers set no limit on registrations a second.
//!
//! ```
//! use busyhour::clock::{Instant, UnixTime};
//! use busyhour_sip::{auth::challenge_response, Flow};
//! use busyhour_server::{iax2::{Actions, Calls, Credentials, Keys, Login, Policy, RequestOutcome}, proto::iax2::{Command, Element, ElementWriter, Elements, Frame, FullFrame, Kind}};
//! use busyhour_registrar::Now;
//!
//! let mut calls = Calls::new(Keys::new([7; 32]), 0, Policy::default());
//! let unix = UnixTime::from_secs(1_800_000_000);
//! let at = Now { now: Instant::ZERO, unix, steady: unix };
//! let flow = Flow::udp("192.0.2.1:4569".parse()?, "192.0.2.7:4569".parse()?);
//! let knows = |device: &Credentials<'_>| {
//!     let expected = challenge_response(device.challenge, "wonder");
//!     match device.username == "alice" && device.proves(&expected) {
//!         true => Login::Accepted,
//!         false => Login::Refused,
//!     }
//! };
//! let mut actions = Actions::default();
//!
//! // The device's frame number `number`, as a datagram.
//! let regreq = |to: u16, number: u8, element: Element, data: &[u8]| {
//!     let mut elements = Vec::new();
//!     ElementWriter::new(&mut elements).text(Element::Username, "alice").data(element, data);
//!     let mut datagram = Vec::new();
//!     FullFrame {
//!         source_call: 5,
//!         destination_call: to,
//!         outbound: number,
//!         inbound: number,
//!         kind: Kind::Iax(Command::RegisterRequest),
//!         payload: &elements,
//!         ..FullFrame::default()
//!     }
//!     .write(&mut datagram);
//!     datagram
//! };
//! // Gives a datagram to the calls; returns our number and an element of the answer.
//! let mut answered = |datagram: &[u8], element: Element| {
//!     calls.receive(at, flow, datagram, &knows, &mut actions);
//!     let frames = actions.take_frames();
//!     let Ok(Frame::Full(answer)) = Frame::parse(&frames[0].1) else { panic!("a full frame") };
//!     let elements = Elements::parse(answer.payload).expect("sound");
//!     (answer.source_call, elements.data(element).map(<[u8]>::to_vec))
//! };
//! let (_, token) = answered(&regreq(0, 0, Element::CallToken, b""), Element::CallToken);
//! let with_token = regreq(0, 0, Element::CallToken, &token.unwrap());
//! let (ours, challenge) = answered(&with_token, Element::Challenge);
//! let result = challenge_response(std::str::from_utf8(&challenge.unwrap())?, "wonder");
//! let last = regreq(ours, 1, Element::Md5Result, result.as_bytes());
//! calls.receive(at, flow, &last, &knows, &mut actions);
//!
//! // Now the registrar is asked; what it says goes to the device.
//! let request = actions.take_requests().remove(0);
//! assert_eq!(&*request.username, "alice");
//! calls.conclude(at, &request.call, &RequestOutcome::Registered { refresh_s: 60, message_count: None }, &mut actions);
//! let frames = actions.take_frames();
//! let Ok(Frame::Full(regack)) = Frame::parse(&frames[0].1) else { panic!("a full frame") };
//! assert_eq!(regack.kind, Kind::Iax(Command::RegisterAck));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod policy;
mod keys;
mod request;
mod actions;
mod stats;
mod reply;
mod sources;
mod records;
mod outstanding;
mod call;
mod calls;
mod opening;
mod talking;

pub use actions::Actions;
pub use calls::Calls;
pub use keys::Keys;
pub use policy::{CallTokens, Policy};
pub use records::RECORD_LIFE;
pub use request::{CallId, Credentials, Login, Request, RequestKind, RequestOutcome};
pub use stats::Iax2Stats;
