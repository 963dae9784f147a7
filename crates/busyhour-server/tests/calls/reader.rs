//! A client of `/api/changes` that reads when it is asked to, while virtual time goes on.

use busyhour::runtime::Runtime;
use busyhour_server::{
    server::Server,
    web::{Access, GraphOptions, Graphs, Web, WebOptions},
};
use serde_json::Value;
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

/// The HTTP side of a server in virtual time.
pub struct Host {
    web: Web,
    runtime: Runtime,
}

pub struct Reader {
    socket: TcpStream,
    runtime: Runtime,
    unread: Vec<u8>,
}

/// One server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub event: String,
    pub id: String,
    pub data: Value,
}

impl Host {
    pub fn new(runtime: &Runtime, server: &Server) -> Self {
        let options = WebOptions {
            tls: None,
            operator: None,
            certificates: None,
            telephone: None,
            challenges: None,
            address: Some("127.0.0.1:0".parse().unwrap()),
            socket: None,
            connections_max: 16,
            connections_per_source_max: 16,
            patience: Duration::from_secs(60),
            access: Arc::new(Access::new(Vec::new(), Vec::new())),
        };
        let graphs = Graphs::new(runtime, GraphOptions::default(), Vec::new());
        Self {
            web: Web::start(options, Arc::new(server.clone()), graphs).unwrap(),
            runtime: runtime.clone(),
        }
    }

    /// Sends a request with these lines, and returns the status and what follows it.
    pub fn ask(&self, request_line: &str, headers: &str) -> (String, Reader) {
        let mut socket = TcpStream::connect(self.web.address().unwrap()).unwrap();
        // An answer to HTTP/1.0 is not in chunks.
        write!(socket, "{request_line} HTTP/1.0\r\n{headers}\r\n").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        let mut reader = Reader {
            socket,
            runtime: self.runtime.clone(),
            unread: Vec::new(),
        };
        let head = reader.until("\r\n\r\n", soon());
        let status = head.split(' ').nth(1).unwrap().to_owned();
        (status, reader)
    }

    /// Begins to read what changes.
    pub fn read(&self, query: &str, last_id: Option<&str>) -> Reader {
        let last_id = last_id.map(|id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!("GET /api/changes{query}");
        let (status, reader) = self.ask(&request, &last_id.unwrap_or_default());
        assert_eq!(status, "200", "{query}");
        reader
    }
}

impl Reader {
    /// The next event, whatever has to happen in the server for it.
    #[track_caller]
    pub fn next(&mut self) -> Told {
        let deadline = soon();
        loop {
            let text = self.until("\n\n", deadline);
            let field = |name: &str| {
                let mut lines = text.lines();
                let value = lines.find_map(|line| line.strip_prefix(name));
                value.unwrap_or_default().to_owned()
            };
            // A comment keeps the connection alive.
            if !text.starts_with(':') {
                return Told {
                    event: field("event: "),
                    id: field("id: "),
                    data: serde_json::from_str(&field("data: ")).unwrap(),
                };
            }
        }
    }

    /// The next events, each in a few words; those of one subject in the order in which
    /// they came.
    #[track_caller]
    pub fn next_by_subject(&mut self, count: usize) -> Vec<String> {
        let mut told: Vec<_> = (0..count).map(|_| self.next()).collect();
        told.sort_by_key(Told::subject);
        told.iter().map(Told::shown).collect()
    }

    #[track_caller]
    fn until(&mut self, end: &str, deadline: Instant) -> String {
        loop {
            let place = memchr::memmem::find(&self.unread, end.as_bytes());
            if let Some(place) = place {
                let rest = self.unread.split_off(place + end.len());
                let text = std::mem::replace(&mut self.unread, rest);
                return String::from_utf8(text).unwrap();
            }
            self.fill();
            let unread = String::from_utf8_lossy(&self.unread);
            assert!(Instant::now() < deadline, "nothing came: {unread:?}");
        }
    }

    fn fill(&mut self) {
        self.runtime.simulation().unwrap().run_until_idle();
        let mut bytes = [0; 65_536];
        match self.socket.read(&mut bytes) {
            Ok(0) => panic!("the stream has ended"),
            Ok(len) => self.unread.extend_from_slice(&bytes[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

impl Told {
    fn subject(&self) -> String {
        let names = ["aor", "mailbox", "extension", "call_id"];
        let subject = names.iter().find_map(|name| self.data[name].as_str());
        let kind = self.data["kind"].as_str();
        format!("{} {}", kind.unwrap_or("-"), subject.unwrap_or("-"))
    }

    /// Its subject, and what of it tests look at.
    pub fn shown(&self) -> String {
        let of = |name: &&str| match &self.data[*name] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            value => Some(format!("{name}={value}")),
        };
        let shown = [
            "event",
            "line",
            "state",
            "end",
            "contact_count",
            "voice_new",
            "gone",
        ];
        let shown: Vec<_> = shown.iter().filter_map(of).collect();
        format!("{}: {}", self.subject(), shown.join(" "))
    }
}
