//! Over which flows of this node registrations came, so that the nodes that have the devices learn of what else comes over
//! them and has no address of record: keep-alives. The node that has a device takes them for signs of life, as a server
//! alone does (RFC 5626 §4.4.2), and asks only telephones that send none. A registration of a device of this node counts,
//! too: another one may have the device later.
//!
//! A flow is a number of 64 bits here. Two flows with one number make a node hear of a flow that it does not have, which
//! changes nothing.

use crate::{lock::lock, server::stats::counters::Counter};
use busyhour::clock::Instant;
use busyhour_cluster::Partition;
use busyhour_sip::Flow;
use foldhash::quality::FixedState;
use std::{collections::HashMap, hash::BuildHasher, sync::Mutex};

/// The partitions of the addresses that were registered over each flow.
pub(in crate::server::cluster) struct RegisteredFlows {
    hasher: FixedState,
    shards: [Mutex<FlowGenerations>; SHARDS],
    /// Flows that were forgotten for want of room.
    forgotten: Counter,
}

/// Flows that were used lately, and those that were used before. When there are many of the first, the second are
/// forgotten; so what is used stays, and nothing has to be looked for.
#[derive(Default)]
struct FlowGenerations {
    young: HashMap<u64, RegisteredFlow>,
    old: HashMap<u64, RegisteredFlow>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RegisteredFlow {
    partitions: [u8; PARTITIONS_MAX],
    partition_count: u8,
    /// The last one that was put in the place of another.
    replaced: u8,
    /// The second in which the nodes were told last.
    told_s: u32,
}

impl RegisteredFlows {
    pub(in crate::server::cluster) fn new(seed: u64) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            shards: std::array::from_fn(|_| Mutex::default()),
            forgotten: Counter::default(),
        }
    }

    /// A REGISTER of a partition came over this flow.
    pub(in crate::server::cluster) fn registered(&self, flow: Flow, partition: Partition) {
        let hash = self.hasher.hash_one(flow);
        let mut shard = lock(self.shard(hash));
        self.forgotten.add(shard.make_room(hash));
        shard.used(hash).add(partition);
    }

    /// How many flows were forgotten for want of room.
    pub(in crate::server::cluster) fn forgotten_count(&self) -> u64 {
        self.forgotten.get()
    }

    /// Something came over this flow: the partitions whose nodes have to know, at most once a second.
    pub(in crate::server::cluster) fn heard(&self, flow: Flow, now: Instant) -> Vec<Partition> {
        let hash = self.hasher.hash_one(flow);
        let mut shard = lock(self.shard(hash));
        if !shard.is_known(hash) {
            return Vec::new();
        }
        self.forgotten.add(shard.make_room(hash));
        let known = shard.used(hash);
        let now_s = (now.as_nanos() / 1_000_000_000) as u32;
        if std::mem::replace(&mut known.told_s, now_s) == now_s {
            return Vec::new();
        }
        let known = known.partitions.iter().take(known.partition_count.into());
        known.copied().map(Partition).collect()
    }

    fn shard(&self, hash: u64) -> &Mutex<FlowGenerations> {
        &self.shards[hash as usize % SHARDS]
    }
}

impl FlowGenerations {
    fn is_known(&self, hash: u64) -> bool {
        self.young.contains_key(&hash) || self.old.contains_key(&hash)
    }

    /// Makes room for a flow among the young ones; returns how many were forgotten for that.
    fn make_room(&mut self, hash: u64) -> u64 {
        if self.young.len() < YOUNG_MAX || self.young.contains_key(&hash) {
            return 0;
        }
        let kept = self.old.remove(&hash);
        let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        self.young.extend(kept.map(|kept| (hash, kept)));
        forgotten.len() as u64
    }

    /// The flow, among the young ones from now on.
    fn used(&mut self, hash: u64) -> &mut RegisteredFlow {
        let old = self.old.remove(&hash);
        self.young
            .entry(hash)
            .or_insert_with(|| old.unwrap_or_default())
    }
}

impl RegisteredFlow {
    /// A gateway registers more addresses than are known here; of most of its partitions the nodes ask for themselves.
    fn add(&mut self, Partition(partition): Partition) {
        let count = usize::from(self.partition_count);
        if self.partitions[..count].contains(&partition) {
            return;
        }
        let place = match count < PARTITIONS_MAX {
            true => {
                self.partition_count += 1;
                count
            }
            false => {
                self.replaced = (self.replaced + 1) % PARTITIONS_MAX as u8;
                self.replaced.into()
            }
        };
        self.partitions[place] = partition;
    }
}

const SHARDS: usize = 64;
/// 262,144 in all, and as many old ones.
const YOUNG_MAX: usize = 4096;
const PARTITIONS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn flow(number: u32) -> Flow {
        let [_, a, b, c] = number.to_be_bytes();
        let remote = SocketAddr::from(([10, a, b, c], 5060));
        Flow::udp(SocketAddr::from(([192, 0, 2, 1], 5060)), remote)
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn who_has_what_was_registered_over_a_flow_hears_of_it_once_a_second() {
        let flows = RegisteredFlows::new(1);
        assert_eq!(flows.heard(flow(1), at(1)), []);
        for partition in [7, 9, 7] {
            flows.registered(flow(1), Partition(partition));
        }
        assert_eq!(flows.heard(flow(1), at(2)), [Partition(7), Partition(9)]);
        assert_eq!(flows.heard(flow(1), at(2)), []);
        assert_eq!(flows.heard(flow(2), at(2)), []);
        assert_eq!(flows.heard(flow(1), at(3)), [Partition(7), Partition(9)]);
    }

    #[test]
    fn a_flow_has_its_last_partitions() {
        let flows = RegisteredFlows::new(1);
        for partition in 0..100 {
            flows.registered(flow(1), Partition(partition));
        }
        let mut heard = flows.heard(flow(1), at(1));
        heard.sort();
        assert_eq!(heard, [96, 97, 98, 99].map(Partition));
    }

    #[test]
    fn flows_that_are_not_used_are_forgotten_and_others_stay() {
        let flows = RegisteredFlows::new(1);
        flows.registered(flow(0), Partition(3));
        flows.registered(flow(1), Partition(3));
        for number in 2..1_000_000 {
            flows.registered(flow(number), Partition(3));
            if number % 1_000 == 0 {
                assert_eq!(flows.heard(flow(0), at(number.into())), [Partition(3)]);
            }
        }
        assert_eq!(flows.heard(flow(1), at(1)), []);
        let lens = flows.shards.iter().map(lock);
        let known: usize = lens.map(|shard| shard.young.len() + shard.old.len()).sum();
        assert!(known <= 2 * SHARDS * YOUNG_MAX, "{known}");
        assert_eq!(flows.forgotten_count() + known as u64, 1_000_000);
    }
}
