//! The stream of changes for other programs: what a change says, in which order changes
//! are told, and who reads them.
//!
//! Each part of the server that has changes publishes records on a topic of its own: devices,
//! mailboxes, hints, calls. While somebody reads, these topics are forwarded to one, whose
//! only subscriber numbers the records, keeps the last ones, and publishes them for the
//! readers. So all readers see one order, and a number stands for a place in it.
//!
//! While nobody reads, a part only loads one flag, and no record is made. After the last
//! reader has left, the stream goes on for [`LINGER`](changes::LINGER), so that a reader that
//! comes back misses nothing. The first reader after that makes every part tell its state,
//! in steps on the serializer of the numbering, which fills the cache of last values.
//!
//! [`record`] and [`history`] are pure.

pub(in crate::server) mod element;
pub(in crate::server) mod record;
pub(in crate::server) mod view;
pub(in crate::server) mod filter;
pub(in crate::server) mod history;
pub(in crate::server) mod source;
pub(in crate::server) mod changes;
pub(in crate::server) mod reader;
