//! A server without a disk or a network, and the clients that send to it.

pub use crate::exchange::{answer, digest_config, ok, open_config};

use crate::exchange::{Sent, proven};
use busyhour::{
    buffer::{Buffer, BufferMut},
    runtime::Runtime,
};
use busyhour_server::server::{HintConfig, Server, ServerConfig, ServerStats};
use busyhour_sip::Message;
use busyhour_store::{AccountEntry, Completion, MemoryStore};
use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

pub struct World {
    runtime: Runtime,
    pub server: Server,
    sent: Arc<Sent>,
    last_cseq: u32,
    /// The clients' tag of each dialog, by its Call-ID.
    dialogs: HashMap<String, String>,
}

/// In these tests the store has no reason to refuse anything.
pub fn kept() -> Completion {
    Box::new(|fate| assert!(fate.is_ok(), "{fate:?}"))
}

impl World {
    pub fn open() -> Self {
        Self::with(open_config())
    }

    pub fn with(config: ServerConfig) -> Self {
        let runtime = Runtime::simulated(1);
        let sent = Arc::new(Sent::default());
        let store = Box::new(MemoryStore::new());
        let server = Server::start(runtime.clone(), config, sent.clone(), store).unwrap();
        Self {
            runtime,
            server,
            sent,
            last_cseq: 0,
            dialogs: HashMap::new(),
        }
    }

    /// Stores an account whose password is its name.
    pub fn put_account(&self, user: &str, mailbox: Option<&str>, hints: &[&str]) {
        let entry = AccountEntry {
            user: user.into(),
            password: Some(user.into()),
            mailbox: mailbox.map(str::to_owned),
            hints: hints.iter().map(|&hint| hint.to_owned()).collect(),
            ..AccountEntry::default()
        };
        self.server.put_account(entry, kept()).unwrap();
    }

    pub fn register(&mut self, user: &str, expires_s: u32) {
        let headers = format!("Contact: <sip:{user}@192.0.2.7>\r\nExpires: {expires_s}\r\n");
        let answer = self.ask("REGISTER", user, &headers, "");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }

    /// Opens a subscription called `id`, or refreshes it. Returns the answer,
    /// and the first NOTIFY if one came at once; that NOTIFY is confirmed.
    pub fn subscribe(&mut self, id: &str, user: &str, headers: &str) -> (String, Option<String>) {
        let request = self.subscribe_request(id, user, headers);
        self.begin(id, &request)
    }

    /// As [`subscribe`](Self::subscribe), by this request.
    pub fn begin(&mut self, id: &str, request: &str) -> (String, Option<String>) {
        self.receive(request);
        let mut sent = self.sent();
        let answer = sent.remove(0);
        if answer.starts_with("SIP/2.0 200 ") {
            let message = Message::parse(answer.as_bytes()).unwrap();
            let tag = message.to().unwrap().tag().unwrap().to_owned();
            self.dialogs.insert(id.to_owned(), tag);
        }
        assert!(sent.len() <= 1, "{sent:?}");
        let notify = sent.pop();
        if let Some(notify) = &notify {
            self.receive(&ok(notify));
        }
        (answer, notify)
    }

    /// The SUBSCRIBE that opens a subscription called `id`, or refreshes it.
    pub fn subscribe_request(&mut self, id: &str, user: &str, headers: &str) -> String {
        let tag = self.dialogs.get(id).cloned();
        self.request("SUBSCRIBE", user, tag.as_deref(), id, headers, "")
    }

    /// Watches a package of a user; returns the first NOTIFY.
    pub fn watch(&mut self, id: &str, user: &str, package: &str) -> String {
        let (answer, notify) = self.subscribe(id, user, &format!("Event: {package}\r\n"));
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        notify.unwrap()
    }

    /// Everything that was sent since the last call. Confirms each NOTIFY in it,
    /// and includes what is sent in reply, to the end.
    pub fn notified(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let sent = self.sent();
            if sent.is_empty() {
                return all;
            }
            for notify in sent {
                assert!(notify.starts_with("NOTIFY "), "{notify}");
                self.receive(&ok(&notify));
                all.push(notify);
            }
        }
    }

    /// The only NOTIFY that was sent since the last call.
    #[track_caller]
    pub fn only_notify(&mut self) -> String {
        let mut sent = self.notified();
        assert_eq!(sent.len(), 1, "{sent:#?}");
        sent.remove(0)
    }

    pub fn publish(&mut self, user: &str, headers: &str, body: &str) -> String {
        self.ask("PUBLISH", user, headers, body)
    }

    /// Publishes a dialog in this state. It replaces the publication with the
    /// entity-tag, or is a new one if the tag is empty. Returns the new
    /// entity-tag.
    pub fn publish_next(&mut self, user: &str, etag: &str, state: &str) -> String {
        let headers = match etag {
            "" => DIALOG.to_owned(),
            etag => format!("{DIALOG}SIP-If-Match: {etag}\r\n"),
        };
        header(&self.publish(user, &headers, &dialog(state)), "SIP-ETag")
    }

    /// Publishes; answers the challenge with the account's password.
    pub fn publish_as(&mut self, account: &str, user: &str, headers: &str, body: &str) -> String {
        let request = self.request("PUBLISH", user, None, "publish", headers, body);
        self.receive(&request);
        let challenge = self.sent().remove(0);
        assert!(challenge.starts_with("SIP/2.0 401 "), "{challenge}");
        self.receive(&proven(&request, &challenge, account, account, 1));
        self.sent().remove(0)
    }

    pub fn subscribe_as(&mut self, account: &str, user: &str, headers: &str) -> Vec<String> {
        let request = self.request("SUBSCRIBE", user, None, account, headers, "");
        self.receive(&request);
        let challenge = self.sent().remove(0);
        self.receive(&proven(&request, &challenge, account, account, 1));
        self.sent()
    }

    /// Sends a request and returns its response.
    pub fn ask(&mut self, method: &str, user: &str, headers: &str, body: &str) -> String {
        let request = self.request(method, user, None, "ask", headers, body);
        self.receive(&request);
        self.sent.take_response()
    }

    pub fn request(
        &mut self,
        method: &str,
        user: &str,
        tag: Option<&str>,
        call_id: &str,
        headers: &str,
        body: &str,
    ) -> String {
        self.last_cseq += 1;
        let cseq = self.last_cseq;
        let tag = tag.map_or(String::new(), |tag| format!(";tag={tag}"));
        let uri = match method {
            "REGISTER" => "sip:example.com".to_owned(),
            _ => format!("sip:{user}@example.com"),
        };
        let contact = match method {
            "SUBSCRIBE" => "Contact: <sip:watcher@192.0.2.9:5070>\r\n",
            _ => "",
        };
        format!(
            "{method} {uri} SIP/2.0\r\n\
             Via: SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bK{cseq};rport\r\n\
             From: <sip:{user}@example.com>;tag=theirs\r\n\
             To: <sip:{user}@example.com>{tag}\r\n\
             Call-ID: {call_id}\r\n\
             CSeq: {cseq} {method}\r\n\
             {contact}{headers}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    pub fn receive(&mut self, text: &str) {
        self.receive_bytes(text.as_bytes());
    }

    /// A request whose body is no text.
    pub fn receive_bytes(&mut self, bytes: &[u8]) {
        let datagram = self.runtime.buffers().copy_from(bytes).unwrap();
        self.deliver(datagram);
    }

    /// As [`receive`](Self::receive), while there is no room for an answer.
    pub fn receive_without_room(&mut self, text: &str) {
        let datagram = self.datagram(text);
        let held = self.starve();
        let before = self.stats().traffic.no_buffer;
        self.deliver(datagram);
        assert!(
            self.stats().traffic.no_buffer > before,
            "there was room for an answer"
        );
        drop(held);
    }

    /// Allocates all free buffers, the long ones first.
    fn starve(&self) -> Vec<BufferMut> {
        let lens = (0..=24).rev().map(|bits| 1 << bits);
        let alloc = |len| std::iter::from_fn(move || self.runtime.buffers().alloc(len).ok());
        lens.flat_map(alloc).collect()
    }

    fn datagram(&self, text: &str) -> Buffer {
        self.runtime.buffers().copy_from(text.as_bytes()).unwrap()
    }

    fn deliver(&self, datagram: Buffer) {
        let (client, local): (SocketAddr, SocketAddr) = (
            "192.0.2.9:5070".parse().unwrap(),
            "192.0.2.1:5060".parse().unwrap(),
        );
        self.server
            .message(busyhour_sip::Flow::udp(local, client), &datagram);
        self.settle();
    }

    pub fn settle(&self) {
        self.runtime.simulation().unwrap().run_until_idle();
    }

    pub fn pass(&self, milliseconds: u64) {
        let simulation = self.runtime.simulation().unwrap();
        simulation.run_for(Duration::from_millis(milliseconds));
    }

    pub fn sent(&self) -> Vec<String> {
        self.sent.take()
    }

    pub fn stats(&self) -> ServerStats {
        self.server.stats()
    }
}

pub fn hint(extension: &str, devices: &[&str]) -> HintConfig {
    HintConfig {
        extension: extension.to_owned(),
        devices: devices.iter().map(|device| (*device).to_owned()).collect(),
    }
}

/// The value of a header in a response.
#[track_caller]
pub fn header(message: &str, name: &str) -> String {
    let prefix = format!("{name}: ");
    let mut lines = message
        .lines()
        .filter_map(|line| line.strip_prefix(&prefix));
    lines
        .next()
        .unwrap_or_else(|| panic!("no {name} in:\n{message}"))
        .to_owned()
}

pub fn body(message: &str) -> &str {
    message.split_once("\r\n\r\n").unwrap().1
}

/// A dialog-info document of one dialog.
pub fn dialog(state: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\
         <dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"0\" \
         state=\"full\" entity=\"sip:alice@example.com\">\
         <dialog id=\"1\" direction=\"recipient\"><state>{state}</state></dialog></dialog-info>"
    )
}

pub const DIALOG: &str = "Event: dialog\r\nContent-Type: application/dialog-info+xml\r\n";
