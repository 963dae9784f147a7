//! A node whose program is of another version.

use crate::{cluster::Site, wait_until};
use std::{
    cell::RefCell,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

/// What is said as version 1 said it is not taken, the node is degraded for as long as it goes on, and
/// the log says what to do.
#[test]
fn a_node_that_hears_another_version_says_so() {
    let site = Site::new();
    let node = site.node("alpha");
    node.wait_until_it_serves(256);
    let health = || node.0.get("/healthz");
    let is_degraded = || health().contains("another node has another version");
    assert!(!is_degraded());
    let old = RefCell::new(OldNode::join(&site.nats.options().servers[0]));
    let say_and_see = || {
        old.borrow_mut().say();
        is_degraded()
    };
    wait_until(say_and_see, health);
    let cluster = &node.0.stats()["cluster"];
    assert_eq!(cluster["is_version_mixed"], true);
    assert_eq!(cluster["is_whole"], true, "nothing that was said is missed");
    let log = node.0.log();
    let told = log.matches("another_node_speaks_another_version").count();
    assert_eq!(told, 1, "{log}");
    assert!(cluster["other_version_heard"].as_u64().expect("a number") > 0);
    wait_until(|| !is_degraded(), health);
}

/// One that says what a node of the last version says with each beat.
struct OldNode {
    nats: BufReader<TcpStream>,
    /// Where nodes hear of devices.
    subject: String,
}

impl OldNode {
    fn join(server: &str) -> Self {
        let address = server.trim_start_matches("nats://");
        let nats = TcpStream::connect(address).expect("NATS listens");
        let patience = Some(std::time::Duration::from_secs(60));
        nats.set_read_timeout(patience).expect("a limit");
        let mut nats = BufReader::new(nats);
        write(
            &mut nats,
            b"CONNECT {\"verbose\":false}\r\nSUB busyhour.*.live 1\r\n",
        );
        let subject = loop {
            let mut line = String::new();
            let len = nats.read_line(&mut line);
            assert_ne!(
                len.expect("a beacon within the time"),
                0,
                "NATS has ended it"
            );
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["MSG", subject, _, len] = words[..] {
                let len: u64 = len.parse().expect("a length");
                let mut beacon = Vec::new();
                let read = nats.by_ref().take(len + 2).read_to_end(&mut beacon);
                read.expect("a message");
                break subject.to_owned();
            }
        };
        write(&mut nats, b"UNSUB 1\r\n");
        Self { nats, subject }
    }

    fn say(&mut self) {
        // A beacon of node 9: epoch 1, no changes.
        let beacon = [&[1, b'b', 0, 9][..], &1_u64.to_be_bytes(), &[0; 8]].concat();
        let head = format!("PUB {} {}\r\n", self.subject, beacon.len());
        write(
            &mut self.nats,
            &[head.as_bytes(), &beacon, b"\r\n"].concat(),
        );
    }
}

fn write(nats: &mut BufReader<TcpStream>, bytes: &[u8]) {
    nats.get_mut().write_all(bytes).expect("NATS reads");
}
