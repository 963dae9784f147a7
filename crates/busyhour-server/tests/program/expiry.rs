//! Bindings expire in the real program, and their rows are removed later. After
//! `kill -9`, no expired binding comes back, and no binding that was registered
//! again is removed.

use crate::support::Place;
use std::{
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

#[test]
fn a_late_removal_of_rows_keeps_bindings_registered_meanwhile() {
    let place = Place::new();
    let phones = Phones::new();

    let server = place.server(CONFIGURATION);
    phones.register(server.sip, 1, BRIEF_S);
    server.wait_for("/registrar/expired", |count| count == DEVICES);
    // The rows are collected before they are removed: a fast machine kills the
    // server before that.
    server.kill();

    let server = place.server(CONFIGURATION);
    assert_eq!(
        server.stat("/registrar/restored"),
        0,
        "all bindings had ended"
    );
    phones.register(server.sip, 2, LONG_S);
    server.wait_for("/store/ended_len", |count| count == 0);
    server.kill();

    let server = place.server(CONFIGURATION);
    assert_eq!(server.stat("/registrar/restored"), DEVICES);
    assert!(server.stop().success());
}

/// Phones behind one address.
struct Phones(UdpSocket);

impl Phones {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(HANG)).expect("a time");
        Self(socket)
    }

    /// Registers the phones one after the other.
    fn register(&self, server: SocketAddr, cseq: u32, expires_s: u32) {
        let Self(socket) = self;
        let here = socket.local_addr().expect("bound");
        let mut answer = [0; 4096];
        for number in 1..=DEVICES {
            let request = format!(
                "REGISTER sip:busyhour.test SIP/2.0\r\n\
                 Via: SIP/2.0/UDP {here};branch=z9hG4bK{number}.{cseq};rport\r\n\
                 Max-Forwards: 70\r\n\
                 From: <sip:device{number}@busyhour.test>;tag=1\r\n\
                 To: <sip:device{number}@busyhour.test>\r\n\
                 Call-ID: {number}@busyhour.test\r\n\
                 CSeq: {cseq} REGISTER\r\n\
                 Contact: <sip:device{number}@{here}>;expires={expires_s}\r\n\
                 Content-Length: 0\r\n\r\n"
            );
            socket
                .send_to(request.as_bytes(), server)
                .expect("loopback");
            let (len, _) = socket.recv_from(&mut answer).expect("an answer");
            let answer = String::from_utf8_lossy(&answer[..len]);
            assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        }
    }
}

const CONFIGURATION: &str = "
[sip]
auth = \"open\"
domains = [\"busyhour.test\"]
min_expires_seconds = 1
";
const DEVICES: u64 = 300;
const BRIEF_S: u32 = 1;
/// Longer than a run of this test.
const LONG_S: u32 = 3600;
/// A limit that only a hang reaches.
const HANG: Duration = Duration::from_secs(60);
