//! What the driver asks of the devices, whatever protocol they speak.

use std::io;

use busyhour::clock::Instant;

use crate::results::ledger::Ledger;
use crate::results::tally::Tally;
use crate::wire::batch::Outbox;

/// All devices of one socket: pure, time and datagrams in, datagrams out.
pub(crate) trait Machine: Send {
    /// Begins a registration that was due at `due`. A device that is still at
    /// its last one is passed over: `false`.
    fn register(&mut self, now: Instant, due: Instant, index: u32, out: &mut Outbox) -> bool;

    /// Takes one datagram that came back.
    fn receive(&mut self, now: Instant, datagram: &[u8], out: &mut Outbox);

    /// Sends again what was not answered in time, or gives it up.
    fn expire(&mut self, now: Instant, out: &mut Outbox);

    /// When [`expire`](Self::expire) has something to do.
    fn next_deadline(&self) -> Option<Instant>;

    /// Registrations under way.
    fn in_flight(&self) -> usize;

    /// What it writes down.
    fn ledger(&mut self) -> &mut Ledger;

    /// Whether the last registration of a device was acknowledged; `None` while
    /// it is under way, or when there was none.
    fn is_registered(&self, index: u32) -> Option<bool>;

    /// The counts so far.
    fn tally(&mut self) -> &mut Tally {
        &mut self.ledger().tally
    }

    /// Writes out what the journal holds back.
    fn flush_journal(&mut self) -> io::Result<()> {
        self.ledger().flush()
    }

    /// Hands out the counts so far and begins anew.
    fn take_tally(&mut self) -> Tally {
        std::mem::replace(self.tally(), Tally::new())
    }
}
