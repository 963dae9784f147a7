//! A relay that handles the offers for two telephones far apart, as one does whose threads wait for a processor.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Stands before a relay, until it is dropped: the relay gets the second offer when it has replied to the first answer, and at the latest
/// when the server asks for the third time, before it gives up.
pub struct LateOffer {
    /// For the server.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// The relay has replied to the second offer.
    is_replied: AtomicBool,
}

/// Passes datagrams between the server and the relay.
struct Forwarder {
    socket: UdpSocket,
    relay: SocketAddr,
    server: Option<SocketAddr>,
    /// The cookies of the first offer, the second one, and the first answer.
    first: Option<String>,
    second: Option<String>,
    answer: Option<String>,
    /// The second offer, until the relay has replied to an answer.
    held: Option<Vec<u8>>,
    /// How often the server has sent the second offer.
    copies: u32,
}

impl LateOffer {
    pub fn before(relay: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let patience = Some(Duration::from_millis(20));
        socket.set_read_timeout(patience).expect("a timeout");
        let address = socket.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let mut forwarder = Forwarder {
            socket,
            relay,
            server: None,
            first: None,
            second: None,
            answer: None,
            held: None,
            copies: 0,
        };
        let seen = shared.clone();
        let thread = thread::spawn(move || forwarder.run(&seen));
        Self {
            address,
            shared,
            thread: Some(thread),
        }
    }

    /// Whether the relay has replied to the second offer.
    pub fn is_replied(&self) -> bool {
        self.shared.is_replied.load(Ordering::Acquire)
    }
}

impl Drop for LateOffer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

impl Forwarder {
    fn run(&mut self, shared: &Shared) {
        let mut room = [0; 65_536];
        while !shared.is_over.load(Ordering::Acquire) {
            let Ok((len, from)) = self.socket.recv_from(&mut room) else {
                continue;
            };
            if from == self.relay {
                self.replied(&room[..len], shared);
            } else {
                self.server = Some(from);
                self.asked(&room[..len]);
            }
        }
    }

    fn asked(&mut self, datagram: &[u8]) {
        let text = String::from_utf8_lossy(datagram);
        let cookie = Some(cookie_of(datagram));
        if text.contains("7:command5:offer") {
            if self.first.is_none() {
                self.first = cookie;
            } else if self.second.is_none() && self.first != cookie {
                self.second = cookie;
                self.held = Some(datagram.to_vec());
            }
        } else if text.contains("7:command6:answer") && self.answer.is_none() {
            self.answer = cookie;
        }
        if self.second == Some(cookie_of(datagram)) {
            self.copies += 1;
            if self.held.is_some() && self.copies < COPIES_MAX {
                return;
            }
            self.held = None;
        }
        self.send(datagram, self.relay);
    }

    fn replied(&mut self, datagram: &[u8], shared: &Shared) {
        self.send(datagram, self.server.expect("it has asked"));
        let cookie = Some(cookie_of(datagram));
        if cookie == self.answer
            && let Some(offer) = self.held.take()
        {
            self.send(&offer, self.relay);
        }
        if cookie == self.second {
            shared.is_replied.store(true, Ordering::Release);
        }
    }

    fn send(&self, datagram: &[u8], to: SocketAddr) {
        self.socket
            .send_to(datagram, to)
            .expect("loopback takes it");
    }
}

/// So often the server sends what a relay does not reply to.
const COPIES_MAX: u32 = 3;

fn cookie_of(datagram: &[u8]) -> String {
    let cookie = datagram.split(|byte| *byte == b' ').next();
    String::from_utf8_lossy(cookie.unwrap_or_default()).into_owned()
}
