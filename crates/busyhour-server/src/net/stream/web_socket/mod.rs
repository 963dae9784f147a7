//! SIP over WebSocket (RFC 7118), as bytes in and out: the HTTP request that opens it, its
//! frames, and who may open one.
//!
//! One message of a WebSocket is one message of SIP. It lands in the room of its connection like
//! any other; the frames are taken off and the mask is undone where it lies, and the fragments of
//! a message are moved together. The library `tungstenite` reads the request and the heads of
//! frames; it would own a buffer of 128 KiB and the socket if it also read messages.
//!
//! **Bounds.** A message has at most the bytes of [`Limits`](busyhour_sip::Limits) and
//! [`FRAGMENTS_MAX`](frames::FRAGMENTS_MAX) fragments, and as much time as on any connection; the
//! HTTP request has 8 KiB. What is beyond ends the WebSocket with the code of RFC 6455 §7.4.1
//! that says why.

mod close_code;
mod frame_head;
mod frames;
mod origins;
mod upgrade;

pub use close_code::CloseCode;
pub(super) use frame_head::FrameHead;
pub use frames::FrameEvent;
pub(super) use frames::FrameReader;
pub use origins::{NotOrigins, Origins};
