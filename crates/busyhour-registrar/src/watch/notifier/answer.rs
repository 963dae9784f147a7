//! Writing the answer to a SUBSCRIBE.

use crate::{registrar::EVENTLIST, watch::Subscription};
use busyhour_sip::{Flow, HeaderName, Message, Output, ResponseBuilder, Status};

/// Writes the 200 to a SUBSCRIBE that came by `flow` and opens, refreshes or
/// ends a subscription (RFC 6665 §4.2.1.1).
pub fn write_accepted(
    out: &mut impl Output,
    request: &Message<'_>,
    subscription: &Subscription,
    granted_s: u32,
    flow: Flow,
) {
    let dialog = subscription.dialog();
    let mut answer = ResponseBuilder::new(out, request, Status::OK, Some(flow.remote))
        .to_tag(dialog.local_tag())
        .copy(HeaderName::RecordRoute);
    if subscription.is_of_list() {
        // RFC 4662 §4.4.
        answer = answer.header(HeaderName::Require, EVENTLIST);
    }
    answer
        .header(HeaderName::Expires, granted_s)
        .header(
            HeaderName::Contact,
            format_args!("<sip:{}>", dialog.contact_address(flow)),
        )
        .finish();
}
