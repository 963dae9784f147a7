//! NATS, with core messages; the subscriber keeps the last values.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, BufWriter, Write},
    net::TcpStream,
    thread::{self, JoinHandle},
};

use kit::bus::{Bus, Received};

use crate::server::Server;

pub struct Nats {
    _server: Server,
    commands: BufWriter<TcpStream>,
    subscriber: JoinHandle<(Received, u64)>,
}

impl Nats {
    pub fn start(_keys: u64) -> Self {
        let server = Server::start("nats-server", |port| {
            vec![
                "-a".to_owned(),
                "127.0.0.1".to_owned(),
                "-p".to_owned(),
                port.to_string(),
            ]
        });
        let subscriber = subscribe(server.connect());
        let mut commands = BufWriter::with_capacity(1 << 16, server.connect());
        commands.write_all(CONNECT).expect("NATS reads");
        Self {
            _server: server,
            commands,
            subscriber,
        }
    }
}

/// Subscribes and waits for the answer to a ping, so that no update is missed.
fn subscribe(mut stream: TcpStream) -> JoinHandle<(Received, u64)> {
    stream.write_all(CONNECT).expect("NATS reads");
    stream
        .write_all(b"SUB u.* 1\r\nPING\r\n")
        .expect("NATS reads");
    let mut answers = stream.try_clone().expect("a second handle");
    let mut lines = BufReader::with_capacity(1 << 16, stream);
    let mut line = String::new();
    while !line.starts_with("PONG") {
        line.clear();
        lines.read_line(&mut line).expect("NATS answers");
    }
    thread::spawn(move || receive(&mut lines, &mut answers))
}

/// A message is a line with the subject and a line with the value; the value 0
/// is the end.
fn receive(lines: &mut BufReader<TcpStream>, answers: &mut TcpStream) -> (Received, u64) {
    let (mut received, mut last) = (Received::default(), HashMap::<u64, u64>::new());
    let (mut head, mut body) = (String::new(), String::new());
    loop {
        head.clear();
        lines.read_line(&mut head).expect("NATS sends");
        if head.starts_with("PING") {
            answers.write_all(b"PONG\r\n").expect("NATS reads");
            continue;
        }
        body.clear();
        lines.read_line(&mut body).expect("NATS sends");
        let key = head
            .split(' ')
            .nth(1)
            .and_then(|subject| subject.strip_prefix("u.")?.parse().ok());
        match (key, body.trim_end().parse::<u64>().expect("a value")) {
            (_, 0) => return (received, last.values().sum()),
            (key, value) => {
                received.count += 1;
                received.sum += value;
                last.insert(key.expect("a key"), value);
            }
        }
    }
}

impl Bus for Nats {
    fn publish(&mut self, key: u64, value: u64) {
        let text = value.to_string();
        write!(self.commands, "PUB u.{key} {}\r\n{text}\r\n", text.len()).expect("NATS reads");
    }

    fn drain(mut self, _updates: u64) -> (Received, u64) {
        self.commands
            .write_all(b"PUB u.end 1\r\n0\r\n")
            .expect("NATS reads");
        self.commands.flush().expect("NATS reads");
        self.subscriber.join().expect("a subscriber")
    }
}

const CONNECT: &[u8] = b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n";
