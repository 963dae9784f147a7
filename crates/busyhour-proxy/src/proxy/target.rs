//! Where a request goes: targets in groups, the ways to each, and what comes after them.

use busyhour_sip::Flow;
use std::time::Duration;

/// The targets of a request (RFC 3261 §16.5), and what happens when none of them answers.
#[derive(Debug, Clone, Default)]
pub struct TargetSet {
    /// Targets that are found while the others are called already.
    pub late: Option<Late>,
    /// The targets; those of one group are tried in parallel, the groups one after the
    /// other in this order.
    pub targets: Vec<Target>,
    /// How long a group of an INVITE rings before the next group or a fallback for no
    /// answer takes its place. If there is neither, it rings until timer C.
    pub ring_time: Option<Duration>,
    /// What is tried when all targets have failed: the first that suits, and after it no other.
    pub fallbacks: Vec<Fallback>,
}

/// One target of a request.
#[derive(Debug, Clone)]
pub struct Target {
    /// The Request-URI; `None` leaves it as it is.
    pub uri: Option<Box<str>>,
    /// The ways there, tried in this order (RFC 3263 §4.3): the next one after a transport
    /// error, a 503, or if nothing at all comes back.
    pub hops: Hops,
    /// How long a way may leave an INVITE without any response while there is another way;
    /// `None`, and the last way, have 64 × T1 (timer B).
    pub silence_max: Option<Duration>,
    /// Targets with the same number beside each other form a group.
    pub group: u16,
    /// Comes back in events.
    pub label: u64,
}

/// The ways to a target; usually there is one.
#[derive(Debug, Clone)]
pub struct Hops {
    first: Way,
    others: Vec<Way>,
}

/// One way to a target, and what a request on it says: each registration of a device over
/// several flows has its own Contact and Path (RFC 5626 §4.2).
#[derive(Debug, Clone)]
pub struct Way {
    /// Where it begins.
    pub hop: NextHop,
    /// The Request-URI on this way; `None` means that of the target.
    pub uri: Option<Box<str>>,
    /// Values of Route, such as the Path of the registration (RFC 3327).
    pub route: Option<Box<str>>,
}

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Transport and addresses.
    pub flow: Flow,
    /// Whether this is the flow of a registration, which nobody but its device can set up
    /// again (RFC 5626 §5.3). Without it, a connection may be made.
    pub is_registered: bool,
}

/// Targets that are tried on an occasion: a mailbox, another telephone.
#[derive(Debug, Clone)]
pub struct Fallback {
    /// When: any of these.
    pub on: Box<[Occasion]>,
    /// Where to.
    pub targets: Vec<Target>,
}

/// How the targets failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// Nobody answered within the ring time, or the best response is 408.
    NoAnswer,
    /// The best response is 486.
    Busy,
    /// There is no target, or none can be reached: the best response is 404, 410, 430,
    /// 480, 500, 503 or 504.
    Unavailable,
}

/// Targets that the caller of the proxy looks for while the request is under way, such as a
/// device that has to be woken (RFC 8599). The request has no final response of the others until
/// they are [found](crate::Proxy::add_late), [given up](crate::Proxy::end_late), or late; but one
/// that is answered or refused with 6xx waits for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// How many.
    pub count: u32,
    /// How long they are waited for.
    pub within: Duration,
    /// The reason phrase of the 480 if none of them comes, and nobody else answers.
    pub reason: &'static str,
}

impl Target {
    /// A target with one way to it.
    pub fn new(uri: Option<Box<str>>, way: impl Into<Way>) -> Self {
        Self {
            uri,
            hops: way.into().into(),
            silence_max: None,
            group: 0,
            label: 0,
        }
    }

    /// The URI on a way, fit for a Request-URI: without headers and `method` (RFC 3261
    /// §16.6, step 2).
    pub(super) fn request_uri(&self, hop: usize) -> Option<&str> {
        let own = self.hops.get(hop).and_then(|way| way.uri.as_deref());
        own.or(self.uri.as_deref()).map(as_request_uri)
    }
}

/// A URI without its headers, which a Request-URI does not have (RFC 3261 §19.1.1). A `?` of the
/// user begins none.
///
/// ```
/// use busyhour_proxy::as_request_uri;
///
/// assert_eq!(as_request_uri("sip:bob@192.0.2.7;x=1?Subject=a"), "sip:bob@192.0.2.7;x=1");
/// assert_eq!(as_request_uri("sip:who?@192.0.2.7"), "sip:who?@192.0.2.7");
/// ```
pub fn as_request_uri(uri: &str) -> &str {
    let user_end = uri.find('@').unwrap_or(0);
    let headers = uri[user_end..].find('?').map(|at| user_end + at);
    &uri[..headers.unwrap_or(uri.len())]
}

impl From<Target> for TargetSet {
    /// This target alone.
    fn from(target: Target) -> Self {
        Self {
            targets: vec![target],
            ..Self::default()
        }
    }
}

impl Hops {
    /// The way to try first.
    pub fn first(&self) -> NextHop {
        self.first.hop
    }

    /// The same, with what a request says on it.
    pub fn first_way(&self) -> &Way {
        &self.first
    }

    /// A way to try after the others.
    pub fn push(&mut self, way: impl Into<Way>) {
        self.others.push(way.into());
    }

    /// All ways, to change.
    pub fn ways_mut(&mut self) -> impl Iterator<Item = &mut Way> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    pub(super) fn get(&self, index: usize) -> Option<&Way> {
        match index {
            0 => Some(&self.first),
            index => self.others.get(index - 1),
        }
    }
}

impl<W: Into<Way>> From<W> for Hops {
    fn from(first: W) -> Self {
        Self {
            first: first.into(),
            others: Vec::new(),
        }
    }
}

impl From<NextHop> for Way {
    /// A way without proxies on it.
    fn from(hop: NextHop) -> Self {
        Self {
            hop,
            uri: None,
            route: None,
        }
    }
}

impl NextHop {
    /// The flow on which a device registered.
    pub fn registered(flow: Flow) -> Self {
        Self {
            flow,
            is_registered: true,
        }
    }

    /// An address that a URI led to (RFC 3263).
    pub fn resolved(flow: Flow) -> Self {
        Self {
            flow,
            is_registered: false,
        }
    }
}

impl Occasion {
    /// The occasion that a status is.
    pub(super) fn of_status(status: u16) -> Option<Self> {
        match status {
            408 => Some(Self::NoAnswer),
            486 => Some(Self::Busy),
            404 | 410 | 430 | 480 | 500 | 503 | 504 => Some(Self::Unavailable),
            _ => None,
        }
    }
}
