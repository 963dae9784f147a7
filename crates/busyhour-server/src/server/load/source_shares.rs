//! How much the sources of requests may have of something that is given before anybody has proved who he is, or where accounts
//! make no difference.

use super::shares::{Cells, Holder, Holders, Parts, Shares};
use crate::server::stats::counters::Counter;
use std::net::IpAddr;

/// Places, and who has how many.
pub(in crate::server) struct SourceShares {
    holders: Holders,
    shares: Shares,
    refused: Counter,
}

impl SourceShares {
    /// So many places, of which one source has at most so many percent. Nobody may guess the seed.
    pub(in crate::server) fn new(bound: u64, by_source: u64, seed: u64) -> Self {
        let parts = Parts {
            by_source,
            by_account: 100,
            by_domain: 100,
            least: 1,
        };
        Self {
            holders: Holders::new(seed),
            shares: Shares::new(bound, parts),
            refused: Counter::default(),
        }
    }

    /// Takes a place, which is given back later. `None`, counted, if the source has its share, or if there is none.
    pub(in crate::server) fn take(&self, source: IpAddr) -> Option<Cells> {
        let holder = self.holders.of(source, None);
        match self.shares.take(holder, 1) {
            Ok(()) => Some(holder.source()),
            Err(_) => {
                self.refused.increment();
                None
            }
        }
    }

    pub(in crate::server) fn give_back(&self, source: Cells) {
        self.shares.give_back(Holder::of_source(source), 1);
    }

    /// Places that are taken.
    pub(in crate::server) fn used(&self) -> u64 {
        self.shares.used()
    }

    /// How often nobody was given a place.
    pub(in crate::server) fn refused_count(&self) -> u64 {
        self.refused.get()
    }
}
