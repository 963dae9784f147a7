//! Loop detection (RFC 3261 §16.3 step 4 and §16.6 step 8, RFC 5393 §4.2).

use super::BranchParameter;
use crate::keyed_hash::{KeyedHash, Purpose};
use busyhour_sip::{HeaderName, Message, Start};
use std::hash::Hasher;

/// Finds requests that have been here before and would take the same way again.
///
/// All tables of a server need the same seed, which must stay secret. Its hashes leave in each
/// Via, of headers that the sender chooses, and tell nothing of the seed.
#[derive(Debug, Clone)]
pub struct LoopDetection {
    hash: KeyedHash,
}

impl LoopDetection {
    /// Detection with this seed.
    pub fn new(seed: u64) -> Self {
        Self {
            hash: KeyedHash::new(seed, Purpose::Loops),
        }
    }

    /// A hash of every field that decides where a request goes. The method is not in it:
    /// ACK and CANCEL go the way of their INVITE.
    pub(super) fn hash(&self, request: &Message<'_>) -> u64 {
        let mut state = self.hash.start();
        if let Start::Request { uri, .. } = request.start() {
            state.write(uri.as_bytes());
        }
        for name in DECIDING {
            state.write_u8(name as u8);
            for value in request.headers(name) {
                state.write(value.as_bytes());
                state.write_u8(0xff);
            }
        }
        state.write_u32(request.cseq().map_or(0, |cseq| cseq.number));
        state.finish()
    }

    /// Whether one of the Vias is ours, of the same fields.
    pub(super) fn is_loop(&self, request: &Message<'_>, hash: u64) -> bool {
        let mut vias = request.vias().filter_map(Result::ok);
        vias.any(|via| via.branch().and_then(BranchParameter::loop_hash) == Some(hash))
    }

    /// A hash of the branch with which a request came.
    pub(crate) fn received_branch(&self, request: &Message<'_>) -> u64 {
        let mut state = self.hash.start();
        state.write(request.header(HeaderName::Via).unwrap_or("").as_bytes());
        state.finish()
    }
}

const DECIDING: [HeaderName; 6] = [
    HeaderName::Route,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::ProxyRequire,
    HeaderName::ProxyAuthorization,
];
