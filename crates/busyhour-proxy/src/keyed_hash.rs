//! Hashes that leave in messages.

use siphasher::sip::SipHasher24;
use std::{
    fmt,
    hash::{Hash, Hasher},
};

/// SipHash-2-4 with a secret key. Whoever has seen its values, of whatever inputs he has chosen,
/// learns neither the key nor another value. The hashes of tables hide nothing of the kind, so
/// none of those is sent.
#[derive(Clone)]
pub(crate) struct KeyedHash(SipHasher24);

impl KeyedHash {
    /// The hash of a purpose. Those of one seed tell nothing of each other.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self(SipHasher24::new_with_keys(seed, purpose as u64))
    }

    /// A hash to write into.
    pub fn start(&self) -> impl Hasher {
        self.0
    }

    /// The hash of a value.
    pub fn of(&self, value: impl Hash) -> u64 {
        let mut state = self.start();
        value.hash(&mut state);
        state.finish()
    }
}

impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHash(…)")
    }
}

/// What is hashed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// What decides where a request goes.
    Loops,
    /// The numbers of transactions.
    Transactions,
    /// Those of their branches.
    Branches,
    /// The tags of our own responses.
    Tags,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_the_seed_the_purpose_and_the_value() {
        let hash = |seed, purpose, value: u64| KeyedHash::new(seed, purpose).of(value);
        let mut hashes = vec![
            hash(1, Purpose::Tags, 7),
            hash(2, Purpose::Tags, 7),
            hash(1, Purpose::Branches, 7),
            hash(1, Purpose::Tags, 8),
        ];
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 4);
        assert_eq!(hash(1, Purpose::Tags, 7), hash(1, Purpose::Tags, 7));
    }
}
