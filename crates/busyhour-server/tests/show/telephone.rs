//! A telephone over UDP, for a server that lets everybody register.

use crate::support::ServerProcess;
use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

pub struct Telephone {
    user: &'static str,
    socket: UdpSocket,
    address: SocketAddr,
    server: SocketAddr,
}

impl Telephone {
    pub fn register(server: &ServerProcess, user: &'static str) -> Self {
        let telephone = Self::unregistered(server, user);
        telephone.register_once("");
        telephone.read("SIP/2.0 200 ");
        telephone
    }

    pub fn unregistered(server: &ServerProcess, user: &'static str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let patience = Duration::from_secs(20);
        socket.set_read_timeout(Some(patience)).unwrap();
        let address = socket.local_addr().unwrap();
        Self {
            user,
            socket,
            address,
            server: server.sip,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a REGISTER with more headers.
    pub fn register_once(&self, headers: &str) {
        let Self { user, address, .. } = self;
        let contact = format!("Contact: <sip:{user}@{address}>\r\n{headers}");
        self.request("REGISTER", user, "register", "", &contact);
    }

    /// Sends a request with its last headers.
    pub fn request(&self, method: &str, to: &str, call_id: &str, to_tag: &str, headers: &str) {
        let Self { user, address, .. } = self;
        let uri = match method {
            "REGISTER" => "sip:127.0.0.1".into(),
            _ => format!("sip:{to}@127.0.0.1"),
        };
        self.send(&format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP {address};branch=z9hG4bK{call_id}{user}\r\nMax-Forwards: 70\r\n\
             From: <sip:{user}@127.0.0.1>;tag=t\r\nTo: <sip:{to}@127.0.0.1>{to_tag}\r\n\
             Call-ID: {call_id}\r\nCSeq: 1 {method}\r\n{headers}Content-Length: 0\r\n\r\n"
        ));
    }

    pub fn send(&self, text: &str) {
        self.socket.send_to(text.as_bytes(), self.server).unwrap();
    }

    /// The next message that begins so; those before it are dropped.
    pub fn read(&self, beginning: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let len = self.socket.recv(&mut buffer).expect(beginning);
            let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
            if text.starts_with(beginning) {
                return text;
            }
        }
    }

    /// Answers a request.
    pub fn respond(&self, request: &str, status: &str) {
        let head = request.split("\r\n\r\n").next().unwrap();
        let wanted = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
        let kept = head
            .lines()
            .filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        let kept = kept.map(|line| match line.starts_with("To:") {
            true => format!("{line};tag=callee\r\n"),
            false => format!("{line}\r\n"),
        });
        let kept: String = kept.collect();
        self.send(&format!(
            "SIP/2.0 {status}\r\n{kept}Content-Length: 0\r\n\r\n"
        ));
    }

    /// Calls `callee`, who is busy.
    pub fn call_in_vain(&self, callee: &Self, call_id: &str) {
        let contact = format!("Contact: <sip:{}@{}>\r\n", self.user, self.address);
        self.request("INVITE", callee.user, call_id, "", &contact);
        let invite = callee.read("INVITE ");
        callee.respond(&invite, "180 Ringing");
        callee.respond(&invite, "486 Busy Here");
        callee.read("ACK ");
        self.read("SIP/2.0 486 ");
        self.request("ACK", callee.user, call_id, ";tag=callee", "");
    }
}
