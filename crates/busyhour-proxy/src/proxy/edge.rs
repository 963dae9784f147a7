//! How the proxy names itself in messages.

use busyhour_sip::{Flow, Message};

/// What the proxy writes about itself; the owner of its sockets knows.
pub trait Edge {
    /// Appends `sent-by` of our Via for a message that leaves on `flow`: host, and port
    /// where it is not the default one.
    fn put_sent_by(&self, flow: Flow, out: &mut String);

    /// Appends the value of Record-Route for a request that came on `from` and leaves on
    /// `to`: one URI in brackets, or two if transport or address differ (RFC 5658), that of
    /// `to` first. Nothing if the proxy need not stay on the path.
    fn put_record_route(&self, request: &Message<'_>, from: Flow, to: Flow, out: &mut String);
}

impl<T: Edge + ?Sized> Edge for &T {
    fn put_sent_by(&self, flow: Flow, out: &mut String) {
        (**self).put_sent_by(flow, out);
    }

    fn put_record_route(&self, request: &Message<'_>, from: Flow, to: Flow, out: &mut String) {
        (**self).put_record_route(request, from, to, out);
    }
}
