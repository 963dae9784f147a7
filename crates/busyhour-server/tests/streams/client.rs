//! A peer with one connection, which reads messages as any SIP client does over
//! TCP.

use busyhour_sip::{Frame, Limits};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// A limit that only a hang reaches.
const HANG: Duration = Duration::from_secs(60);

/// Between two looks at what another thread does: yielding instead keeps a processor busy that the others need.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(1));
}

/// A client on a connection of any kind.
pub struct Client<S> {
    pub stream: S,
    received: Vec<u8>,
}

pub fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("the server listens");
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

impl Client<TcpStream> {
    pub fn new(server: SocketAddr) -> Self {
        Self::over(connect(server))
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            received: Vec::new(),
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("an open connection");
        self.stream.flush().expect("an open connection");
    }

    /// The next message; panics if the connection ends before it.
    pub fn message(&mut self) -> String {
        self.next().expect("a message")
    }

    /// The next message, or `None` if the server has ended the connection.
    pub fn next(&mut self) -> Option<String> {
        loop {
            match Frame::first(&self.received, &Limits::default()).expect("valid messages") {
                Frame::Message { bytes } => {
                    let message: Vec<u8> = self.received.drain(..bytes).collect();
                    return Some(String::from_utf8(message).unwrap());
                }
                Frame::KeepAlive { bytes, .. } => drop(self.received.drain(..bytes)),
                Frame::Incomplete if self.more() == 0 => return None,
                Frame::Incomplete => {}
            }
        }
    }

    /// The next `count` bytes, without parsing them.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert_ne!(self.more(), 0, "the connection ended");
        }
        self.received.drain(..count).collect()
    }

    fn more(&mut self) -> usize {
        let mut room = [0; 4096];
        // A reset counts as an end of the connection.
        let count = self.stream.read(&mut room).unwrap_or(0);
        self.received.extend_from_slice(&room[..count]);
        count
    }
}

/// A REGISTER of this user over a connection.
pub fn register(user: &str, transport: &str, cseq: u32) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/{transport} 192.0.2.7:5060;branch=z9hG4bK{user}{cseq};rport\r\n\
         From: <sip:{user}@example.com>;tag=1\r\n\
         To: <sip:{user}@example.com>\r\n\
         Call-ID: {user}@192.0.2.7\r\n\
         CSeq: {cseq} REGISTER\r\n\
         Contact: <sip:{user}@192.0.2.7;transport=tcp>\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// A SUBSCRIBE for the presence of this user over TCP.
pub fn subscribe(user: &str) -> String {
    format!(
        "SUBSCRIBE sip:{user}@example.com SIP/2.0\r\n\
         Via: SIP/2.0/TCP 192.0.2.8:5060;branch=z9hG4bKw{user};rport\r\n\
         From: <sip:lamp@example.com>;tag=2\r\n\
         To: <sip:{user}@example.com>\r\n\
         Call-ID: lamp@192.0.2.8\r\n\
         CSeq: 1 SUBSCRIBE\r\n\
         Contact: <sip:lamp@192.0.2.8;transport=tcp>\r\n\
         Event: presence\r\n\
         Expires: 600\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

/// The 200 to a request of the server.
pub fn ok(request: &str) -> String {
    let copied = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let lines = request
        .split("\r\n")
        .filter(|line| copied.iter().any(|name| line.starts_with(name)));
    let lines: Vec<&str> = lines.collect();
    format!(
        "SIP/2.0 200 OK\r\n{}\r\nContent-Length: 0\r\n\r\n",
        lines.join("\r\n")
    )
}
