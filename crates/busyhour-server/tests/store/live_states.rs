//! What devices do is known on all nodes: hints at each node combine devices of the others.

use crate::{
    cluster::{Node, Site, USERS},
    support::phone::{Phone, header},
    wait_until,
};
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
    let owners = [&alpha, &beta, &gamma].map(|node| first_of(node));
    for [caller, called] in [[0, 1], [1, 2], [2, 0], [0, 0]] {
        let called = match caller == called {
            true => second_of(&alpha),
            false => owners[called],
        };
        call(&mut phones, &mut boards, owners[caller], called);
    }

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
    USERS
        .iter()
        .position(|name| is_it(name))
        .expect("one of them")
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

/// A call that rings and is refused.
fn call(phones: &mut [Phone], boards: &mut [Board], caller: usize, called: usize) {
    let (address, name) = (phones[caller].address(), USERS[called]);
    let contact = format!("Contact: <sip:{}@{address}>\r\n", USERS[caller]);
    let uri = format!("sip:{name}@example.com");
    let invite = phones[caller].request("INVITE", &uri, &uri, &contact);
    let heard = loop {
        phones[caller].send(&invite);
        match phones[called].hear(RESEND) {
            Some(heard) if heard.starts_with("INVITE ") => break heard,
            _ => {}
        }
    };
    phones[called].send(&response(&heard, "180 Ringing"));
    show(boards, &|user| match user {
        _ if user == caller => "On the phone",
        _ if user == called => "Ringing",
        _ => "Ready",
    });
    phones[called].send(&response(&heard, "486 Busy Here"));
    show(boards, &|_| "Ready");
}

fn response(request: &str, status: &str) -> String {
    let lines = request.lines().filter_map(|line| match line {
        _ if line.starts_with("To:") => Some(format!("{line};tag=called\r\n")),
        _ if ["Via:", "From:", "Call-ID:", "CSeq:"]
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
