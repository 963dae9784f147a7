//! What devices do is known on all nodes: hints at each node combine devices of the others.

use crate::{
    cluster::{Node, Site, USERS},
    support::phone::{Phone, header, ok},
    wait_until,
};
use busyhour_cluster::Partition;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Calls, an outage of NATS and the death of a node: the lamps at every node tell the truth.
#[test]
fn hints_show_devices_of_other_nodes() {
    let mut site = Site::with(&hints());
    let [alpha, beta, gamma] = site.three_nodes();
    let mut boards = [&alpha, &beta, &gamma].map(Board::new);
    show(&mut boards, &|_| "Unavailable");
    let mut phones: Vec<_> = (USERS.iter())
        .map(|user| Phone::new(&alpha.0, 9, user))
        .collect();
    for phone in &mut phones {
        let request = phone.register_request();
        assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
    }
    show(&mut boards, &|_| "Ready");

    // The node of the called telephone carries the call, and that of the caller is told.
    let owners = [&alpha, &beta, &gamma].map(first_of);
    for [caller, called] in [[0, 1], [1, 2], [2, 0], [0, 0]] {
        let called = match caller == called {
            true => second_of(&alpha),
            false => owners[called],
        };
        call(&mut phones, &mut boards, owners[caller], called);
    }

    // Either side hangs up by a node that does not carry the call.
    for (who, node) in [(0, &beta), (1, &gamma), (0, &gamma), (1, &alpha)] {
        let call = Answered::begin(&mut phones, &mut boards, owners[0], owners[1]);
        call.hang_up(&mut phones, &mut boards, who, node);
    }
    for node in [&alpha, &beta, &gamma] {
        let records = || {
            node.0
                .get("/api/v1/call-records")
                .matches("\"call_id\"")
                .count()
        };
        wait_until(|| records() == 8, || records().to_string());
    }

    settings_of_other_nodes([&alpha, &beta, &gamma]);

    // Without NATS a telephone at its own node is served, and the others hear of it afterwards.
    site.nats.kill();
    let says = |node: &Node, words: &str| node.0.get("/healthz").contains(words);
    for node in [&alpha, &beta, &gamma] {
        let is_degraded = || says(node, "degraded: NATS cannot be reached");
        wait_until(is_degraded, || node.0.get("/healthz"));
    }
    unregister(&mut phones[owners[0]]);
    site.nats.run();
    show(&mut boards, &|user| match user == owners[0] {
        true => "Unavailable",
        false => "Ready",
    });
    for node in [&alpha, &beta, &gamma] {
        // Limits that were reached meanwhile are told for longer.
        let is_whole = || !says(node, "NATS") && !says(node, "read again");
        wait_until(is_whole, || node.0.get("/healthz"));
        assert!(node.0.stats()["cluster"]["is_whole"] == true);
    }

    // Who takes over from a dead node says what its devices do.
    gamma.0.kill();
    alpha
        .0
        .wait_for("/cluster/partitions_served", |served| served == 128);
    unregister(&mut phones[owners[2]]);
    show(
        &mut boards[..2],
        &|user| match [owners[0], owners[2]].contains(&user) {
            true => "Unavailable",
            false => "Ready",
        },
    );
}

/// The BYE comes to a node that cannot tell the carrier, and goes on from there; the carrier is told
/// later.
#[test]
fn a_call_that_ends_while_nats_is_away_leaves_no_lamp_lit() {
    // Without NATS the nodes do not reach each other at all.
    let mut site = Site::with(&format!("[cluster]\nlisten = \"off\"\n{}", hints()));
    let [alpha, beta, gamma] = site.three_nodes();
    let mut boards = [&alpha, &beta, &gamma].map(Board::new);
    let mut phones: Vec<_> = (USERS.iter())
        .map(|user| Phone::new(&beta.0, 9, user))
        .collect();
    for phone in &mut phones {
        let request = phone.register_request();
        assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
    }
    show(&mut boards, &|_| "Ready");
    let (caller, called) = (first_of(&alpha), first_of(&gamma));
    let call = Answered::begin(&mut phones, &mut boards, caller, called);
    site.nats.kill();
    let says = |node: &Node, words: &str| node.0.get("/healthz").contains(words);
    let is_degraded = || says(&beta, "degraded: NATS cannot be reached");
    wait_until(is_degraded, || beta.0.get("/healthz"));
    call.end(&mut phones, 0, &beta);
    // The other two nodes are to be told.
    assert_eq!(beta.0.stat("/cluster/notices_waiting"), 2);
    let lasts = |node: &Node| {
        node.0
            .get("/api/v1/calls?node=gamma")
            .contains("\"call_id\"")
    };
    assert!(lasts(&gamma), "gamma does not know it yet");
    site.nats.run();
    show(&mut boards, &|_| "Ready");
    beta.0
        .wait_for("/cluster/notices_waiting", |waiting| waiting == 0);
    assert!(!lasts(&gamma));
}

/// More devices of one partition than a node looks at in one turn.
#[test]
fn a_node_is_not_told_of_what_nobody_watches_there_any_more() {
    let site = Site::with("");
    let [alpha, beta, gamma] = site.three_nodes();
    let partition = |device: &str| Partition::of(&format!("sip:{device}@example.com"));
    let of_all = partition("d0");
    let mut devices = (0..).map(|number| format!("d{number}"));
    let mut hint = || {
        let devices = devices.by_ref().filter(|name| partition(name) == of_all);
        devices.take(64).collect::<Vec<_>>()
    };
    let paths: Vec<_> = (800..806)
        .map(|number| format!("/api/v1/hints/{number}"))
        .collect();
    for path in &paths {
        let body = serde_json::json!({ "devices": hint() }).to_string();
        let answer = alpha.ask("PUT", path, &body);
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
    // The two that do not own the partition.
    let watched = || [&alpha, &beta, &gamma].map(|node| node.0.stat("/cluster/states_watched"));
    let are_watched = |count: u64| {
        let is_so = || watched().iter().sum::<u64>() == 2 * count;
        wait_until(is_so, || format!("{:?}", watched()));
    };
    are_watched(6 * 64);
    for path in &paths[1..] {
        let answer = gamma.ask("DELETE", path, "");
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }
    are_watched(64);
}

/// What is set over HTTP at one node is so at all.
fn settings_of_other_nodes(nodes: [&Node; 3]) {
    let (hint, list) = ("/api/v1/hints/800", "/api/v1/lists/panel");
    let mailbox = "/api/v1/mailboxes/ada";
    let set = [
        (hint, r#"{"devices":["ada","bob"]}"#, "sip:bob@example.com"),
        (list, r#"{"entries":["carl"]}"#, "sip:carl@example.com"),
        (mailbox, r#"{"voice":{"new":3,"old":1}}"#, "\"new\":3"),
    ];
    for ((path, body, words), node) in set.into_iter().zip(nodes) {
        let answer = node.ask("PUT", path, body);
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
        for other in nodes {
            let shown = || other.ask("GET", path, "");
            wait_until(|| shown().contains(words), shown);
        }
    }
    for ((path, ..), node) in set.into_iter().zip(nodes.into_iter().rev()) {
        let answer = node.ask("DELETE", path, "");
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
        for other in nodes {
            let shown = || other.ask("GET", path, "");
            wait_until(|| shown().starts_with("HTTP/1.1 404 "), shown);
        }
    }
}

/// One extension for each user, and its number is behind that of the user.
fn hints() -> String {
    let hint = |(number, user): (usize, &&str)| {
        format!(
            "[[hint]]\nextension = \"{}\"\ndevices = [\"{user}\"]\n",
            700 + number
        )
    };
    USERS.iter().enumerate().map(hint).collect()
}

fn first_of(node: &Node) -> usize {
    of(node, 0)
}

fn second_of(node: &Node) -> usize {
    of(node, 1)
}

/// A user whose address of record is this node's.
fn of(node: &Node, number: usize) -> usize {
    let users = node.users();
    let user = users.iter().nth(number).expect("it has some");
    let is_it = |name: &&str| format!("sip:{name}@example.com") == *user;
    USERS.iter().position(is_it).expect("one of them")
}

/// All watch all extensions, each at a node of its own.
struct Board {
    phone: Phone,
    /// The note of each extension.
    shown: BTreeMap<String, String>,
}

impl Board {
    fn new(node: &Node) -> Self {
        let mut phone = Phone::new(&node.0, 11, "board");
        for number in 0..USERS.len() {
            let request = phone.subscribe_request(&(700 + number).to_string(), "");
            assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
        }
        Self {
            phone,
            shown: BTreeMap::new(),
        }
    }

    fn wait(&mut self, note_of: &dyn Fn(usize) -> &'static str) {
        let given_up_at = Instant::now() + PATIENCE;
        let expected: BTreeMap<_, _> = (0..USERS.len())
            .map(|user| (format!("{}", 700 + user), note_of(user).to_owned()))
            .collect();
        while self.shown != expected {
            let notify = self.phone.notified_until(given_up_at);
            let notify = notify.unwrap_or_else(|| panic!("{:?}", self.shown));
            let (_, rest) = notify.split_once("entity=\"sip:").expect("a presence");
            let (extension, _) = rest.split_once('@').expect("an address");
            let (_, rest) = notify.split_once("<note>").expect("a note");
            let (note, _) = rest.split_once("</note>").expect("a note");
            self.shown.insert(extension.to_owned(), note.to_owned());
        }
    }
}

fn show(boards: &mut [Board], note_of: &dyn Fn(usize) -> &'static str) {
    for board in boards {
        board.wait(note_of);
    }
}

/// The INVITE, as it was sent and as it came.
fn ring(phones: &mut [Phone], caller: usize, called: usize) -> (String, String) {
    let (address, name) = (phones[caller].address(), USERS[called]);
    let contact = format!("Contact: <sip:{}@{address}>\r\n", USERS[caller]);
    let uri = format!("sip:{name}@example.com");
    let mut invite = phones[caller].request("INVITE", &uri, &uri, &contact);
    let given_up_at = Instant::now() + PATIENCE;
    loop {
        let call_id = header(&invite, "Call-ID").expect("a request");
        phones[caller].send(&invite);
        match phones[called].hear(RESEND) {
            Some(heard) if heard.starts_with("INVITE ") && heard.contains(call_id) => {
                return (invite, heard);
            }
            _ => {}
        }
        assert!(Instant::now() < given_up_at, "{name} does not ring");
        // What was refused for too much load is refused again, so the next call is another one.
        while let Some(heard) = phones[caller].hear(Duration::ZERO) {
            if heard.starts_with("SIP/2.0 503 ") {
                invite = phones[caller].request("INVITE", &uri, &uri, &contact);
            }
        }
    }
}

/// A call that rings and is refused.
fn call(phones: &mut [Phone], boards: &mut [Board], caller: usize, called: usize) {
    let (_, heard) = ring(phones, caller, called);
    phones[called].send(&response(&heard, "180 Ringing"));
    show(boards, &|user| match user {
        _ if user == caller => "On the phone",
        _ if user == called => "Ringing",
        _ => "Ready",
    });
    phones[called].send(&response(&heard, "486 Busy Here"));
    show(boards, &|_| "Ready");
}

/// A call that was answered, from each side.
struct Answered {
    sides: [usize; 2],
    /// How each side names itself and the other one.
    names: [String; 2],
    call_id: String,
    routes: [String; 2],
}

impl Answered {
    fn begin(phones: &mut [Phone], boards: &mut [Board], caller: usize, called: usize) -> Self {
        let (invite, heard) = ring(phones, caller, called);
        let ok = response(&heard, "200 OK");
        let contact = format!(
            "Contact: <sip:{}>\r\nContent-Length",
            phones[called].address()
        );
        phones[called].send(&ok.replace("Content-Length", &contact));
        let answer = loop {
            let heard = phones[caller].hear(PATIENCE).expect("an answer");
            if heard.starts_with("SIP/2.0 200 ") && heard.contains(" INVITE") {
                break heard;
            }
        };
        let line = |message: &str, name: &str| header(message, name).expect("it has it").to_owned();
        let lines = answer.lines();
        let routes = lines.filter_map(|line| line.strip_prefix("Record-Route: "));
        let mut routes: Vec<&str> = routes.collect();
        let route = routes.join(", ");
        routes.reverse();
        let call = Self {
            sides: [caller, called],
            names: [line(&answer, "From"), line(&answer, "To")],
            call_id: line(&invite, "Call-ID"),
            routes: [routes.join(", "), route],
        };
        let cseq = line(&invite, "CSeq").replace("INVITE", "ACK");
        let ack = call.request(phones, 0, &cseq);
        let given_up_at = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < given_up_at, "the ACK does not come");
            phones[caller].send(&ack);
            match phones[called].hear(RESEND) {
                Some(heard) if heard.starts_with("ACK ") => break,
                _ => {}
            }
        }
        show(boards, &|user| match call.sides.contains(&user) {
            true => "On the phone",
            false => "Ready",
        });
        call
    }

    /// A request of a side within the dialog.
    fn request(&self, phones: &[Phone], side: usize, cseq: &str) -> String {
        let addresses = self.sides.map(|phone| phones[phone].address());
        let (own, other) = (addresses[side], addresses[1 - side]);
        let (method, call_id) = (cseq.split(' ').nth(1).expect("a method"), &self.call_id);
        let branch: String = [call_id.as_str(), cseq].concat();
        let branch: String = branch.chars().filter(char::is_ascii_alphanumeric).collect();
        let (from, to) = (&self.names[side], &self.names[1 - side]);
        format!(
            "{method} sip:{other} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{branch};rport\r\n\
             Route: {}\r\nFrom: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq}\r\n\
             Content-Length: 0\r\n\r\n",
            self.routes[side]
        )
    }

    /// Both are told, and the lamps go out.
    fn hang_up(self, phones: &mut [Phone], boards: &mut [Board], side: usize, node: &Node) {
        self.end(phones, side, node);
        show(boards, &|_| "Ready");
    }

    /// One side sends its BYE to a node until it is answered.
    fn end(self, phones: &mut [Phone], side: usize, node: &Node) {
        let bye = self.request(phones, side, "900 BYE");
        let [own, other] = [self.sides[side], self.sides[1 - side]];
        let before = std::mem::replace(&mut phones[own].server, node.0.sip);
        let is_answered =
            |message: &str| message.starts_with("SIP/2.0 200 ") && message.contains("900 BYE");
        let given_up_at = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < given_up_at, "the BYE is not answered");
            phones[own].send(&bye);
            if let Some(heard) = phones[other]
                .hear(RESEND)
                .filter(|it| it.starts_with("BYE "))
            {
                phones[other].send(&ok(&heard));
            }
            if phones[own].hear(RESEND).is_some_and(|it| is_answered(&it)) {
                break;
            }
        }
        phones[own].server = before;
    }
}

fn response(request: &str, status: &str) -> String {
    let lines = request.lines().filter_map(|line| match line {
        _ if line.starts_with("To:") => Some(format!("{line};tag=called\r\n")),
        _ if ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"]
            .iter()
            .any(|name| line.starts_with(name)) =>
        {
            Some(format!("{line}\r\n"))
        }
        _ => None,
    });
    let lines: String = lines.collect();
    let cseq = header(request, "CSeq").expect("a request");
    assert!(lines.contains(cseq));
    format!("SIP/2.0 {status}\r\n{lines}Content-Length: 0\r\n\r\n")
}

fn unregister(phone: &mut Phone) {
    let aor = format!("sip:{}@example.com", phone.user);
    let request = phone.request(
        "REGISTER",
        "sip:example.com",
        &aor,
        "Contact: *\r\nExpires: 0\r\n",
    );
    let answer = phone.ask(&request);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(60);
const RESEND: Duration = Duration::from_millis(500);
