//! Redis: its keys are the cache, and its channels are the bus. Commands are
//! pipelined.

use std::{
    io::{BufRead, BufReader, BufWriter, Read, Write},
    net::TcpStream,
    thread::{self, JoinHandle},
};

use kit::bus::{Bus, Received};

use crate::server::Server;

pub struct Redis {
    server: Server,
    keys: u64,
    commands: BufWriter<TcpStream>,
    replies: JoinHandle<()>,
    subscriber: JoinHandle<Received>,
}

impl Redis {
    pub fn start(keys: u64) -> Self {
        let server = Server::start("redis-server", |port| {
            let words =
                format!("--port {port} --bind 127.0.0.1 --save  --appendonly no --daemonize no");
            words.split(' ').map(str::to_owned).collect()
        });
        let subscriber = subscribe(server.connect());
        let stream = server.connect();
        let answers = stream.try_clone().expect("a second handle");
        let replies = thread::spawn(move || drain_replies(answers));
        Self {
            server,
            keys,
            commands: BufWriter::with_capacity(1 << 16, stream),
            replies,
            subscriber,
        }
    }
}

fn last_values(server: &Server, keys: u64) -> u64 {
    let mut stream = server.connect();
    let mut request = format!("*{}\r\n$4\r\nMGET\r\n", keys + 1);
    for key in 0..keys {
        let name = format!("k{key}");
        request += &format!("${}\r\n{name}\r\n", name.len());
    }
    stream.write_all(request.as_bytes()).expect("Redis reads");
    let mut lines = BufReader::new(stream)
        .lines()
        .map(|line| line.expect("Redis answers"));
    lines.next();
    let mut sum = 0;
    for _ in 0..keys {
        if lines.next().is_some_and(|header| header != "$-1") {
            sum += lines
                .next()
                .and_then(|value| value.parse::<u64>().ok())
                .unwrap_or(0);
        }
    }
    sum
}

/// Subscribes and waits for the confirmation, so that no update is missed.
fn subscribe(mut stream: TcpStream) -> JoinHandle<Received> {
    stream
        .write_all(b"*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nu\r\n")
        .expect("Redis reads");
    let mut lines = BufReader::with_capacity(1 << 16, stream);
    let mut line = String::new();
    for _ in 0..6 {
        lines.read_line(&mut line).expect("Redis confirms");
    }
    thread::spawn(move || receive(lines))
}

/// A message is seven lines; the last one is the value, and 0 is the end.
fn receive(mut lines: BufReader<TcpStream>) -> Received {
    let (mut received, mut line) = (Received::default(), String::new());
    loop {
        for _ in 0..7 {
            line.clear();
            lines.read_line(&mut line).expect("Redis sends");
        }
        match line.trim_end().parse::<u64>().expect("a value") {
            0 => return received,
            value => {
                received.count += 1;
                received.sum += value;
            }
        }
    }
}

fn drain_replies(mut stream: TcpStream) {
    let mut buffer = [0; 1 << 16];
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
}

impl Bus for Redis {
    fn publish(&mut self, key: u64, value: u64) {
        let (name, text) = (format!("k{key}"), value.to_string());
        write!(
            self.commands,
            "*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n${}\r\n{text}\r\n*3\r\n$7\r\nPUBLISH\r\n$1\r\nu\r\n${}\r\n{text}\r\n",
            name.len(),
            text.len(),
            text.len(),
        )
        .expect("Redis reads");
    }

    fn drain(mut self, _updates: u64) -> (Received, u64) {
        self.commands
            .write_all(b"*3\r\n$7\r\nPUBLISH\r\n$1\r\nu\r\n$1\r\n0\r\n")
            .expect("Redis reads");
        self.commands.flush().expect("Redis reads");
        let received = self.subscriber.join().expect("a subscriber");
        let sum = last_values(&self.server, self.keys);
        drop(self.server);
        let _ = self.replies.join();
        (received, sum)
    }
}
