//! Flows of this node's sockets, as all nodes and the database know them.
//!
//! A process counts its connections from one up, and so does the next life of the node. What one of them is called in the
//! database must not be the name of one of the next life. So a node begins to count at a number of its life. The beginnings
//! of lives lie far apart: those of a thousand lives in a row by two million connections, those of ten by more than a
//! hundred million. For a connection to be taken for one of an earlier life, its life must have had so many, and both
//! addresses must be the same, too.

use busyhour_cluster::Member;
use busyhour_sip::Flow;

/// How this life of the node calls its flows; a server alone calls them as its sockets do.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::server) struct OwnFlows {
    node: u16,
    /// What is added to the numbers of connections.
    first: u64,
}

impl OwnFlows {
    pub(in crate::server) fn of_life(member: Member) -> Self {
        Self {
            node: member.node.0,
            first: u64::from((member.epoch as u32).wrapping_mul(GOLDEN_RATIO)) % NUMBERS,
        }
    }

    /// A flow of the sockets, as all know it.
    pub(in crate::server) fn named(self, flow: Flow) -> Flow {
        Flow {
            node: self.node,
            connection: moved(flow.connection, self.first),
            ..flow
        }
    }

    /// A flow of ours, as the sockets know it.
    pub(in crate::server) fn bare(self, flow: Flow) -> Flow {
        Flow {
            node: 0,
            connection: moved(flow.connection, NUMBERS - self.first),
            ..flow
        }
    }
}

/// 0 is no connection.
fn moved(connection: u32, by: u64) -> u32 {
    match connection.checked_sub(1) {
        None => 0,
        Some(number) => ((u64::from(number) + by) % NUMBERS) as u32 + 1,
    }
}

const NUMBERS: u64 = u32::MAX as u64;
/// 2^32 divided by the golden ratio: its multiples lie as far apart as so many numbers can.
const GOLDEN_RATIO: u32 = 0x9e37_79b9;

#[cfg(test)]
mod tests {
    use super::*;
    use busyhour_cluster::NodeNumber;
    use busyhour_sip::Transport;

    fn life(epoch: u64) -> OwnFlows {
        let node = NodeNumber(3);
        OwnFlows::of_life(Member { node, epoch })
    }

    fn flow(connection: u32) -> Flow {
        let address = std::net::SocketAddr::from(([192, 0, 2, 1], 5060));
        Flow {
            transport: Transport::Tcp,
            connection,
            ..Flow::udp(address, address)
        }
    }

    #[test]
    fn a_flow_that_was_named_is_known_again() {
        for own in [OwnFlows::default(), life(1), life(2), life(1 << 40)] {
            for connection in [0, 1, 2, 1_000_000, u32::MAX - 1, u32::MAX] {
                let named = own.named(flow(connection));
                assert_eq!(own.bare(named), flow(connection));
                assert_eq!(named.connection == 0, connection == 0);
            }
        }
        let alone = OwnFlows::default().named(flow(7));
        assert_eq!(alone, flow(7));
        assert_eq!(life(1).named(flow(7)).node, 3);
    }

    #[test]
    fn lives_begin_to_count_far_apart() {
        let least = |lives: u64| {
            let mut all: Vec<u32> = (1..=lives)
                .map(|epoch| life(epoch).named(flow(1)).connection)
                .collect();
            all.sort_unstable();
            let around = u64::from(all[0]) + NUMBERS - u64::from(all[all.len() - 1]);
            let gaps = all.windows(2).map(|two| u64::from(two[1] - two[0]));
            gaps.min().map_or(around, |gap| gap.min(around))
        };
        assert!(least(10) > 100_000_000, "{}", least(10));
        assert!(least(1_000) > 1_000_000, "{}", least(1_000));
    }
}
