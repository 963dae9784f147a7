//! A telephone over UDP. Each has its own address in 127.0.0.0/8, so that the
//! server takes it for another source.

use super::ServerProcess;
use busyhour_sip::{DigestChallenge, HeaderName, Message, auth::Answer};
use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

/// A telephone, whose password is `secret`.
pub struct Phone {
    pub socket: UdpSocket,
    pub server: SocketAddr,
    pub user: String,
    /// Grows with each request, so that no two have the same branch or Call-ID.
    count: u32,
}

impl Phone {
    /// A phone at 127.0.0.`host` that has the account `user`.
    pub fn new(server: &ServerProcess, host: u8, user: &str) -> Self {
        let address = SocketAddr::from(([127, 0, 0, host], 0));
        Self::between(address, server.sip, user)
    }

    /// A phone at this address that speaks to that of a server.
    pub fn between(address: SocketAddr, server: SocketAddr, user: &str) -> Self {
        let socket = UdpSocket::bind(address).expect("an address of loopback");
        Self {
            socket,
            server,
            user: user.to_owned(),
            count: 0,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("bound")
    }

    /// A request of this phone without credentials. Each of the `headers` ends
    /// in a line end; if the request needs a Contact, it is among them.
    pub fn request(&mut self, method: &str, uri: &str, to: &str, headers: &str) -> String {
        self.count += 1;
        let (count, user, address) = (self.count, &self.user, self.address());
        format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK{user}{count};rport\r\n\
             From: <sip:{user}@example.com>;tag={user}{count}\r\n\
             To: <{to}>\r\n\
             Call-ID: {count}@{address}\r\n\
             CSeq: {count} {method}\r\n\
             {headers}Content-Length: 0\r\n\r\n"
        )
    }

    pub fn register_request(&mut self) -> String {
        let (user, address) = (self.user.clone(), self.address());
        let contact = format!("Contact: <sip:{user}@{address}>\r\n");
        let aor = format!("sip:{user}@example.com");
        self.request("REGISTER", "sip:example.com", &aor, &contact)
    }

    /// A SUBSCRIBE to the presence of `watched`.
    pub fn subscribe_request(&mut self, watched: &str, headers: &str) -> String {
        let (user, address) = (self.user.clone(), self.address());
        let headers = format!("Contact: <sip:{user}@{address}>\r\nEvent: presence\r\n{headers}");
        let aor = format!("sip:{watched}@example.com");
        self.request("SUBSCRIBE", &aor, &aor, &headers)
    }

    pub fn send(&self, message: &str) {
        let sent = self.socket.send_to(message.as_bytes(), self.server);
        sent.expect("room in the kernel's buffer");
    }

    /// The next message, if one comes within `time`.
    pub fn hear(&self, time: Duration) -> Option<String> {
        let time = time.max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(time)).expect("a time");
        let mut room = vec![0; 65_536];
        let len = self.socket.recv(&mut room).ok()?;
        room.truncate(len);
        Some(String::from_utf8(room).expect("text"))
    }

    /// The answer to a request, which is sent again every half second; `None`
    /// at `deadline`. The password answers a 401. NOTIFYs that come meanwhile
    /// are ignored, since the server sends them again.
    pub fn ask_until(&mut self, request: &str, deadline: Instant) -> Option<String> {
        let answer = self.exchange(request, deadline)?;
        if !answer.starts_with("SIP/2.0 401 ") {
            return Some(answer);
        }
        let proven = proven(request, &answer, &self.user, "secret", 1);
        self.exchange(&proven, deadline)
    }

    /// As [`ask_until`](Self::ask_until), with a deadline that only a failing
    /// test reaches.
    pub fn ask(&mut self, request: &str) -> String {
        let answer = self.ask_until(request, Instant::now() + PATIENCE);
        answer.unwrap_or_else(|| panic!("no answer to:\n{request}"))
    }

    /// The 401 to a request without credentials.
    pub fn challenge(&self, request: &str) -> String {
        let answer = self.exchange(request, Instant::now() + PATIENCE);
        answer.unwrap_or_else(|| panic!("no answer to:\n{request}"))
    }

    /// The next NOTIFY before `deadline`; answers it with 200.
    pub fn notified_until(&self, deadline: Instant) -> Option<String> {
        loop {
            let left = deadline.checked_duration_since(Instant::now())?;
            let message = self.hear(left)?;
            if message.starts_with("NOTIFY ") {
                self.send(&ok(&message));
                return Some(message);
            }
        }
    }

    fn exchange(&self, request: &str, deadline: Instant) -> Option<String> {
        loop {
            self.send(request);
            let resend_at = (Instant::now() + RESEND).min(deadline);
            while let Some(left) = resend_at.checked_duration_since(Instant::now()) {
                match self.hear(left) {
                    Some(answer) if answers(&answer, request) => return Some(answer),
                    _ => {}
                }
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }
}

/// The value of a header; the first one if there are several.
pub fn header<'m>(message: &'m str, name: &str) -> Option<&'m str> {
    message
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The request with credentials for the first challenge of `challenge`.
pub fn proven(request: &str, challenge: &str, user: &str, password: &str, count: u32) -> String {
    let (method, rest) = request.split_once(' ').expect("a request");
    let (uri, _) = rest.split_once(' ').expect("a request");
    let message = Message::parse(challenge.as_bytes()).expect("a response");
    let (value, name) = match message.header(HeaderName::ProxyAuthenticate) {
        Some(value) => (value, "Proxy-Authorization"),
        None => {
            let value = message.header(HeaderName::WwwAuthenticate);
            (value.expect("a 401 or 407"), "Authorization")
        }
    };
    let challenge = DigestChallenge::parse(value).flatten().expect("a digest");
    let answer = Answer::new(&challenge, user, password, method, uri).expect("known");
    let line = format!(
        "{name}: {}\r\nContent-Length",
        answer.counted(count, "cnonce")
    );
    let proven = request.replace("Content-Length", &line);
    // It is a new transaction, so it has another branch.
    proven.replacen("branch=z9hG4bK", &format!("branch=z9hG4bK{count}p"), 1)
}

/// The 200 to a NOTIFY.
pub fn ok(request: &str) -> String {
    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let is_kept = |line: &&str| kept.iter().any(|name| line.starts_with(name));
    let lines: Vec<_> = request.lines().filter(is_kept).collect();
    let lines = lines.join("\r\n");
    format!("SIP/2.0 200 OK\r\n{lines}\r\nContent-Length: 0\r\n\r\n")
}

fn answers(answer: &str, request: &str) -> bool {
    answer.starts_with("SIP/2.0 ") && branch(answer) == branch(request)
}

fn branch(message: &str) -> Option<&str> {
    let (_, rest) = header(message, "Via")?.split_once("branch=")?;
    rest.split(';').next()
}

const RESEND: Duration = Duration::from_millis(500);
/// A limit that only a refusal for good reaches.
const PATIENCE: Duration = Duration::from_secs(60);
