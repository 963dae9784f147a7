//! Where the server of a domain is, by the sections of RFC 3263 and RFC 2782.

#[path = "../../../../fuzz/any_bytes.rs"]
mod any_bytes;

mod any_answers;
mod zone;
mod locating;
mod ordering;
mod properties;
mod caching;
