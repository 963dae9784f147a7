//! How the proxy names itself in messages.

use busyhour_sip::{Flow, Message};

/// What the proxy writes about itself; the owner of its sockets knows.
pub trait Edge {
    /// What is kept with each request, and dropped when the table forgets it: who sent it,
    /// its targets, a share of a bounded resource.
    type Data;

    /// Appends `sent-by` of our Via for a message that leaves on `flow`: host, and port
    /// where it is not the default one.
    fn put_sent_by(&self, flow: Flow, out: &mut String);

    /// Appends the value of Record-Route for a request on its way: one URI in brackets, or
    /// two (RFC 5658), that of the side to which it goes first. Nothing if the proxy need
    /// not stay on the path.
    fn put_record_route(&self, passage: &Passage<'_, '_, Self::Data>, out: &mut String);

    /// Whether who sends on `came` is the other side of `sent`: from the same address, whatever its
    /// port, unless the owner knows more addresses of the same server. Nobody else may answer a
    /// request, though he may have seen its branch, or cancel one.
    fn may_answer(&self, sent: Flow, came: Flow) -> bool {
        let address = |flow: Flow| flow.remote.ip().to_canonical();
        address(sent) == address(came)
    }

    /// Whether the recipient of a request is told the sender's P-Asserted-Identity: the proxy
    /// trusts the sender, and the sender does not want it kept from this recipient (RFC 3325
    /// §5, §7). Nobody is trusted unless the owner says so.
    fn passes_identity(&self, _passage: &Passage<'_, '_, Self::Data>) -> bool {
        false
    }

    /// The same for a response that came from the target with this label.
    fn passes_identity_back(
        &self,
        _response: &Message<'_>,
        _data: &Self::Data,
        _label: u64,
    ) -> bool {
        false
    }
}

/// A request on its way through the proxy.
#[derive(Debug)]
pub struct Passage<'p, 'a, D> {
    /// As it came.
    pub request: &'p Message<'a>,
    /// The way on which it came.
    pub from: Flow,
    /// The way on which it goes.
    pub to: Flow,
    /// What is kept with it.
    pub data: &'p D,
    /// The label of the target to which it goes.
    pub label: u64,
}
