//! The network: it loses, duplicates, delays and reorders datagrams.

use crate::{
    client::{DELAY_MAX, MILLISECOND},
    random::Random,
};
use std::{cmp::Reverse, collections::BinaryHeap, net::SocketAddr};

/// The datagrams that are on their way.
pub struct Network {
    pub faults: Faults,
    packets: BinaryHeap<Reverse<Packet>>,
    packet_count: u64,
}

/// How bad the network is.
pub struct Faults {
    pub loss_permille: u64,
    pub duplicate_permille: u64,
    pub slow_permille: u64,
    pub garbage_permille: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    pub at: u64,
    /// In the order of sending, so that equal times have an order.
    number: u64,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
}

impl Network {
    pub fn new(faults: Faults) -> Self {
        Self {
            faults,
            packets: BinaryHeap::new(),
            packet_count: 0,
        }
    }

    /// When the next datagram arrives.
    pub fn next_at(&self) -> Option<u64> {
        self.packets.peek().map(|Reverse(packet)| packet.at)
    }

    /// The next datagram that has arrived.
    pub fn take(&mut self, now: u64) -> Option<Packet> {
        let is_due = self.next_at().is_some_and(|at| at <= now);
        let packet = is_due.then(|| self.packets.pop())?;
        packet.map(|Reverse(packet)| packet)
    }

    /// Transmits a datagram: no copy, one or two, each with its own delay. Returns whether
    /// one arrives.
    pub fn transmit(
        &mut self,
        now: u64,
        random: &mut Random,
        [from, to]: [SocketAddr; 2],
        bytes: Vec<u8>,
    ) -> bool {
        if random.permille(self.faults.loss_permille) {
            return false;
        }
        if random.permille(self.faults.duplicate_permille) {
            self.enqueue(now, random, [from, to], bytes.clone());
        }
        self.enqueue(now, random, [from, to], bytes);
        true
    }

    /// Sometimes sends a truncated datagram, or bytes that are no SIP.
    pub fn spoil(&mut self, now: u64, random: &mut Random, way: [SocketAddr; 2], bytes: &[u8]) {
        if !random.permille(self.faults.garbage_permille) {
            return;
        }
        let length = random.within(0, bytes.len() as u64) as usize;
        let garbage = match random.permille(500) {
            true => bytes[..length].to_vec(),
            false => (0..length).map(|_| random.next() as u8).collect(),
        };
        self.enqueue(now, random, way, garbage);
    }

    /// Nothing is on its way any more.
    pub fn clear(&mut self) {
        self.packets.clear();
    }

    fn enqueue(
        &mut self,
        now: u64,
        random: &mut Random,
        [from, to]: [SocketAddr; 2],
        bytes: Vec<u8>,
    ) {
        let delay = match random.permille(self.faults.slow_permille) {
            true => random.within(MILLISECOND, DELAY_MAX),
            false => random.within(MILLISECOND / 10, 5 * MILLISECOND),
        };
        self.packet_count += 1;
        self.packets.push(Reverse(Packet {
            at: now + delay,
            number: self.packet_count,
            from,
            to,
            bytes,
        }));
    }
}

impl Faults {
    pub const NONE: Self = Self {
        loss_permille: 0,
        duplicate_permille: 0,
        slow_permille: 0,
        garbage_permille: 0,
    };

    pub fn draw(random: &mut Random) -> Self {
        Self {
            loss_permille: random.pick(&[0, 20, 100, 300]),
            duplicate_permille: random.pick(&[0, 20, 100, 300]),
            slow_permille: random.pick(&[0, 20, 100, 500]),
            garbage_permille: random.pick(&[0, 0, 20, 100]),
        }
    }
}
