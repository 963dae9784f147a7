//! The sockets of both protocols as one network.

use super::Udp;
use crate::server::{Flow, Network, NetworkStats, SendError};
use busyhour::buffer::Buffer;

/// SIP's sockets and those of IAX2, told apart by their addresses.
pub struct Both {
    /// Where SIP is spoken.
    pub sip: Udp,
    /// Where IAX2 is spoken.
    pub iax2: Udp,
}

impl Both {
    /// Ends the receive threads and waits for them; sending stays possible.
    pub fn stop_receiving(&self) {
        self.sip.stop_receiving();
        self.iax2.stop_receiving();
    }
}

impl Network for Both {
    fn send(&self, flow: Flow, datagram: Buffer) -> Result<(), SendError> {
        match self.iax2.addresses().contains(&flow.local) {
            true => self.iax2.send(flow, datagram),
            false => self.sip.send(flow, datagram),
        }
    }

    /// The sum of all sockets.
    fn stats(&self) -> NetworkStats {
        let mut sum = self.sip.stats();
        sum += self.iax2.stats();
        sum
    }
}
