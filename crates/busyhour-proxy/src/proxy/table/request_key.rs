//! What makes a request the same request.

use busyhour_sip::{HeaderName, Host, Message, Method, Start, UnreadRequest, Via};
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
        let header = |name| request.header(name).unwrap_or("");
        self.hash(&RequestNames {
            via: request.via().ok().as_ref(),
            via_line: header(HeaderName::Via),
            uri: match request.start() {
                Start::Request { uri, .. } => uri,
                Start::Response { .. } => "",
            },
            call_id: header(HeaderName::CallId),
            from: header(HeaderName::From),
            number: request.cseq().map_or(0, |cseq| cseq.number),
            method: request.method(),
        })
    }

    /// The same for a request that was not read.
    pub fn of_unread(&self, request: &UnreadRequest<'_>) -> u128 {
        self.hash(&RequestNames {
            via: Some(request.via()),
            via_line: request.header(HeaderName::Via),
            uri: request.uri(),
            call_id: request.header(HeaderName::CallId),
            from: request.header(HeaderName::From),
            number: request.cseq().number,
            method: Some(request.method()),
        })
    }

    fn hash(&self, names: &RequestNames<'_>) -> u128 {
        let mut states = Two(self.0.each_ref().map(BuildHasher::build_hasher));
        names.hash(&mut states);
        let [low, high] = states.0.map(|state| state.finish());
        u128::from(high) << 64 | u128::from(low)
    }
}

/// All that makes a request the same request.
struct RequestNames<'n> {
    /// The topmost Via, if it can be read.
    via: Option<&'n Via<'n>>,
    via_line: &'n str,
    uri: &'n str,
    call_id: &'n str,
    from: &'n str,
    number: u32,
    method: Option<Method<'n>>,
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

impl RequestNames<'_> {
    fn hash(&self, state: &mut Two<impl Hasher>) {
        let branch = self.via.and_then(|via| {
            hash_host(&via.host, state);
            state.write_u32(via.port.map_or(0, |port| u32::from(port) + 1));
            via.branch()
        });
        match branch.filter(|branch| branch.starts_with("z9hG4bK")) {
            Some(branch) => state.write(branch.as_bytes()),
            // RFC 2543: all that does not differ between a request and its ACK.
            None => {
                state.write(self.via_line.as_bytes());
                state.write(self.uri.as_bytes());
            }
        }
        for name in [self.call_id, self.from] {
            state.write(&[0xff]);
            state.write(name.as_bytes());
        }
        state.write_u32(self.number);
        match self.method {
            Some(Method::Ack | Method::Cancel | Method::Invite) | None => state.write(b"INVITE"),
            Some(method) => state.write(method.as_str().as_bytes()),
        }
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
