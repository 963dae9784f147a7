//! Over which flows of this node registrations came, so that the nodes that have the devices learn of what else comes over
//! them and has no address of record: keep-alives. The node that has a device takes them for signs of life, as a server
//! alone does (RFC 5626 §4.4.2), and asks only telephones that send none. A registration of a device of this node counts,
//! too: another one may have the device later.
//!
//! A flow has a place once the node that has the device has answered its REGISTER with 2xx, and so after that has checked the
//! credentials; a source may have a share of all places. So strangers, who can forge the source of any REGISTER, displace
//! nobody.
//!
//! A flow is a number of 64 bits here. Two flows with one number make a node hear of a flow that it does not have, which
//! changes nothing.

use crate::{
    lock::lock,
    server::{
        load::{shares::Cells, source_shares::SourceShares},
        stats::counters::Counter,
    },
};
use busyhour::clock::Instant;
use busyhour_cluster::Partition;
use busyhour_sip::Flow;
use foldhash::quality::FixedState;
use std::{collections::HashMap, hash::BuildHasher, sync::Mutex};

/// The partitions of the addresses that were registered over each flow.
pub(in crate::server::cluster) struct RegisteredFlows {
    hasher: FixedState,
    shards: [Mutex<FlowGenerations>; SHARDS],
    places: SourceShares,
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

#[derive(Debug, Clone, Copy)]
struct RegisteredFlow {
    /// Whose place it is.
    source: Cells,
    partitions: [u8; PARTITIONS_MAX],
    partition_count: u8,
    /// The last one that was put in the place of another.
    replaced: u8,
    /// The second in which the nodes were told last.
    told_s: u32,
}

impl RegisteredFlows {
    /// Nobody may guess the seed. One source has so many percent of all places.
    pub(in crate::server::cluster) fn new(seed: u64, source_percent: u64) -> Self {
        Self {
            hasher: FixedState::with_seed(seed),
            shards: std::array::from_fn(|_| Mutex::default()),
            places: SourceShares::new(PLACES, source_percent, seed ^ 1),
            forgotten: Counter::default(),
        }
    }

    /// An address of a partition was registered over this flow.
    pub(in crate::server::cluster) fn registered(&self, flow: Flow, partition: Partition) {
        let hash = self.hasher.hash_one(flow);
        let mut shard = lock(self.shard(hash));
        let forgotten = shard.make_room(hash);
        let known = match shard.used(hash) {
            Some(known) => Some(known),
            None => {
                let source = self.places.take(flow.remote.ip());
                source.map(|source| shard.insert(hash, source))
            }
        };
        if let Some(known) = known {
            known.add(partition);
        }
        drop(shard);
        self.give_back(forgotten);
    }

    fn give_back(&self, forgotten: HashMap<u64, RegisteredFlow>) {
        self.forgotten.add(forgotten.len() as u64);
        for flow in forgotten.into_values() {
            self.places.give_back(flow.source);
        }
    }

    /// How many flows have a place.
    pub(in crate::server::cluster) fn len(&self) -> u64 {
        self.places.used()
    }

    /// How many flows found no place, since their source had its share.
    pub(in crate::server::cluster) fn over_share_count(&self) -> u64 {
        self.places.refused_count()
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
        let forgotten = shard.make_room(hash);
        let known = shard.used(hash).map(|known| known.take_due(now));
        drop(shard);
        self.give_back(forgotten);
        known.unwrap_or_default()
    }

    fn shard(&self, hash: u64) -> &Mutex<FlowGenerations> {
        &self.shards[hash as usize % SHARDS]
    }
}

impl FlowGenerations {
    fn is_known(&self, hash: u64) -> bool {
        self.young.contains_key(&hash) || self.old.contains_key(&hash)
    }

    /// Makes room for a flow among the young ones; returns those that are forgotten for that.
    fn make_room(&mut self, hash: u64) -> HashMap<u64, RegisteredFlow> {
        if self.young.len() < YOUNG_MAX || self.young.contains_key(&hash) {
            return HashMap::new();
        }
        let kept = self.old.remove(&hash);
        let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        self.young.extend(kept.map(|kept| (hash, kept)));
        forgotten
    }

    /// The flow, among the young ones from now on, if it is known.
    fn used(&mut self, hash: u64) -> Option<&mut RegisteredFlow> {
        if let Some(old) = self.old.remove(&hash) {
            self.young.insert(hash, old);
        }
        self.young.get_mut(&hash)
    }

    fn insert(&mut self, hash: u64, source: Cells) -> &mut RegisteredFlow {
        let new = || RegisteredFlow {
            source,
            partitions: [0; PARTITIONS_MAX],
            partition_count: 0,
            replaced: 0,
            told_s: 0,
        };
        self.young.entry(hash).or_insert_with(new)
    }
}

impl RegisteredFlow {
    /// The partitions whose nodes have to know of it now.
    fn take_due(&mut self, now: Instant) -> Vec<Partition> {
        let now_s = (now.as_nanos() / 1_000_000_000) as u32;
        if std::mem::replace(&mut self.told_s, now_s) == now_s {
            return Vec::new();
        }
        let known = self.partitions.iter().take(self.partition_count.into());
        known.copied().map(Partition).collect()
    }

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
/// Of the young ones and the old ones.
const PLACES: u64 = 2 * (SHARDS * YOUNG_MAX) as u64;
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
        let flows = RegisteredFlows::new(1, 100);
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
        let flows = RegisteredFlows::new(1, 100);
        for partition in 0..100 {
            flows.registered(flow(1), Partition(partition));
        }
        let mut heard = flows.heard(flow(1), at(1));
        heard.sort();
        assert_eq!(heard, [96, 97, 98, 99].map(Partition));
    }

    fn known_len(flows: &RegisteredFlows) -> u64 {
        let lens = flows.shards.iter().map(lock);
        lens.map(|shard| (shard.young.len() + shard.old.len()) as u64)
            .sum()
    }

    #[test]
    fn flows_that_are_not_used_are_forgotten_and_others_stay() {
        let flows = RegisteredFlows::new(1, 100);
        flows.registered(flow(0), Partition(3));
        flows.registered(flow(1), Partition(3));
        for number in 2..1_000_000 {
            flows.registered(flow(number), Partition(3));
            if number % 1_000 == 0 {
                assert_eq!(flows.heard(flow(0), at(number.into())), [Partition(3)]);
            }
        }
        assert_eq!(flows.heard(flow(1), at(1)), []);
        let known = known_len(&flows);
        assert!(known <= PLACES, "{known}");
        assert_eq!(flows.forgotten_count() + known, 1_000_000);
    }

    /// It has an account, and an address with many ports.
    #[test]
    fn a_source_has_its_share_and_displaces_nobody() {
        let flows = RegisteredFlows::new(1, 10);
        let others = 1000;
        for number in 0..others {
            flows.registered(flow(number), Partition(3));
        }
        let mut refused = 0;
        for number in 0..200_000_u32 {
            let local = SocketAddr::from(([192, 0, 2, 1], 5060));
            let remote = SocketAddr::from(([198, 51, 100, 1], number as u16));
            let greedy = Flow {
                connection: number >> 16,
                ..Flow::udp(local, remote)
            };
            flows.registered(greedy, Partition(3));
            refused = flows.over_share_count();
        }
        let taken = PLACES / 10;
        assert_eq!(refused, 200_000 - taken);
        assert_eq!(known_len(&flows), u64::from(others) + taken);
        for number in 0..others {
            assert_eq!(flows.heard(flow(number), at(1)), [Partition(3)]);
        }
        assert_eq!(flows.forgotten_count(), 0);
    }

    #[test]
    fn what_is_forgotten_is_given_back() {
        let flows = RegisteredFlows::new(1, 10);
        // From 2,000 sources each the same, so that some of all are forgotten.
        for number in 0..700_000_u32 {
            let [_, _, a, b] = (number % 2_000).to_be_bytes();
            let remote = SocketAddr::from(([10, 0, a, b], (number / 2_000) as u16));
            let local = SocketAddr::from(([192, 0, 2, 1], 5060));
            flows.registered(Flow::udp(local, remote), Partition(3));
        }
        assert_eq!(flows.len(), known_len(&flows));
        assert_eq!(flows.over_share_count(), 0);
        assert!(flows.forgotten_count() > 100_000);
    }
}
