//! What makes a request the same request.

use busyhour_sip::{HeaderName, Host, Message, Method, Start};
use foldhash::quality::FixedState;
use std::hash::{BuildHasher, Hasher};

/// Hashes everything that makes a request the same request (RFC 3261 §17.2.3), long enough that
/// two never share it. ACK and CANCEL have that of their INVITE. Nothing of it is sent.
pub(super) struct RequestKeys([FixedState; 2]);

impl RequestKeys {
    pub fn new(seed: u64) -> Self {
        let hasher = FixedState::with_seed(seed);
        Self([0u8, 1].map(|part| FixedState::with_seed(hasher.hash_one(part))))
    }

    pub fn of(&self, request: &Message<'_>) -> u128 {
        let mut states = Two(self.0.each_ref().map(BuildHasher::build_hasher));
        hash_request(request, &mut states);
        let [low, high] = states.0.map(|state| state.finish());
        u128::from(high) << 64 | u128::from(low)
    }
}

/// Two hashes of the same.
struct Two<H>([H; 2]);

impl<H: Hasher> Two<H> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|state| state.write(bytes));
    }

    fn write_u32(&mut self, number: u32) {
        self.0.iter_mut().for_each(|state| state.write_u32(number));
    }
}

fn hash_request(request: &Message<'_>, state: &mut Two<impl Hasher>) {
    let branch = request.via().ok().and_then(|via| {
        hash_host(&via.host, state);
        state.write_u32(via.port.map_or(0, |port| u32::from(port) + 1));
        via.branch()
    });
    match branch.filter(|branch| branch.starts_with("z9hG4bK")) {
        Some(branch) => state.write(branch.as_bytes()),
        // RFC 2543: all that does not differ between a request and its ACK.
        None => {
            let via = request.header(HeaderName::Via).unwrap_or("");
            state.write(via.as_bytes());
            if let Start::Request { uri, .. } = request.start() {
                state.write(uri.as_bytes());
            }
        }
    }
    for name in [HeaderName::CallId, HeaderName::From] {
        state.write(&[0xff]);
        state.write(request.header(name).unwrap_or("").as_bytes());
    }
    state.write_u32(request.cseq().map_or(0, |cseq| cseq.number));
    match request.method() {
        Some(Method::Ack | Method::Cancel | Method::Invite) | None => state.write(b"INVITE"),
        Some(method) => state.write(method.as_str().as_bytes()),
    }
}

fn hash_host(host: &Host<'_>, state: &mut Two<impl Hasher>) {
    match host {
        Host::Name(name) => name
            .bytes()
            .for_each(|it| state.write(&[it.to_ascii_lowercase()])),
        Host::V4(address) => state.write(&address.octets()),
        Host::V6(address) => state.write(&address.octets()),
    }
}
