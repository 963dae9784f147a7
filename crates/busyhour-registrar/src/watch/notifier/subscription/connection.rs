//! What becomes of the connection to the watcher.

use super::Subscription;
use busyhour_sip::Flow;

impl Subscription {
    /// The connection that it was stored with is still open: not the process that stored it has it, but another one.
    pub fn connection_stands(&mut self) {
        self.is_cut = false;
    }

    /// Whether its connection has ended, and no SUBSCRIBE has come over another one.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Its connection has ended, so nothing is told before a SUBSCRIBE comes over a new one.
    /// Returns whether that is news: it was on the connection of this flow until now.
    pub fn connection_ended(&mut self, flow: Flow) -> bool {
        if self.is_cut || flow != self.dialog.flow() {
            return false;
        }
        (self.is_cut, self.silence) = (true, None);
        if self.outstanding.take().is_some() {
            self.tell_anew();
        }
        true
    }
}
