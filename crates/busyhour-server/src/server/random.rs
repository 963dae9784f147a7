//! Values that clients must not be able to guess, and their source.

use busyhour::runtime::Runtime;
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;
use std::{
    hash::Hasher,
    net::{IpAddr, SocketAddr},
};
use thiserror::Error;

/// Secrets of one process; those of a simulation follow from its seed.
pub(super) struct Secrets {
    tag_key: [u8; 32],
    /// Begins the name of each request; it has the key in it.
    names: SipHasher24,
    seed_key: [u8; 32],
}

/// Numbers that leave in messages. Whoever has seen some of them, which SipHash-2-4 makes of a
/// secret seed, cannot tell another one.
#[derive(Clone)]
pub(super) struct Numbers(SipHasher24);

/// The operating system gives no random numbers.
#[derive(Debug, Error)]
#[error("the operating system gives no random numbers: {0}")]
pub struct RandomError(String);

impl Secrets {
    pub(super) fn new(runtime: &Runtime) -> Result<Self, RandomError> {
        let seed_key = random_key(runtime)?;
        let tag_key = random_key(runtime)?;
        Ok(Self {
            names: name_hasher(&tag_key),
            tag_key,
            seed_key,
        })
    }

    /// The seed of a table's hash function. The hashes of tables do not hide their seeds, so each
    /// table has its own, which tells nothing of another one.
    pub(super) fn seed(&self, table: &str) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.seed_key);
        hash.update(table);
        first_bytes(hash)
    }

    /// The unguessable part of a watcher's tag.
    pub(super) fn tag(&self, id: u64) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.tag_key);
        hash.update(id.to_le_bytes());
        first_bytes(hash)
    }

    /// Hashes a request: its source and each of its bytes. Without the key nobody can
    /// make another request with the same hash: SipHash-2-4 is designed for that, and
    /// costs a tenth of SHA-256 for a whole request.
    pub(super) fn name_of(&self, source: SocketAddr, request: &[u8]) -> u64 {
        let address = match source.ip() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mut hash = self.names;
        hash.write(&address.octets());
        hash.write(&source.port().to_le_bytes());
        hash.write(request);
        hash.finish()
    }
}

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(SipHasher24::new_with_keys(seed, 0))
    }

    /// The number in this place, the same each time.
    pub(super) fn at(&self, place: u64) -> u64 {
        let mut hash = self.0;
        hash.write_u64(place);
        hash.finish()
    }
}

/// Hashes with a separate key, derived from the key of tags; the input is longer than
/// that of any tag, so the result is not a tag.
fn name_hasher(tag_key: &[u8; 32]) -> SipHasher24 {
    let mut hash = Sha256::new();
    hash.update(tag_key);
    hash.update(b"names of requests");
    let mut key = [0; 16];
    key.copy_from_slice(&hash.finalize()[..16]);
    SipHasher24::new_with_key(&key)
}

fn first_bytes(hash: Sha256) -> u64 {
    let hash = hash.finalize();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    u64::from_le_bytes(bytes)
}

/// A key of 256 bits.
pub(super) fn random_key(runtime: &Runtime) -> Result<[u8; 32], RandomError> {
    let mut key = [0; 32];
    match runtime.simulation() {
        None => getrandom::fill(&mut key).map_err(|error| RandomError(error.to_string()))?,
        Some(simulation) => {
            for part in key.chunks_exact_mut(8) {
                part.copy_from_slice(&simulation.random_u64().to_le_bytes());
            }
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_a_seed_of_its_own_and_each_place_a_number() {
        let secrets = |seed| Secrets::new(&Runtime::simulated(seed)).expect("random numbers");
        let seed = secrets(1).seed("calls");
        assert_eq!(seed, secrets(1).seed("calls"));
        let numbers = Numbers::new(seed);
        let mut all = vec![seed, secrets(1).seed("peers"), secrets(2).seed("calls")];
        all.extend([0, 1].map(|place| numbers.at(place)));
        all.push(Numbers::new(all[1]).at(0));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_name_of_a_request_depends_on_every_byte_the_source_and_the_key() {
        let secrets = |seed| Secrets::new(&Runtime::simulated(seed)).expect("random numbers");
        let here: SocketAddr = "192.0.2.1:5060".parse().expect("an address");
        let name = |source, request: &[u8]| secrets(1).name_of(source, request);
        let request = [b'r'; 100];
        let mapped = "[::ffff:192.0.2.1]:5060".parse().expect("an address");
        assert_eq!(name(here, &request), name(mapped, &request));
        let mut names = vec![
            name(here, &request),
            name(here, &request[1..]),
            name("192.0.2.1:5061".parse().expect("an address"), &request),
            name("192.0.2.2:5060".parse().expect("an address"), &request),
            secrets(2).name_of(here, &request),
        ];
        for at in 0..request.len() {
            let mut other = request;
            other[at] ^= 1;
            names.push(name(here, &other));
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
