//! The memory of messages that are not complete.
//!
//! Each of the two classes, untrusted connections and known peers, has a pool of its own, so
//! that untrusted connections take nothing from those over which something was accepted.
//! Incomplete messages may hold three quarters of a pool; the rest is for
//! messages that are being dealt with. Beyond that the connection whose message
//! has been incomplete for longest is closed.

use super::StreamPolicy;
use busyhour::{
    buffer::{BufferPool, Error},
    heap::{Heap, HeapHandle},
};
use busyhour_sip::source_of;
use foldhash::fast::RandomState;
use std::{collections::HashMap, net::IpAddr};

/// The memory for received bytes, and how much of it each connection holds.
pub(super) struct StreamMemory {
    classes: [ClassMemory; 2],
    /// Sources that hold something; seeded, since sources choose themselves.
    sources: HashMap<IpAddr, [usize; 2], RandomState>,
    source_max: usize,
    last_turn: u64,
}

/// What one class of connections has.
struct ClassMemory {
    buffers: BufferPool,
    held: usize,
    held_max: usize,
    /// Connections that hold some; on top the one that began first.
    holders: Heap<MemoryHolder>,
}

/// A connection with an incomplete message: the turn in which the message began, and its
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct MemoryHolder {
    turn: u64,
    token: u64,
}

/// Whether something was accepted over a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Class {
    #[default]
    Untrusted,
    Known,
}

/// What one connection holds.
#[derive(Debug, Default)]
pub(super) struct Charge {
    class: Class,
    bytes: usize,
    /// Its place among the holders of its class.
    place: Option<HeapHandle>,
}

/// One source holds more than it may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OverShare;

impl StreamMemory {
    /// Two pools of half the memory each.
    ///
    /// # Errors
    ///
    /// When the system does not give the address space.
    pub(super) fn new(policy: &StreamPolicy) -> Result<Self, Error> {
        let bytes = policy.memory_bytes_max / 2;
        Ok(Self {
            classes: [ClassMemory::new(bytes)?, ClassMemory::new(bytes)?],
            sources: HashMap::default(),
            source_max: policy.memory_per_source_bytes_max,
            last_turn: 0,
        })
    }

    /// The pool of a class.
    pub(super) fn buffers(&self, class: Class) -> &BufferPool {
        &self.classes[class as usize].buffers
    }

    /// Bytes that incomplete messages hold now.
    pub(super) fn held(&self) -> usize {
        self.classes.iter().map(|room| room.held).sum()
    }

    /// Notes that the connection `token` from `source` holds `bytes` now.
    ///
    /// # Errors
    ///
    /// [`OverShare`] when its source holds too much: untrusted connections half of what a
    /// source may, and all its connections the whole. It is noted all the same.
    pub(super) fn note(
        &mut self,
        charge: &mut Charge,
        source: IpAddr,
        token: u64,
        class: Class,
        bytes: usize,
    ) -> Result<(), OverShare> {
        if charge.bytes == 0 && bytes == 0 {
            return Ok(());
        }
        self.subtract(charge, source);
        let is_kept = bytes > 0 && charge.place.is_some() && charge.class == class;
        let turn = match is_kept {
            true => None,
            false => self.leave(charge),
        };
        (charge.class, charge.bytes) = (class, bytes);
        if bytes == 0 {
            return Ok(());
        }
        let room = &mut self.classes[class as usize];
        room.held += bytes;
        if !is_kept {
            self.last_turn += 1;
            let turn = turn.unwrap_or(self.last_turn);
            charge.place = Some(room.holders.push(MemoryHolder { turn, token }));
        }
        let held = self.sources.entry(source_of(source)).or_default();
        held[class as usize] += bytes;
        let is_over = match class {
            Class::Untrusted => held[Class::Untrusted as usize] > self.source_max / 2,
            Class::Known => held.iter().sum::<usize>() > self.source_max,
        };
        (!is_over).then_some(()).ok_or(OverShare)
    }

    /// Takes back what a connection that ends holds.
    pub(super) fn release(&mut self, charge: &mut Charge, source: IpAddr) {
        self.subtract(charge, source);
        self.leave(charge);
        *charge = Charge::default();
    }

    /// The connection to close: in a class that holds too much, the one whose message
    /// has been incomplete for the longest time.
    pub(super) fn excess(&self) -> Option<u64> {
        let room = self.classes.iter().find(|room| room.held > room.held_max)?;
        room.holders.peek().map(|holder| holder.token)
    }

    /// Takes a charge out of the sums.
    fn subtract(&mut self, charge: &Charge, source: IpAddr) {
        if charge.bytes == 0 {
            return;
        }
        let room = &mut self.classes[charge.class as usize];
        debug_assert!(room.held >= charge.bytes, "a charge is in the sum");
        room.held -= charge.bytes;
        let source = source_of(source);
        if let Some(held) = self.sources.get_mut(&source) {
            held[charge.class as usize] -= charge.bytes;
            if *held == [0; 2] {
                self.sources.remove(&source);
            }
        }
    }

    /// Takes a connection out of the holders; the turn that it had.
    fn leave(&mut self, charge: &mut Charge) -> Option<u64> {
        let holders = &mut self.classes[charge.class as usize].holders;
        let holder = holders.remove(charge.place.take()?);
        holder.map(|holder| holder.turn)
    }
}

impl ClassMemory {
    fn new(bytes: usize) -> Result<Self, Error> {
        let buffers = BufferPool::builder().budget_bytes(bytes as u64);
        Ok(Self {
            buffers: buffers.build()?,
            held: 0,
            held_max: bytes / 4 * 3,
            holders: Heap::min(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> StreamMemory {
        let policy = StreamPolicy {
            memory_bytes_max: 16 << 20,
            memory_per_source_bytes_max: 2 << 20,
            ..StreamPolicy::default()
        };
        StreamMemory::new(&policy).unwrap()
    }

    fn source(number: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, number])
    }

    #[test]
    fn untrusted_connections_of_a_source_leave_half_of_its_share_to_trusted_ones() {
        let (mut memory, one) = (memory(), source(1));
        let (mut untrusted, mut known) = (Charge::default(), Charge::default());
        let mebibyte = 1 << 20;
        let fits = memory.note(&mut untrusted, one, 1, Class::Untrusted, mebibyte);
        assert_eq!(fits, Ok(()));
        assert_eq!(
            memory.note(&mut known, one, 2, Class::Known, mebibyte),
            Ok(())
        );
        let over = memory.note(&mut untrusted, one, 1, Class::Untrusted, mebibyte + 1);
        assert_eq!(over, Err(OverShare));
        memory.release(&mut untrusted, one);
        memory.release(&mut untrusted, one);
        assert_eq!(memory.held(), mebibyte);
        memory.release(&mut known, one);
        assert_eq!((memory.held(), memory.sources.len()), (0, 0));
    }

    #[test]
    fn a_class_that_exceeds_its_part_loses_its_oldest_message() {
        let mut memory = memory();
        let mut charges: Vec<Charge> = (0..8).map(|_| Charge::default()).collect();
        let mut known = Charge::default();
        let mebibyte = 1 << 20;
        memory
            .note(&mut known, source(99), 99, Class::Known, mebibyte)
            .unwrap();
        for (number, charge) in charges.iter_mut().enumerate().take(6) {
            let source = source(number as u8);
            memory
                .note(charge, source, number as u64, Class::Untrusted, mebibyte)
                .unwrap();
        }
        assert_eq!(memory.excess(), None);
        // More of the same message does not make it younger.
        let (token, class) = (0, Class::Untrusted);
        let _ = memory.note(&mut charges[0], source(0), token, class, mebibyte + 1);
        assert_eq!(memory.excess(), Some(0));
        // Nor does it when the connection comes into the other class and back.
        let _ = memory.note(&mut charges[0], source(0), token, Class::Known, mebibyte);
        assert_eq!(memory.excess(), None);
        let _ = memory.note(&mut charges[0], source(0), token, class, mebibyte + 1);
        assert_eq!(memory.excess(), Some(0));
        memory.release(&mut charges[0], source(0));
        assert_eq!(memory.excess(), None);
        let _ = memory.note(&mut charges[6], source(6), 6, class, mebibyte + 1);
        assert_eq!(memory.excess(), Some(1));
    }

    /// Against a list of who holds what since when.
    #[test]
    fn the_oldest_holder_is_found_whatever_came_and_went() {
        let mut memory = memory();
        // Too little for anything but to hold nothing, so that there is always an excess.
        memory.classes.iter_mut().for_each(|room| room.held_max = 0);
        let mut charges: Vec<Charge> = (0..50).map(|_| Charge::default()).collect();
        let mut list: Vec<(Class, u64)> = Vec::new();
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let [token, amount, known, ..] = (random >> 24).to_le_bytes();
            let (token, bytes) = (u64::from(token % 50), usize::from(amount % 4));
            let class = if known % 2 == 0 {
                Class::Untrusted
            } else {
                Class::Known
            };
            let charge = &mut charges[token as usize];
            let _ = memory.note(charge, source(token as u8), token, class, bytes);
            match list.iter_mut().find(|(_, known)| *known == token) {
                Some(_) if bytes == 0 => list.retain(|(_, known)| *known != token),
                Some((place, _)) => *place = class,
                None if bytes == 0 => {}
                None => list.push((class, token)),
            }
            let first = [Class::Untrusted, Class::Known].into_iter();
            let mut first = first.map(|class| list.iter().find(|(of, _)| *of == class));
            let expected = first.find_map(|found| found.map(|(_, token)| *token));
            assert_eq!(memory.excess(), expected);
        }
    }
}
