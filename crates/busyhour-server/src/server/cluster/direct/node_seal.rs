//! How a datagram between nodes is written, so that nobody else can write or read one.
//!
//! ```text
//! version (1) │ node (2) │ epoch (8) │ number (8) │ sealed: bytes, kind (1) │ tag (16)
//! ```

use busyhour::buffer::{Buffer, BufferMut, BufferPool};
use busyhour_cluster::{Member, NodeNumber};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Salt},
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Random bytes that a process chooses when it begins. A database that has lost its last commits may
/// count an epoch twice; this makes a key of each process all the same.
pub(super) type LifeSalt = [u8; LIFE_SALT_LEN];

/// What one life of a node seals, and others open.
pub(super) struct NodeSeal {
    member: Member,
    key: LessSafeKey,
    /// Of its last datagram. Each number is used once, since each process has its own key.
    last: AtomicU64,
}

/// A datagram as it came.
pub(super) struct SealedDatagram<'b> {
    /// Who says that it has sent it.
    pub(super) sender: Member,
    pub(super) number: u64,
    head: &'b [u8],
    sealed: &'b [u8],
}

impl NodeSeal {
    /// `None` if the system refuses it, which it never does with keys of this length.
    pub(super) fn new(secret: &[u8; 32], salt: &LifeSalt, member: Member) -> Option<Self> {
        let name = member_bytes(member);
        let info = [&b"busyhour node datagrams"[..], &name];
        let pseudo_random = Salt::new(HKDF_SHA256, salt).extract(secret);
        let key = pseudo_random.expand(&info, &AES_256_GCM).ok()?;
        Some(Self {
            member,
            key: LessSafeKey::new(UnboundKey::from(key)),
            last: AtomicU64::new(0),
        })
    }

    /// A datagram with these bytes, one part behind the other, for a node; `None` if there is no room for it.
    pub(super) fn seal(
        &self,
        to: u16,
        kind: u8,
        [first, second]: [&[u8]; 2],
        buffers: &BufferPool,
    ) -> Option<Buffer> {
        let number = 1 + self.last.fetch_add(1, Ordering::Relaxed);
        let bytes_len = first.len() + second.len();
        let len = HEAD_LEN + 1 + bytes_len + AES_256_GCM.tag_len();
        let mut datagram = buffers.alloc(len).ok()?;
        let (head, rest) = datagram.split_at_mut(HEAD_LEN);
        head[0] = VERSION;
        head[1..11].copy_from_slice(&member_bytes(self.member));
        head[11..].copy_from_slice(&number.to_be_bytes());
        let (inside, tag) = rest.split_at_mut(1 + bytes_len);
        inside[..first.len()].copy_from_slice(first);
        inside[first.len()..bytes_len].copy_from_slice(second);
        inside[bytes_len] = kind;
        let sealed = (self.key).seal_in_place_separate_tag(nonce(number), known(head, to), inside);
        tag.copy_from_slice(sealed.ok()?.as_ref());
        Some(datagram.freeze())
    }

    /// What a datagram of this member says to a node, and of which kind it is; `None` if it is
    /// not sealed by it for that node, or there is no room for it.
    pub(super) fn open(
        &self,
        datagram: &SealedDatagram<'_>,
        to: u16,
        buffers: &BufferPool,
    ) -> Option<(u8, BufferMut)> {
        let mut bytes = buffers.alloc(datagram.sealed.len()).ok()?;
        bytes.copy_from_slice(datagram.sealed);
        let known = known(datagram.head, to);
        let opened = (self.key).open_in_place(nonce(datagram.number), known, &mut bytes);
        let (kind, said) = opened.ok()?.split_last()?;
        let (kind, len) = (*kind, said.len());
        bytes.truncate(len);
        Some((kind, bytes))
    }
}

impl<'b> SealedDatagram<'b> {
    /// `None` for what no node of this version sends.
    pub(super) fn read(datagram: &'b [u8]) -> Option<Self> {
        let (head, sealed) = datagram.split_at_checked(HEAD_LEN)?;
        let node = u16::from_be_bytes(head[1..3].try_into().ok()?);
        let epoch = u64::from_be_bytes(head[3..11].try_into().ok()?);
        let number = u64::from_be_bytes(head[11..].try_into().ok()?);
        let sender = Member {
            node: NodeNumber(node),
            epoch,
        };
        (head[0] == VERSION).then_some(Self {
            sender,
            number,
            head,
            sealed,
        })
    }
}

/// What is not in the sealed bytes and must be the same on both sides.
fn known(head: &[u8], to: u16) -> Aad<[u8; HEAD_LEN + 2]> {
    let mut known = [0; HEAD_LEN + 2];
    known[..HEAD_LEN].copy_from_slice(head);
    known[HEAD_LEN..].copy_from_slice(&to.to_be_bytes());
    Aad::from(known)
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn member_bytes(member: Member) -> [u8; 10] {
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&member.node.0.to_be_bytes());
    bytes[2..].copy_from_slice(&member.epoch.to_be_bytes());
    bytes
}

/// Version 1 had keys without the salt.
const VERSION: u8 = 2;
const HEAD_LEN: usize = 19;
/// As long as what the key is made with (RFC 5869 §3.1).
pub(super) const LIFE_SALT_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn member(node: u16, epoch: u64) -> Member {
        Member {
            node: NodeNumber(node),
            epoch,
        }
    }

    fn seal(secret: u8, member: Member) -> NodeSeal {
        salted(secret, 0, member)
    }

    fn salted(secret: u8, salt: u8, member: Member) -> NodeSeal {
        NodeSeal::new(&[secret; 32], &[salt; LIFE_SALT_LEN], member).expect("a key")
    }

    fn opened(
        (seal, buffers): (&NodeSeal, &BufferPool),
        datagram: &SealedDatagram<'_>,
        to: u16,
    ) -> Option<(u8, Vec<u8>)> {
        let (kind, bytes) = seal.open(datagram, to, buffers)?;
        Some((kind, bytes.to_vec()))
    }

    #[test]
    fn a_process_with_the_epoch_of_another_one_has_another_key() {
        let buffers = BufferPool::builder().build().expect("a pool");
        let seals = [salted(1, 4, member(2, 7)), salted(1, 5, member(2, 7))];
        let [first, second] = seals
            .each_ref()
            .map(|seal| seal.seal(3, 0, [&[0; 64], &[]], &buffers).expect("room"));
        let sealed = |datagram: &[u8]| datagram[HEAD_LEN..].to_vec();
        assert_eq!(first[..HEAD_LEN], second[..HEAD_LEN], "the same nonce");
        let [one, other] = [&first, &second].map(|it| sealed(it));
        let alike = one.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(alike < 16, "two streams of one key would be equal");
        let read = SealedDatagram::read(&second).expect("it is one");
        assert_eq!(opened((&seals[0], &buffers), &read, 3), None);
        assert!(opened((&seals[1], &buffers), &read, 3).is_some());
    }

    #[test]
    fn only_the_node_that_it_is_for_opens_what_a_life_has_sealed() {
        let buffers = BufferPool::builder().build().expect("a pool");
        let sender = seal(1, member(2, 7));
        let datagram = sender.seal(3, 9, [b"hel", b"lo"], &buffers).expect("room");
        let read = SealedDatagram::read(&datagram).expect("it is one");
        assert_eq!((read.sender, read.number), (member(2, 7), 1));
        assert_eq!(
            opened((&sender, &buffers), &read, 3),
            Some((9, b"hello".to_vec()))
        );
        assert_eq!(opened((&sender, &buffers), &read, 4), None, "another node");
        for (other, why) in [
            (seal(2, member(2, 7)), "another secret"),
            (seal(1, member(2, 8)), "another life"),
        ] {
            assert_eq!(opened((&other, &buffers), &read, 3), None, "{why}");
        }
        assert!(!datagram.windows(5).any(|bytes| bytes == b"hello"));
    }

    #[test]
    fn a_bit_that_has_changed_anywhere_is_noticed() {
        let buffers = BufferPool::builder().build().expect("a pool");
        let sender = seal(1, member(2, 7));
        let datagram = sender.seal(3, 0, [b"BYE", b""], &buffers).expect("room");
        for bit in 0..8 * datagram.len() {
            let mut changed = datagram.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            let read = SealedDatagram::read(&changed);
            let opened = read.and_then(|read| opened((&sender, &buffers), &read, 3));
            assert_eq!(opened, None, "bit {bit}");
        }
        for len in 0..datagram.len() {
            let read = SealedDatagram::read(&datagram[..len]);
            assert_eq!(
                read.and_then(|read| opened((&sender, &buffers), &read, 3)),
                None
            );
        }
    }
}
