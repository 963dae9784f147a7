//! Watchers on connections of nodes to which NATS loses messages.

use crate::{
    cluster::{Node, Site, USERS},
    support::phone::{Phone, header, ok},
    wait_until,
};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// Between a node and NATS: what NATS sends may come to nothing, and neither of them knows.
struct LossyWay {
    address: SocketAddr,
    loses: Arc<AtomicBool>,
}

impl LossyWay {
    fn to(nats: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let loses = Arc::new(AtomicBool::new(false));
        let shared = loses.clone();
        // It ends with the process.
        thread::spawn(move || {
            for node in listener.incoming().flatten() {
                let Ok(nats) = TcpStream::connect(nats) else {
                    continue;
                };
                let ends = [&node, &nats].map(|end| end.try_clone().expect("a handle"));
                let [to_node, to_nats] = ends;
                let loses = shared.clone();
                thread::spawn(move || forward(nats, to_node, || loses.load(Ordering::SeqCst)));
                thread::spawn(move || forward(node, to_nats, || false));
            }
        });
        Self { address, loses }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, loses: impl Fn() -> bool) {
    let mut room = vec![0; 65_536];
    while let Ok(len @ 1..) = from.read(&mut room) {
        if !loses() && to.write_all(&room[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A watcher over TCP.
struct Panel {
    connection: TcpStream,
    heard: String,
}

impl Panel {
    fn new(node: &Node) -> Self {
        let connection = TcpStream::connect(node.0.tcp).expect("it listens");
        let timeout = connection.set_read_timeout(Some(PATIENCE));
        timeout.expect("a time");
        Self {
            connection,
            heard: String::new(),
        }
    }

    fn send(&mut self, message: &str) {
        let message = message.replace("SIP/2.0/UDP", "SIP/2.0/TCP");
        let sent = self.connection.write_all(message.as_bytes());
        sent.expect("the connection stands");
    }

    fn next(&mut self) -> String {
        loop {
            if let Some(message) = self.whole() {
                return message;
            }
            let mut room = vec![0; 65_536];
            let len = self.connection.read(&mut room).expect("a message");
            assert_ne!(len, 0, "the connection ended");
            self.heard += std::str::from_utf8(&room[..len]).expect("text");
        }
    }

    fn whole(&mut self) -> Option<String> {
        let head = self.heard.find("\r\n\r\n")? + 4;
        let len = self.heard[..head].split("Content-Length: ").nth(1)?;
        let len: usize = len.split('\r').next()?.parse().expect("a number");
        (self.heard.len() >= head + len).then(|| self.heard.drain(..head + len).collect())
    }

    /// Answers NOTIFYs until one says this, which it returns.
    fn is_told(&mut self, what: &str) -> String {
        loop {
            let message = self.next();
            if message.starts_with("NOTIFY ") {
                self.send(&ok(&message));
                if message.contains(what) {
                    return message;
                }
            }
        }
    }
}

/// The node that has the device does not learn that NATS has not carried it: its own connection stands.
#[test]
fn a_watcher_on_a_connection_is_told_what_nats_has_lost() {
    let site = Site::new();
    let nats = site.nats.options().servers[0].replace("nats://", "");
    let way = LossyWay::to(nats.parse().expect("an address"));
    let alpha = site.node("alpha");
    let beta = site.node_over("beta", &format!("nats://{}", way.address));
    for node in [&alpha, &beta] {
        node.wait_until_it_serves(128);
    }
    for user in USERS {
        let answer = alpha.register(user);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    let of_alpha = alpha.users();
    let is_its = |user: &&&str| of_alpha.contains(&format!("sip:{user}@example.com"));
    let user = USERS.iter().find(is_its).expect("it has some");
    let mut phone = Phone::new(&alpha.0, 10, user);
    let end = phone.request(
        "REGISTER",
        "sip:example.com",
        &format!("sip:{user}@example.com"),
        "Contact: *\r\nExpires: 0\r\n",
    );
    assert!(phone.ask(&end).starts_with("SIP/2.0 200 "));
    let mut panel = Panel::new(&beta);
    let mut watcher = Phone::new(&beta.0, 11, "panel");
    let request = watcher.subscribe_request(user, "Expires: 600\r\n");
    panel.send(&request.replace(">\r\nEvent", ";transport=tcp>\r\nEvent"));
    panel.is_told("<basic>closed</basic>");
    wait_until(
        || alpha.0.stat("/watch/confirmed") > 0,
        || alpha.0.stat("/watch/confirmed").to_string(),
    );
    let notified = || alpha.0.stat("/watch/notified");
    let before = notified();
    way.loses.store(true, Ordering::SeqCst);
    let request = phone.register_request();
    assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
    wait_until(|| notified() > before, || notified().to_string());
    way.loses.store(false, Ordering::SeqCst);
    panel.is_told("<basic>open</basic>");
    assert_eq!(alpha.0.stat("/watch/watcher_count"), 1);
    assert!(alpha.0.stat("/watch/told_anew") > 0);
}

/// Its connection stands, and the next node that has the device uses it, whichever node it is at.
#[test]
fn a_watcher_on_a_connection_is_told_by_the_next_node_that_has_the_device() {
    let site = Site::new();
    let nodes = ["alpha", "beta"].map(|name| site.node(name));
    for node in &nodes {
        node.wait_until_it_serves(128);
    }
    let user = USERS[0];
    let move_to = |number: usize| {
        let partition = busyhour_cluster::Partition::of(&format!("sip:{user}@example.com"));
        let name = ["alpha", "beta"][number];
        let path = format!("/api/v1/cluster/partitions/{partition}/move/{name}");
        let answer = nodes[0].ask("POST", &path, "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let users = || nodes[number].users();
        wait_until(
            || users().contains(&format!("sip:{user}@example.com")),
            || nodes[number].0.log(),
        );
    };
    assert!(nodes[0].register(user).starts_with("SIP/2.0 200 "));
    move_to(0);
    let mut panel = Panel::new(&nodes[1]);
    let mut watcher = Phone::new(&nodes[1].0, 11, "panel");
    let request = watcher.subscribe_request(user, "Expires: 600\r\n");
    panel.send(&request.replace(">\r\nEvent", ";transport=tcp>\r\nEvent"));
    panel.is_told("<basic>open</basic>");
    let mut phone = Phone::new(&nodes[0].0, 10, user);
    for (number, note) in [(1, "first"), (0, "second"), (1, "third")] {
        move_to(number);
        let uri = format!("sip:{user}@example.com");
        let body = format!(
            "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"{uri}\"><tuple id=\"t\"><status>\
             <basic>open</basic></status><note>{note}</note></tuple></presence>"
        );
        let headers = "Event: presence\r\nContent-Type: application/pidf+xml\r\n";
        let request = phone.request("PUBLISH", &uri, &uri, headers);
        let len = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let request = request.replace("Content-Length: 0\r\n\r\n", &len);
        assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
        panel.is_told(&format!("<note>{note}</note>"));
    }
    assert_eq!(nodes[1].0.stat("/watch/watcher_count"), 1);
}

/// The node of its connection has started again, and the one that has the device finds out when it tells it something.
#[test]
fn a_watcher_whose_node_has_started_again_is_told_over_its_next_connection() {
    let site = Site::new();
    let (alpha, beta) = (site.node("alpha"), site.node("beta"));
    for node in [&alpha, &beta] {
        node.wait_until_it_serves(128);
    }
    let aor = format!("sip:{}@example.com", USERS[0]);
    let partition = busyhour_cluster::Partition::of(&aor);
    let path = format!("/api/v1/cluster/partitions/{partition}/move/alpha");
    let answer = alpha.ask("POST", &path, "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(alpha.register(USERS[0]).starts_with("SIP/2.0 200 "));
    wait_until(|| alpha.users().contains(&aor), || alpha.0.log());
    let mut panel = Panel::new(&beta);
    let mut watcher = Phone::new(&beta.0, 11, "panel");
    let request = watcher.subscribe_request(USERS[0], "Expires: 600\r\n");
    let request = request.replace(">\r\nEvent", ";transport=tcp>\r\nEvent");
    panel.send(&request);
    let notify = panel.is_told("<basic>open</basic>");
    wait_until(|| alpha.0.stat("/watch/confirmed") > 0, || alpha.0.log());
    beta.0.kill();
    let beta = site.node("beta");
    alpha.0.wait_for("/cluster/nodes_up", |up| up == 2);
    beta.0.wait_for("/cluster/nodes_up", |up| up == 2);
    let mut phone = Phone::new(&alpha.0, 10, USERS[0]);
    let end = phone.request(
        "REGISTER",
        "sip:example.com",
        &aor,
        "Contact: *\r\nExpires: 0\r\n",
    );
    assert!(phone.ask(&end).starts_with("SIP/2.0 200 "));
    alpha.0.wait_for("/watch/cut", |cut| cut == 1);
    let from = header(&notify, "From").expect("it has one");
    let (_, tag) = from.split_once(";tag=").expect("it is in a dialog");
    let again = request
        .replace(&format!("To: <{aor}>"), &format!("To: <{aor}>;tag={tag}"))
        .replace("branch=z9hG4bK", "branch=z9hG4bKagain")
        .replace("CSeq: 1 ", "CSeq: 2 ");
    let mut panel = Panel::new(&beta);
    panel.send(&again);
    panel.is_told("<basic>closed</basic>");
    assert_eq!(alpha.0.stat("/watch/created"), 1);
    assert_eq!(alpha.0.stat("/watch/watcher_count"), 1);
}

/// Less than a watcher may be silent before its subscription is given up.
const PATIENCE: Duration = Duration::from_secs(25);
