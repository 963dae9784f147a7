//! A telephone whose requests the test writes.

use busyhour_sip::{DigestChallenge, HeaderName, Message, auth::Answer};
use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

/// The configuration of every test in this folder; some add to it.
pub const OPEN: &str = "[sip]\nauth = \"open\"\ndomains = \"example.com\"\n";

/// A socket that receives from every address.
pub struct Phone {
    pub socket: UdpSocket,
}

impl Phone {
    /// A phone at a free port of this address.
    pub fn at(address: &str) -> Self {
        let socket = UdpSocket::bind(address).expect("an address of loopback");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time");
        Self { socket }
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }

    pub fn send(&self, message: &str, to: SocketAddr) {
        let sent = self.socket.send_to(message.as_bytes(), to);
        sent.expect("room in the kernel's buffer");
    }

    /// The next message that begins with `begin`, and its source address.
    pub fn hear(&self, begin: &str) -> (String, SocketAddr) {
        loop {
            let mut room = vec![0; 65_536];
            let heard = self.socket.recv_from(&mut room);
            let (len, from) = heard.unwrap_or_else(|error| panic!("no {begin}: {error}"));
            room.truncate(len);
            let message = String::from_utf8(room).expect("text");
            if message.starts_with(begin) {
                return (message, from);
            }
        }
    }

    /// The final answer to a request.
    pub fn ask(&self, request: &str, server: SocketAddr) -> (String, SocketAddr) {
        self.send(request, server);
        self.hear("SIP/2.0 ")
    }

    /// A request of bob; each of the `headers` ends in a line end. Via has no
    /// rport.
    pub fn request(&self, method: &str, uri: &str, to: &str, headers: &str) -> String {
        let address = self.address();
        format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK{to}{method}\r\n\
             From: <sip:bob@example.com>;tag=b\r\n\
             To: <sip:{to}@example.com>\r\n\
             Call-ID: {to}@{address}\r\n\
             CSeq: 1 {method}\r\n\
             {headers}Content-Length: 0\r\n\r\n"
        )
    }

    /// A SUBSCRIBE for the presence of a user.
    pub fn subscribe(&self, user: &str) -> String {
        let uri = format!("sip:{user}@example.com");
        let contact = format!("Contact: <sip:bob@{}>\r\n", self.address());
        let headers = format!("{contact}Event: presence\r\nExpires: 600\r\n");
        self.request("SUBSCRIBE", &uri, user, &headers)
    }

    /// The request with credentials for the challenge of a 401.
    pub fn proven(&self, request: &str, challenge: &str, user: &str) -> String {
        let (method, rest) = request.split_once(' ').expect("a request");
        let (uri, _) = rest.split_once(' ').expect("a request");
        let message = Message::parse(challenge.as_bytes()).expect("a response");
        let value = message.header(HeaderName::WwwAuthenticate).expect("a 401");
        let challenge = DigestChallenge::parse(value).flatten().expect("a digest");
        let answer = Answer::new(&challenge, user, "secret", method, uri).expect("known");
        let line = format!(
            "Authorization: {}\r\nContent-Length",
            answer.counted(1, "c")
        );
        let request = request.replace("Content-Length", &line);
        request.replace("branch=z9hG4bK", "branch=z9hG4bKproven")
    }

    pub fn register(&self, user: &str) -> String {
        let contact = format!("Contact: <sip:{user}@{}>\r\n", self.address());
        self.request("REGISTER", "sip:example.com", user, &contact)
    }
}

/// The value of a header; the first one if there are several.
pub fn header<'m>(message: &'m str, name: &str) -> &'m str {
    let value = |line: &'m str| line.strip_prefix(name)?.strip_prefix(": ");
    let found = message.lines().find_map(value);
    found.unwrap_or_else(|| panic!("no {name} in {message}"))
}

/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(20);
