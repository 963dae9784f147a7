//! Telephones and watchers on connections of nodes that do not have the device, when NATS loses messages, partitions move and
//! nodes start again.

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
    time::{Duration, Instant},
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

/// alpha, and beta, to which NATS may lose what it sends.
fn with_a_lossy_way(site: &Site) -> (LossyWay, [Node; 2]) {
    let nats = site.nats.options().servers[0].replace("nats://", "");
    let way = LossyWay::to(nats.parse().expect("an address"));
    let beta = site.node_over("beta", &format!("nats://{}", way.address));
    let nodes = [site.node("alpha"), beta];
    nodes.iter().for_each(|node| node.wait_until_it_serves(128));
    (way, nodes)
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

/// A telephone or a watcher over TCP.
struct Panel {
    connection: TcpStream,
    heard: String,
}

impl Panel {
    fn at(node: &Node) -> Self {
        let connection = TcpStream::connect(node.0.tcp).expect("it listens");
        let timeout = connection.set_read_timeout(Some(PATIENCE));
        timeout.expect("a time");
        let heard = String::new();
        Self { connection, heard }
    }

    /// Registers a user over its connection, and waits for the 200.
    fn register(&mut self, user: &str, cseq: u32) {
        let address = self.connection.local_addr().expect("bound");
        let aor = format!("sip:{user}@example.com");
        self.send(&format!(
            "REGISTER sip:example.com SIP/2.0\r\n\
             Via: SIP/2.0/TCP {address};branch=z9hG4bKr{user}{cseq};rport\r\n\
             From: <{aor}>;tag=r\r\nTo: <{aor}>\r\nCall-ID: r{user}@{address}\r\n\
             CSeq: {cseq} REGISTER\r\nContact: <sip:{user}@{address};transport=tcp>\r\n\
             Content-Length: 0\r\n\r\n"
        ));
        let answer = self.next();
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
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
    let (way, [alpha, beta]) = with_a_lossy_way(&site);
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
    let mut panel = Panel::at(&beta);
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
    // Only what was lost is told again.
    alpha.0.wait_for("/watch/told_anew", |count| count > 0);
    way.loses.store(false, Ordering::SeqCst);
    panel.is_told("<basic>open</basic>");
    assert_eq!(alpha.0.stat("/watch/watcher_count"), 1);
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
    let move_to = |number: usize| move_to(&nodes, user, number);
    assert!(nodes[0].register(user).starts_with("SIP/2.0 200 "));
    move_to(0);
    let mut panel = Panel::at(&nodes[1]);
    let mut watcher = Phone::new(&nodes[1].0, 11, "panel");
    let request = watcher.subscribe_request(user, "Expires: 600\r\n");
    panel.send(&request.replace(">\r\nEvent", ";transport=tcp>\r\nEvent"));
    panel.is_told("<basic>open</basic>");
    let mut phone = Phone::new(&nodes[0].0, 10, user);
    for (number, note) in [(1, "first"), (0, "second"), (1, "third")] {
        move_to(number);
        publish(&mut phone, note);
        panel.is_told(&format!("<note>{note}</note>"));
    }
    assert_eq!(nodes[1].0.stat("/watch/watcher_count"), 1);
}

/// Its connection stands, and each node that has the device goes on with it: nobody is told that it has gone, calls go to it,
/// and with the connection the registration ends.
#[test]
fn a_registration_over_a_connection_stays_when_its_partition_moves() {
    let site = Site::new();
    let nodes = ["alpha", "beta"].map(|name| site.node(name));
    for node in &nodes {
        node.wait_until_it_serves(128);
    }
    let user = USERS[0];
    move_to_empty(&nodes, user, 0);
    let mut telephone = Panel::at(&nodes[1]);
    telephone.register(user, 1);
    let mut watcher = Phone::new(&nodes[0].0, 11, "panel");
    let request = watcher.subscribe_request(user, "Expires: 600\r\n");
    assert!(watcher.ask(&request).starts_with("SIP/2.0 200 "));
    is_told(&watcher, "open", "closed");
    for number in [1, 0, 1, 0] {
        move_to(&nodes, user, number);
        wait_until(
            || shown(&nodes[number], user).contains("\"reach\":\"reachable\""),
            || shown(&nodes[number], user) + &nodes[number].0.log(),
        );
        is_told(&watcher, "open", "closed");
        let mut caller = Phone::new(&nodes[0].0, 12, "caller");
        let uri = format!("sip:{user}@example.com");
        let address = caller.address();
        let invite = caller.request(
            "INVITE",
            &uri,
            &uri,
            &format!("Contact: <sip:caller@{address}>\r\n"),
        );
        caller.send(&invite);
        let came = telephone.next();
        assert!(came.starts_with("INVITE "), "{came}");
        telephone.send(&ok(&came).replace("SIP/2.0 200 OK", "SIP/2.0 486 Busy Here"));
        let ack = telephone.next();
        assert!(ack.starts_with("ACK "), "{ack}");
    }
    drop(telephone);
    wait_until(|| nodes[0].users().is_empty(), || nodes[0].0.log());
    is_told(&watcher, "closed", "nothing else is told");
    move_to_empty(&nodes, user, 1);
    assert_eq!(nodes[1].users().len(), 0);
}

/// The node that has the device is not told of the end, and finds out that it has missed one.
#[test]
fn the_end_of_a_connection_that_nats_has_lost_is_noticed() {
    let site = Site::new();
    let (way, nodes) = with_a_lossy_way(&site);
    let user = USERS[0];
    move_to_empty(&nodes, user, 1);
    let mut telephone = Panel::at(&nodes[0]);
    telephone.register(user, 1);
    wait_until(|| nodes[1].users().len() == 1, || nodes[1].0.log());
    way.loses.store(true, Ordering::SeqCst);
    drop(telephone);
    let (alpha, beta) = (&nodes[0], &nodes[1]);
    alpha
        .0
        .wait_for("/network/streams/connection_count", |count| count == 0);
    way.loses.store(false, Ordering::SeqCst);
    wait_until(|| beta.users().is_empty(), || beta.0.log());
    assert!(beta.0.stat("/cluster/connections_ended") > 0);
}

/// Its node starts again before anybody has seen it dead, or is seen dead first: its connections have ended with its process.
#[test]
fn a_registration_over_a_connection_ends_with_the_process_that_has_it() {
    let site = Site::new();
    let mut nodes = ["alpha", "beta"].map(|name| site.node(name));
    for node in &nodes {
        node.wait_until_it_serves(128);
    }
    let user = USERS[0];
    move_to_empty(&nodes, user, 0);
    let mut telephone = Panel::at(&nodes[1]);
    telephone.register(user, 1);
    wait_until(|| nodes[0].users().len() == 1, || nodes[0].0.log());
    nodes[1].0.signal(nix::sys::signal::Signal::SIGKILL);
    nodes[1] = site.node("beta");
    wait_until(|| nodes[0].users().is_empty(), || nodes[0].0.log());
}

/// Its connection ended with the process of the node that had it, and another node has the device since: nothing is told
/// over what is not there, and the subscription goes on over the next connection.
#[test]
fn a_watcher_whose_connection_ended_with_its_process_goes_on_over_the_next_one() {
    let site = Site::new();
    let mut nodes = ["alpha", "beta", "gamma"].map(|name| site.node(name));
    for node in &nodes {
        node.0.wait_for("/cluster/nodes_up", |nodes| nodes == 3);
    }
    let user = USERS[0];
    assert!(nodes[0].register(user).starts_with("SIP/2.0 200 "));
    move_to(&nodes, user, 0);
    let mut panel = Panel::at(&nodes[1]);
    let mut watcher = Phone::new(&nodes[1].0, 11, "panel");
    let request = watcher.subscribe_request(user, "Expires: 600\r\n");
    let request = request.replace(">\r\nEvent", ";transport=tcp>\r\nEvent");
    panel.send(&request);
    let accepted = panel.next();
    assert!(accepted.starts_with("SIP/2.0 200 "), "{accepted}");
    panel.is_told("<basic>open</basic>");
    // Both die: nobody is left who knows that the connection has ended, but for the row.
    nodes[0].0.signal(nix::sys::signal::Signal::SIGKILL);
    nodes[1].0.signal(nix::sys::signal::Signal::SIGKILL);
    nodes[1] = site.node("beta");
    let gamma = &nodes[2];
    gamma.0.wait_for("/cluster/nodes_up", |nodes| nodes == 2);
    move_to(&nodes, user, 2);
    // It has asked, or the next life of beta has said so when it was to send a NOTIFY.
    gamma.0.wait_for("/watch/cut", |cut| cut > 0);
    let notified = || gamma.0.stat("/watch/notified");
    let mut phone = Phone::new(&gamma.0, 10, user);
    let before = notified();
    publish(&mut phone, "first");
    let mut panel = Panel::at(&nodes[1]);
    let count = header(&request, "CSeq").expect("a number").to_owned();
    let within = format!("To: {}", header(&accepted, "To").expect("a tag"));
    let again = |number: u32| {
        request
            .replace(&format!("To: <sip:{user}@example.com>"), &within)
            .replace(
                &format!("CSeq: {count}"),
                &format!("CSeq: {number} SUBSCRIBE"),
            )
            .replace("branch=z9hG4bK", &format!("branch=z9hG4bK{number}"))
    };
    // Beta may not know yet that gamma has the device: it says so, and a panel tries again.
    let is_later = |answer: &str| {
        answer.starts_with("SIP/2.0 503 ") && header(answer, "Retry-After").is_some()
    };
    let mut number = 900;
    panel.send(&again(number));
    let mut answer = panel.next();
    let given_up_at = Instant::now() + PATIENCE;
    while is_later(&answer) && Instant::now() < given_up_at {
        thread::sleep(Duration::from_millis(100));
        number += 1;
        panel.send(&again(number));
        answer = panel.next();
    }
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    panel.is_told("<note>first</note>");
    assert_eq!(notified(), before + 1, "the one that was told");
    publish(&mut phone, "second");
    panel.is_told("<note>second</note>");
    assert_eq!(gamma.0.stat("/watch/given_up"), 0);
}

/// The node of its connection has started again.
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
    let mut panel = Panel::at(&beta);
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
    let mut panel = Panel::at(&beta);
    panel.send(&again);
    panel.is_told("<basic>closed</basic>");
    assert_eq!(alpha.0.stat("/watch/created"), 1);
    assert_eq!(alpha.0.stat("/watch/watcher_count"), 1);
}

/// The contacts of a user, as a node shows them; while they are on their way to it, that it cannot.
fn shown(node: &Node, user: &str) -> String {
    node.ask("GET", &format!("/api/v1/bindings/{user}"), "")
}

/// A watcher is told this before anything else that it may not be told.
fn is_told(watcher: &Phone, what: &str, not: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let notify = watcher.notified_until(deadline).expect("a NOTIFY");
        assert!(!notify.contains(not), "{notify}");
        if notify.contains(&format!("<basic>{what}</basic>")) {
            return;
        }
    }
}

fn publish(phone: &mut Phone, note: &str) {
    let uri = format!("sip:{}@example.com", phone.user);
    let body = format!(
        "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"{uri}\"><tuple id=\"t\"><status>\
         <basic>open</basic></status><note>{note}</note></tuple></presence>"
    );
    let headers = "Event: presence\r\nContent-Type: application/pidf+xml\r\n";
    let request = phone.request("PUBLISH", &uri, &uri, headers);
    let len = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let request = request.replace("Content-Length: 0\r\n\r\n", &len);
    assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
}

/// Moves the partition of a user, who is registered, to another node.
fn move_to(nodes: &[Node], user: &str, number: usize) {
    ask_to_move(nodes, user, number);
    let aor = format!("sip:{user}@example.com");
    let users = || nodes[number].users();
    wait_until(|| users().contains(&aor), || nodes[number].0.log());
}

/// The same of a user who is not registered: until the node takes requests for him.
fn move_to_empty(nodes: &[Node], user: &str, number: usize) {
    ask_to_move(nodes, user, number);
    let partition = busyhour_cluster::Partition::of(&format!("sip:{user}@example.com"));
    let name = &nodes[number].2;
    let of_node = || {
        let node: serde_json::Value =
            serde_json::from_str(&nodes[number].0.get("/api/v1/cluster")).expect("JSON");
        let nodes = node["nodes"].as_array().expect("a list").clone();
        let node = nodes.into_iter().find(|node| node["name"] == **name);
        node.expect("it is one of them")["pinned"].to_string()
    };
    let is_pinned = || {
        let pinned = of_node();
        let mut pinned = pinned.trim_matches(['[', ']']).split(',');
        pinned.any(|it| it == partition.to_string())
    };
    wait_until(is_pinned, of_node);
    for node in nodes {
        node.wait_until_it_serves(256 / nodes.len() as u64);
    }
}

/// By the last node: the first ones may be dead.
fn ask_to_move(nodes: &[Node], user: &str, number: usize) {
    let partition = busyhour_cluster::Partition::of(&format!("sip:{user}@example.com"));
    let path = format!(
        "/api/v1/cluster/partitions/{partition}/move/{}",
        nodes[number].2
    );
    let answer = nodes[nodes.len() - 1].ask("POST", &path, "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Less than a watcher may be silent before its subscription is given up.
const PATIENCE: Duration = Duration::from_secs(25);
