//! A request that asks a device whether it still knows a dialog.

use std::sync::Arc;

use busyhour::{bus::Name, timer::QueueHandle};
use busyhour_sip::{Flow, HeaderName, Method, Output, RequestBuilder};

use super::party::Role;

/// An OPTIONS within a dialog (RFC 3261 §11.2), in place of the other side. Its CSeq is 0,
/// so that it disturbs no later request: see the README of this module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Names the probe in [`probed`](super::Dialogs::probed).
    pub id: ProbeId,
    /// The device.
    pub device: Name,
    /// The flow of its last message. If its telephone, which [`uri`](Self::uri) names, has another
    /// one since, use that; without one, the outcome is [`ProbeOutcome::Silent`].
    pub flow: Flow,
    /// Its Contact: the Request-URI.
    pub uri: Arc<str>,
    pub(super) call_id: Arc<str>,
    /// The device: To. The other side: From. Each a URI and a tag.
    pub(super) to: (Arc<str>, Arc<str>),
    pub(super) from: (Arc<str>, Arc<str>),
}

/// A side of a dialog that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeId {
    pub(super) key: QueueHandle,
    pub(super) dialog: u64,
    pub(super) role: Role,
}

/// What the device said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// It sent a final response. 481 means that it does not know the dialog; any other one
    /// means that it does: 500 is what RFC 3261 §12.2.2 asks for.
    Answered(u16),
    /// Nothing came in 64·T1, or it has no flow.
    Silent,
}

impl Probe {
    /// Writes the request. `via` is the value of our Via, with a branch of its own. The device may
    /// have registered another Contact since, `uri`, and with it a Path, which is the `route`.
    pub fn write(&self, out: &mut impl Output, via: &str, uri: Option<&str>, route: Option<&str>) {
        let address = |(uri, tag): &(Arc<str>, Arc<str>)| format!("<{uri}>;tag={tag}");
        let request = RequestBuilder::new(out, Method::Options, uri.unwrap_or(&self.uri))
            .header(HeaderName::Via, via);
        let request = match route {
            Some(route) => request.header(HeaderName::Route, route),
            None => request,
        };
        request
            .header(HeaderName::MaxForwards, 70)
            .header(HeaderName::From, address(&self.from).as_str())
            .header(HeaderName::To, address(&self.to).as_str())
            .header(HeaderName::CallId, &*self.call_id)
            .header(HeaderName::CSeq, "0 OPTIONS")
            .finish();
    }
}
