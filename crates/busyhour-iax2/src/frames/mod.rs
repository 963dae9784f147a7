//! IAX2 frames and information elements (RFC 5456), read in place.
//!
//! ```
//! use busyhour_iax2::frames::{Command, Element, ElementWriter, Elements, Frame, FullFrame, Kind};
//!
//! let mut elements = Vec::new();
//! ElementWriter::new(&mut elements).text(Element::Username, "alice").number16(Element::Refresh, 60);
//! let request = FullFrame {
//!     source_call: 7,
//!     kind: Kind::Iax(Command::RegisterRequest),
//!     payload: &elements,
//!     ..FullFrame::default()
//! };
//! let mut datagram = Vec::new();
//! request.write(&mut datagram);
//!
//! let Ok(Frame::Full(read)) = Frame::parse(&datagram) else { panic!("a full frame") };
//! assert_eq!(read, request);
//! let elements = Elements::parse(read.payload).expect("sound");
//! assert_eq!(elements.text(Element::Username), Some("alice"));
//! assert_eq!(elements.number(Element::Refresh), Some(60));
//! ```

mod codes;
mod command;
mod frame;
mod element;
mod address;
mod date;

pub use address::{apparent_address, put_apparent_address};
pub use command::{Command, Kind};
pub use date::DateTime;
pub use element::{Element, ElementIter, ElementWriter, Elements};
pub use frame::{Frame, FrameError, FullFrame};
