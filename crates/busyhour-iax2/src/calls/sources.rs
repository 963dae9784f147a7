//! How many calls each source has: an IPv4 address or an IPv6 network of 64 bits.

use std::collections::HashMap;
use std::net::IpAddr;

use busyhour_sip::source_of;
use foldhash::quality::FixedState;

/// Counts the calls of each IP address that has any.
#[derive(Debug)]
pub(super) struct Sources {
    counts: HashMap<IpAddr, usize, FixedState>,
}

impl Sources {
    pub fn new(seed: u64) -> Self {
        Self {
            counts: HashMap::with_hasher(FixedState::with_seed(seed)),
        }
    }

    pub fn count(&self, source: IpAddr) -> usize {
        self.counts.get(&source_of(source)).copied().unwrap_or(0)
    }

    pub fn add(&mut self, source: IpAddr) {
        *self.counts.entry(source_of(source)).or_default() += 1;
    }

    /// An address without calls is forgotten.
    pub fn remove(&mut self, source: IpAddr) {
        let source = source_of(source);
        if let Some(count) = self.counts.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_calls_is_forgotten() {
        let (one, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let mut sources = Sources::new(1);
        sources.add(one);
        sources.add(one);
        sources.add(other);
        sources.remove(one);
        assert_eq!((sources.count(one), sources.count(other)), (1, 1));
        sources.remove(one);
        sources.remove(one);
        assert_eq!((sources.count(one), sources.counts.len()), (0, 1));
    }
}
