use busyhour_sip::source_of;
use foldhash::fast::RandomState;
use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::AtomicUsize},
};

/// What each source of connections has of us.
#[derive(Default)]
pub(super) struct Sources {
    /// Seeded, since sources choose themselves.
    shares: HashMap<IpAddr, Share, RandomState>,
}

/// What one source has.
#[derive(Default)]
struct Share {
    connections: usize,
    /// Those of them whose encryption is still being agreed on.
    handshakes: usize,
    /// Those that may have to give way, the oldest first; some of them are no
    /// untrusted any more.
    untrusted: BTreeSet<u64>,
    /// Bytes that wait to be sent on them.
    waiting_bytes: Arc<AtomicUsize>,
}

impl Sources {
    pub(super) fn connections(&self, remote: SocketAddr) -> usize {
        self.share(remote).map_or(0, |share| share.connections)
    }

    pub(super) fn handshakes(&self, remote: SocketAddr) -> usize {
        self.share(remote).map_or(0, |share| share.handshakes)
    }

    /// The sum of what waits to be sent to a source, as its connections keep it.
    pub(super) fn waiting_bytes(&self, remote: SocketAddr) -> Arc<AtomicUsize> {
        let share = self.share(remote);
        share.map_or_else(Arc::default, |share| share.waiting_bytes.clone())
    }

    /// Takes the connection out of the list of those that are untrusted, where it may have been for
    /// longest.
    pub(super) fn pop_stranger(&mut self, remote: SocketAddr) -> Option<u64> {
        let share = self.shares.get_mut(&source_of(remote.ip()))?;
        share.untrusted.pop_first()
    }

    pub(super) fn connected(
        &mut self,
        remote: SocketAddr,
        token: u64,
        shakes_hands: bool,
        waiting_bytes: &Arc<AtomicUsize>,
    ) {
        let share = self.shares.entry(source_of(remote.ip())).or_default();
        if share.connections == 0 {
            share.waiting_bytes = waiting_bytes.clone();
        }
        share.connections += 1;
        share.handshakes += usize::from(shakes_hands);
        share.untrusted.insert(token);
    }

    fn share(&self, remote: SocketAddr) -> Option<&Share> {
        self.shares.get(&source_of(remote.ip()))
    }

    pub(super) fn handshake_ended(&mut self, remote: SocketAddr) {
        if let Some(share) = self.shares.get_mut(&source_of(remote.ip())) {
            share.handshakes -= 1;
        }
    }

    /// Its handshake has ended, if there was one.
    pub(super) fn disconnected(&mut self, remote: SocketAddr, token: u64) {
        let source = source_of(remote.ip());
        if let Some(share) = self.shares.get_mut(&source) {
            share.connections -= 1;
            share.untrusted.remove(&token);
            if share.connections == 0 {
                self.shares.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_of_a_source_that_has_nothing() {
        let (one, other) = (([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 1).into());
        let mut sources = Sources::default();
        let waiting = sources.waiting_bytes(one);
        sources.connected(one, 1, true, &waiting);
        sources.connected(one, 2, false, &sources.waiting_bytes(one));
        sources.connected(other, 3, true, &sources.waiting_bytes(other));
        assert_eq!((sources.connections(one), sources.handshakes(one)), (2, 1));
        assert!(Arc::ptr_eq(&sources.waiting_bytes(one), &waiting));
        sources.handshake_ended(one);
        assert_eq!(sources.pop_stranger(one), Some(1));
        sources.disconnected(one, 1);
        sources.disconnected(one, 2);
        assert_eq!((sources.connections(one), sources.handshakes(one)), (0, 0));
        sources.handshake_ended(other);
        sources.disconnected(other, 3);
        assert_eq!(sources.shares.len(), 0);
    }
}
