//! Session descriptions that are compressed on their way.

use super::Way;
use crate::server::core::Core;
use busyhour_media::DESCRIPTION_BYTES_MAX;
use busyhour_registrar::{Refusal, decoded_body};
use busyhour_sip::Message;

impl Core {
    /// A description that a relay may have to rewrite has to be one that can be read (RFC 3261 §8.2.3); between all
    /// others it is their own affair.
    pub(super) fn check_description(
        &self,
        message: &Message<'_>,
        way: &Way,
    ) -> Result<(), Refusal> {
        let parties = way.parties.all().iter().chain(&*way.located.called);
        if !is_encoded_description(message) || !self.calls.may_relay(parties) {
            return Ok(());
        }
        let body = decoded_body(message, DESCRIPTION_BYTES_MAX, "application/sdp");
        self.responder.traffic.count_body(message, &body);
        body.map(drop)
    }
}

fn is_encoded_description(message: &Message<'_>) -> bool {
    let media = || message.content_type().ok().flatten();
    message.is_body_encoded() && media().is_some_and(|media| media.covers("application", "sdp"))
}
