//! Where the server of a domain is (RFC 3263 §4): answers of DNS in, servers in the order of
//! RFC 2782 out. It asks nobody: [`locate`] says what it has to know, and is called again with
//! that.

mod record;
mod hop_name;
mod servers;
mod locate;
mod cache;

pub use cache::{AnswerCache, TtlBounds};
pub use hop_name::HopName;
pub use locate::{Location, NotLocated, Transports, locate};
pub use record::{DnsAnswer, Naptr, Question, Record, RecordKind, Srv};
pub use servers::{LocatedServer, Servers};
