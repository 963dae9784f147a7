//! Datagrams from node to node without NATS.

use crate::{
    cluster::{Node, Site, USERS},
    support::phone::Phone,
    wait_until,
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
