//! Datagrams from node to node without NATS.

use crate::{
    cluster::{Node, Site, USERS},
    support::phone::{Phone, ok},
    wait_until,
};
use std::{
    thread,
    time::{Duration, Instant},
};

fn registered(node: &Node) -> Vec<Phone> {
    let phone = |user: &&str| {
        let mut phone = Phone::new(&node.0, 9, user);
        refresh(&mut phone, node);
        phone
    };
    USERS.iter().map(phone).collect()
}

fn refresh(phone: &mut Phone, node: &Node) {
    phone.server = node.0.sip;
    let request = phone.register_request();
    let answer = phone.ask(&request);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert_eq!(answer.matches("Contact:").count(), 1, "{answer}");
}

fn sum(nodes: &[Node; 3], stat: &str) -> u64 {
    nodes.iter().map(|node| node.0.stat(stat)).sum()
}

/// NATS is only needed until the nodes know where the others are.
#[test]
fn any_node_takes_a_registration_though_nats_is_away() {
    let mut site = Site::new();
    let nodes = site.three_nodes();
    for node in &nodes {
        node.0
            .wait_for("/cluster/nodes_direct", |reached| reached == 2);
    }
    let [alpha, beta, gamma] = &nodes;
    let mut phones = registered(alpha);
    site.nats.kill();
    for node in &nodes {
        let health = || node.0.get("/healthz");
        wait_until(|| health().contains("NATS cannot be reached"), health);
    }
    for node in [beta, gamma, alpha] {
        for phone in &mut phones {
            refresh(phone, node);
        }
    }
    // Each refresh comes to two nodes that do not own the device, and is handed on by them, answered
    // by the owner and sent by them.
    let count = USERS.len() as u64;
    assert!(sum(&nodes, "/cluster/sent_directly") >= 4 * count);
    assert_eq!(sum(&nodes, "/cluster/undelivered"), 0);
    assert_eq!(sum(&nodes, "/cluster/direct_refused"), 0);
}

/// With what is in front of it, a full NOTIFY of a list is longer than a packet between nodes, and two of three watchers are not at the node that has their list.
#[test]
fn watchers_of_a_list_are_told_through_other_nodes_though_nats_is_away() {
    let mut site = Site::new();
    let nodes = site.three_nodes();
    for node in &nodes {
        node.0
            .wait_for("/cluster/nodes_direct", |reached| reached == 2);
    }
    let entries = USERS.map(|user| format!("\"{user}\"")).join(",");
    let body = format!("{{\"entries\":[{entries}]}}");
    let answer = nodes[0].ask("PUT", "/api/v1/lists/panel", &body);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    for node in &nodes {
        let shown = || node.ask("GET", "/api/v1/lists/panel", "");
        wait_until(|| shown().contains("sip:lea@example.com"), shown);
    }
    site.nats.kill();
    for node in &nodes {
        let health = || node.0.get("/healthz");
        wait_until(|| health().contains("NATS cannot be reached"), health);
    }
    for node in &nodes {
        let mut panel = Phone::new(&node.0, 9, "panel");
        let accept = "Supported: eventlist\r\n\
            Accept: application/pidf+xml, application/rlmi+xml, multipart/related\r\n";
        let request = panel.subscribe_request("panel", accept);
        let answer = panel.ask(&request);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        let mut dark: Vec<String> = USERS.map(|user| format!("sip:{user}@example.com")).into();
        while !dark.is_empty() {
            let notify = panel.notified_until(Instant::now() + PATIENCE);
            let notify = notify.unwrap_or_else(|| panic!("nothing is told of {dark:?}"));
            dark.retain(|user| !notify.contains(user.as_str()));
        }
    }
    assert!(sum(&nodes, "/cluster/sent_in_pieces") >= 2);
    assert_eq!(sum(&nodes, "/cluster/pieces_lost"), 0);
}

/// The node that has a telephone asks it through the one that it is at, and hears its answers so.
#[test]
fn who_answers_a_probe_through_another_node_is_there() {
    let site = Site::with("[sip]\nprobe_seconds = 2\n");
    let (alpha, beta) = (site.node("alpha"), site.node("beta"));
    for node in [&alpha, &beta] {
        node.wait_until_it_serves(128);
        node.0
            .wait_for("/cluster/nodes_direct", |reached| reached == 1);
    }
    registered(&alpha);
    let of_beta = beta.users();
    let is_its = |user: &&&str| of_beta.contains(&format!("sip:{user}@example.com"));
    let user = USERS.iter().find(is_its).expect("it has some");
    let mut phone = Phone::new(&alpha.0, 10, user);
    let request = phone.request(
        "REGISTER",
        "sip:example.com",
        &format!("sip:{user}@example.com"),
        "Contact: *\r\nExpires: 0\r\n",
    );
    assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
    refresh(&mut phone, &alpha);
    // It is given up after three questions without an answer.
    answer_questions(&phone, 6);
    let reach = || beta.0.get(&format!("/api/v1/bindings/{user}"));
    let is_there = || reach().contains("\"reach\":\"reachable\"");
    assert!(is_there(), "{}", reach());
    // Its node is dead, so the other one asks it from its own address.
    alpha.0.kill();
    beta.wait_until_it_serves(256);
    answer_questions(&phone, 6);
    wait_until(
        || {
            answer_questions(&phone, 1);
            is_there()
        },
        reach,
    );
}

/// Nothing says whose keep-alive it is; the node that has the telephone hears of it all the same.
#[test]
fn a_keep_alive_at_another_node_is_a_sign_of_life() {
    let site = Site::with("[sip]\nprobe_seconds = 2\n");
    let (alpha, beta) = (site.node("alpha"), site.node("beta"));
    for node in [&alpha, &beta] {
        node.wait_until_it_serves(128);
        node.0
            .wait_for("/cluster/nodes_direct", |reached| reached == 1);
    }
    registered(&alpha);
    let of_beta = beta.users();
    let is_its = |user: &&&str| of_beta.contains(&format!("sip:{user}@example.com"));
    let of_alpha = || USERS.iter().find(|user| !is_its(user));
    let users = [USERS.iter().find(&is_its), of_alpha()];
    let users = users.map(|user| *user.expect("it has some"));
    let mut phones = users.map(|user| Phone::new(&alpha.0, 10, user));
    for phone in &mut phones {
        let aor = format!("sip:{}@example.com", phone.user);
        let headers = "Contact: *\r\nExpires: 0\r\n";
        let request = phone.request("REGISTER", "sip:example.com", &aor, headers);
        assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
        refresh(phone, &alpha);
    }
    // The other one has registered at the node that had it, too.
    let aor = format!("sip:{}@example.com", users[1]);
    let partition = busyhour_cluster::Partition::of(&aor);
    let path = format!("/api/v1/cluster/partitions/{partition}/move/beta");
    let answer = alpha.ask("POST", &path, "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    wait_until(|| beta.users().contains(&aor), || beta.0.log());
    let reach = |user: &str| beta.0.get(&format!("/api/v1/bindings/{user}"));
    let all = || users.map(reach).join("\n");
    // They answer no questions, so the first one is gone soon, and nothing was heard of the other one at its new node.
    let is_there = |user: &&str| reach(user).contains("\"reach\":\"reachable\"");
    wait_until(|| !users.iter().any(is_there), all);
    wait_until(
        || {
            phones.iter().for_each(|phone| phone.send("\r\n\r\n"));
            users.iter().all(is_there)
        },
        all,
    );
    assert!(alpha.0.stat("/cluster/keepalives_passed_on") > 0);
}

/// Answers so many OPTIONS, wherever they come from.
fn answer_questions(phone: &Phone, count: usize) {
    let socket = &phone.socket;
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    let mut left = count;
    let mut room = vec![0; 65_536];
    while left > 0 {
        let (len, source) = socket.recv_from(&mut room).expect("a question");
        let message = String::from_utf8_lossy(&room[..len]);
        if message.starts_with("OPTIONS ") {
            let sent = socket.send_to(ok(&message).as_bytes(), source);
            sent.expect("room in the kernel's buffer");
            left -= 1;
        }
    }
}

/// The next life of a node is reached like the one before.
#[test]
fn a_node_that_starts_again_is_reached_directly() {
    let site = Site::new();
    let [alpha, beta, gamma] = site.three_nodes();
    gamma.0.kill();
    alpha
        .0
        .wait_for("/cluster/partitions_served", |served| served == 128);
    for node in [&alpha, &beta] {
        node.0
            .wait_for("/cluster/nodes_direct", |reached| reached == 1);
    }
    let gamma = site.node("gamma");
    for node in [&alpha, &beta, &gamma] {
        node.0
            .wait_for("/cluster/nodes_direct", |reached| reached == 2);
    }
}

/// A node that stands still reads nothing, so its socket fills up and the kernel drops what comes then.
#[test]
fn what_the_kernel_drops_between_nodes_is_counted() {
    let site = Site::with("[sip]\nreceive_buffer_kib = 64\n[cluster]\nlease_seconds = 10\n");
    let (alpha, beta) = (site.node("alpha"), site.node("beta"));
    for node in [&alpha, &beta] {
        node.wait_until_it_serves(128);
        node.0
            .wait_for("/cluster/nodes_direct", |reached| reached == 1);
    }
    registered(&alpha);
    let of_beta = beta.users();
    let is_its = |user: &&&str| of_beta.contains(&format!("sip:{user}@example.com"));
    let user = USERS.iter().find(is_its).expect("it has some");
    let mut phone = Phone::new(&alpha.0, 10, user);
    let handed = || alpha.0.stat("/cluster/handed_unconfirmed");
    let before = handed();
    beta.0.stand_still();
    for _ in 0..600 {
        let request = phone.register_request();
        phone.send(&request);
        thread::sleep(Duration::from_micros(500));
    }
    // One of these datagrams takes more than a kilobyte of a buffer of 128.
    wait_until(|| handed() >= before + 200, || handed().to_string());
    beta.0.go_on();
    // What it hears next shows that there is a gap, which is lost for good when alpha is gone.
    let request = phone.register_request();
    assert!(phone.ask(&request).starts_with("SIP/2.0 200 "));
    let all = handed();
    assert!(alpha.0.stop().success());
    beta.wait_until_it_serves(256);
    let heard = beta.0.stat("/cluster/taken") + beta.0.stat("/cluster/not_taken");
    let lost = beta.0.stat("/cluster/handed_lost");
    assert!(lost > 0);
    assert_eq!(lost, all - heard, "{all} were handed on, {heard} came");
}

#[test]
fn all_goes_over_nats_if_nodes_are_not_reached_directly() {
    let site = Site::with("[cluster]\nlisten = \"off\"\n");
    let nodes = site.three_nodes();
    let mut phones = registered(&nodes[0]);
    for phone in &mut phones {
        refresh(phone, &nodes[1]);
    }
    assert!(sum(&nodes, "/cluster/handed_on") >= USERS.len() as u64);
    assert_eq!(sum(&nodes, "/cluster/sent_directly"), 0);
    assert_eq!(sum(&nodes, "/cluster/nodes_direct"), 0);
}

/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(30);
