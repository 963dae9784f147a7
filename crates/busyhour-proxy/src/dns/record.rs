//! What is asked of DNS, and what it answers.

use std::{net::IpAddr, sync::Arc, time::Duration};

/// One question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// In lower case, without a dot at its end.
    pub name: Box<str>,
    /// Which records.
    pub kind: RecordKind,
}

/// Kinds of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Which services a domain has (RFC 3403).
    Naptr,
    /// Which hosts and ports a service is at (RFC 2782).
    Srv,
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

/// What became of a question; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsAnswer {
    /// There are records. A resolver follows CNAME.
    Found(Arc<[Record]>, Duration),
    /// The name or the kind does not exist, for this time (RFC 2308).
    Nothing(Duration),
    /// Nobody answered, or could.
    Failed,
}

/// One record of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// See [`RecordKind::Naptr`].
    Naptr(Naptr),
    /// See [`RecordKind::Srv`].
    Srv(Srv),
    /// Of either family.
    Address(IpAddr),
}

/// A service of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naptr {
    /// Lower ones come first.
    pub order: u16,
    /// Lower ones of the same order come first.
    pub preference: u16,
    /// `s`: the replacement is the name of SRV records.
    pub flags: Box<str>,
    /// `SIP+D2U`, `SIP+D2T`, `SIPS+D2T`.
    pub service: Box<str>,
    /// The next name.
    pub replacement: Box<str>,
}

/// A host that has a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Srv {
    /// Lower ones come first.
    pub priority: u16,
    /// Its part of the requests among those of its priority.
    pub weight: u16,
    /// On which it listens.
    pub port: u16,
    /// Its name; empty for the root, which says that there is no such service.
    pub target: Box<str>,
}

impl Question {
    /// A question for this name; without its last dot and in lower case.
    pub fn new(name: &str, kind: RecordKind) -> Self {
        let name = name.strip_suffix('.').unwrap_or(name);
        Self {
            name: name.to_ascii_lowercase().into(),
            kind,
        }
    }
}
