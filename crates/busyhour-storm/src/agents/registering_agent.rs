//! The interface between the driver and the agents that register devices; it
//! is the same for all protocols.

use std::io;

use busyhour::clock::Instant;

use crate::results::ledger::Ledger;
use crate::results::tally::Tally;
use crate::wire::batch::Outbox;

/// Plays all devices of one socket. It does no I/O: it takes the time and
/// datagrams, and returns datagrams.
pub(crate) trait RegisteringAgent: Send {
    /// Starts a registration that was due at `due`. Returns `false`, and
    /// starts nothing, if the last registration of the device is still in
    /// progress.
    fn register(&mut self, now: Instant, due: Instant, index: u32, out: &mut Outbox) -> bool;

    /// Takes one received datagram.
    fn receive(&mut self, now: Instant, datagram: &[u8], out: &mut Outbox);

    /// Sends unanswered requests again when they are due, or gives them up.
    fn expire(&mut self, now: Instant, out: &mut Outbox);

    /// When [`expire`](Self::expire) has something to do.
    fn next_deadline(&self) -> Option<Instant>;

    /// Registrations under way.
    fn in_flight(&self) -> usize;

    /// The agent's counts and journal.
    fn ledger(&mut self) -> &mut Ledger;

    /// Whether the last registration of a device was acknowledged; `None`
    /// while it is in progress, if there was none, or if nobody can know.
    fn is_registered(&self, index: u32) -> Option<bool>;

    /// The counts so far.
    fn tally(&mut self) -> &mut Tally {
        &mut self.ledger().tally
    }

    /// Writes the buffered lines of the journal to its file.
    fn flush_journal(&mut self) -> io::Result<()> {
        self.ledger().flush()
    }

    /// Returns the counts so far, and starts again at zero.
    fn take_tally(&mut self) -> Tally {
        std::mem::replace(self.tally(), Tally::new())
    }
}
