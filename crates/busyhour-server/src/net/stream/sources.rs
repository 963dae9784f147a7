use crate::registrar::source_of;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
};

/// What each source of connections has of us.
#[derive(Default)]
pub(super) struct Sources {
    /// Seeded, since sources choose themselves.
    shares: HashMap<IpAddr, Share, RandomState>,
}

/// What one source has.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Share {
    pub(super) connections: usize,
    /// Those of them whose encryption is still being agreed on.
    pub(super) handshakes: usize,
}

impl Sources {
    pub(super) fn share(&self, remote: SocketAddr) -> Share {
        let share = self.shares.get(&source_of(remote.ip())).copied();
        share.unwrap_or_default()
    }

    pub(super) fn connected(&mut self, remote: SocketAddr, shakes_hands: bool) {
        let share = self.shares.entry(source_of(remote.ip())).or_default();
        share.connections += 1;
        share.handshakes += usize::from(shakes_hands);
    }

    pub(super) fn handshake_ended(&mut self, remote: SocketAddr) {
        if let Some(share) = self.shares.get_mut(&source_of(remote.ip())) {
            share.handshakes -= 1;
        }
    }

    /// Its handshake has ended, if there was one.
    pub(super) fn disconnected(&mut self, remote: SocketAddr) {
        let source = source_of(remote.ip());
        if let Some(share) = self.shares.get_mut(&source) {
            share.connections -= 1;
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
        sources.connected(one, true);
        sources.connected(one, false);
        sources.connected(other, true);
        let share = Share {
            connections: 2,
            handshakes: 1,
        };
        assert_eq!(sources.share(one), share);
        sources.handshake_ended(one);
        sources.disconnected(one);
        sources.disconnected(one);
        assert_eq!(sources.share(one), Share::default());
        sources.handshake_ended(other);
        sources.disconnected(other);
        assert_eq!(sources.shares.len(), 0);
    }
}
