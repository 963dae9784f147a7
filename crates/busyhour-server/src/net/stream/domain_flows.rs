//! Flows to servers of domains over TLS.

use super::outgoing::{Destination, connection_number};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The numbers of connections to servers of domains, each from the moment when DNS has led there
/// until the connection has ended. One address may have servers of many domains, and each domain
/// has connections of its own (RFC 5922 §7.3): the number says whose certificate is expected.
///
/// If it is full, the oldest is forgotten; nothing new goes there before DNS is asked again.
#[derive(Default)]
pub(super) struct DomainFlows(Mutex<FlowTable>);

#[derive(Default)]
struct FlowTable {
    numbers: HashMap<Destination, u32>,
    destinations: HashMap<u32, Destination>,
    /// In the order in which they were chosen; some are gone.
    chosen: VecDeque<u32>,
}

impl DomainFlows {
    /// The number of the connection to a destination, whether it stands or not. `token` gives a
    /// new one.
    pub(super) fn number(&self, destination: Destination, token: impl FnOnce() -> u64) -> u32 {
        let mut table = self.lock();
        if let Some(number) = table.numbers.get(&destination) {
            return *number;
        }
        while table.numbers.len() >= FLOWS_MAX {
            table.forget_oldest();
        }
        let number = connection_number(token());
        table.chosen.push_back(number);
        table.numbers.insert(destination.clone(), number);
        table.destinations.insert(number, destination);
        number
    }

    /// Where the connection with this number goes.
    pub(super) fn destination(&self, number: u32) -> Option<Destination> {
        self.lock().destinations.get(&number).cloned()
    }

    /// The connection with this number has ended; the next one has another.
    pub(super) fn ended(&self, number: u32) {
        let mut table = self.lock();
        table.forget(number);
        // Its place among the others is found again only when it is the oldest.
        if table.chosen.len() > 2 * FLOWS_MAX {
            let FlowTable {
                chosen,
                destinations,
                ..
            } = &mut *table;
            chosen.retain(|number| destinations.contains_key(number));
        }
    }

    fn lock(&self) -> MutexGuard<'_, FlowTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FlowTable {
    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.chosen.pop_front() {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, number: u32) {
        if let Some(destination) = self.destinations.remove(&number) {
            self.numbers.remove(&destination);
        }
    }
}

/// A request has at most 16 ways, and those of the requests of the last seconds are in use.
const FLOWS_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_sip::Transport;

    fn to(domain: &str) -> Destination {
        Destination {
            transport: Transport::Tls,
            remote: ([192, 0, 2, 1], 5061).into(),
            domain: Some(domain.into()),
        }
    }

    #[test]
    fn each_domain_at_an_address_has_a_number_until_its_connection_ends() {
        let flows = DomainFlows::default();
        let one = flows.number(to("one.example"), || 7);
        assert_eq!(flows.number(to("one.example"), || 8), one);
        let two = flows.number(to("two.example"), || 9);
        assert_ne!(one, two);
        assert_eq!(flows.destination(one), Some(to("one.example")));
        flows.ended(one);
        assert_eq!(flows.destination(one), None);
        assert_eq!(flows.number(to("one.example"), || 10), 10);
        assert_eq!(flows.destination(two), Some(to("two.example")));
    }

    #[test]
    fn the_oldest_makes_room_and_what_has_ended_takes_none() {
        let flows = DomainFlows::default();
        for number in 1..=FLOWS_MAX as u64 + 1 {
            flows.number(to(&format!("{number}.example")), || number);
        }
        assert_eq!(flows.destination(1), None);
        assert_eq!(flows.destination(2), Some(to("2.example")));
        let first = FLOWS_MAX as u64 + 2;
        for number in first..first + 3 * FLOWS_MAX as u64 {
            flows.number(to("changing.example"), || number);
            flows.ended(number as u32);
        }
        let table = flows.lock();
        assert!(table.chosen.len() <= 2 * FLOWS_MAX + 1);
        assert!(table.numbers.len() <= FLOWS_MAX);
        assert_eq!(table.numbers.len(), table.destinations.len());
    }
}
