//! Watchers of a device that one node after the other has.

use crate::{
    cluster::{Node, Site},
    support::phone::{Phone, header},
    wait_until,
};
use std::time::{Duration, Instant};

/// Each owner continues the dialog with numbers that no owner before has used, whichever node it is,
/// and does not use them up.
#[test]
fn every_owner_of_a_device_goes_on_with_higher_numbers() {
    let site = Site::new();
    let (nodes, watcher) = watched_at_gamma(&site);
    let move_to = |number: usize| move_to(&nodes, number);
    let mut last = next_number(&watcher, 0);
    // To nodes with higher numbers, and with lower ones.
    for number in [0, 2, 1, 0, 1, 2] {
        move_to(number);
        let next = next_number(&watcher, last + RUN / 2);
        assert!(next - last < 1 << 20, "{last}, then {next}");
        last = next;
    }
}

/// A row of a version that counted runs otherwise, or of a server alone, has a higher run than the partition has
/// owners. It is written again by the first of them, so that the second begins behind what that one has used.
#[test]
fn a_subscription_whose_row_knows_no_epoch_goes_on_with_higher_numbers() {
    let site = Site::new();
    let (nodes, watcher) = watched_at_gamma(&site);
    let mut last = next_number(&watcher, 0);
    site.sql(
        "UPDATE soft_state SET value = regexp_replace(value, '\"run\":[0-9]+,\"epoch\":[0-9]+', '\"run\":90000') \
         WHERE value LIKE '%local_cseq%'; \
         DO $$ BEGIN ASSERT 1 = (SELECT count(*) FROM soft_state WHERE value LIKE '%\"run\":90000,%'); END $$",
    );
    for number in [0, 1] {
        move_to(&nodes, number);
        last = next_number(&watcher, last + RUN / 2);
    }
}

/// The answer of the first owner is lost, and the request comes again to the next one, which has what was committed.
#[test]
fn a_publish_that_comes_again_to_the_next_owner_is_answered_as_it_was() {
    let site = Site::new();
    let (nodes, _watcher) = watched_at_gamma(&site);
    let mut ada = Phone::new(&nodes[1].0, 10, "ada");
    let body = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:ada@example.com\">\
        <tuple id=\"t\"><status><basic>open</basic></status></tuple></presence>";
    let mut request = |tag: Option<&str>, more: &str| {
        let tag = tag.map_or(String::new(), |tag| format!("SIP-If-Match: {tag}\r\n"));
        let headers =
            format!("Event: presence\r\nContent-Type: application/pidf+xml\r\n{tag}{more}");
        let uri = "sip:ada@example.com";
        let request = ada.request("PUBLISH", uri, uri, &headers);
        let len = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        request.replace("Content-Length: 0\r\n\r\n", &len)
    };
    let first = request(None, "");
    let tag_of = |answer: String| {
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        header(&answer, "SIP-ETag").expect("a tag").to_owned()
    };
    let mut sender = Phone::new(&nodes[1].0, 11, "ada");
    let begun = tag_of(sender.ask(&first));
    move_to(&nodes, 0);
    assert_eq!(tag_of(sender.ask(&first)), begun, "it is not another one");
    let second = request(Some(&begun), "");
    let modified = tag_of(sender.ask(&second));
    assert_ne!(modified, begun);
    move_to(&nodes, 1);
    assert_eq!(tag_of(sender.ask(&second)), modified);
    let again = tag_of(sender.ask(&request(Some(&modified), "")));
    assert_ne!(again, modified);
    // It is taken back, and the answer to that is lost.
    let last = request(Some(&again), "Expires: 0\r\n");
    let removed = tag_of(sender.ask(&last));
    move_to(&nodes, 0);
    assert_eq!(tag_of(sender.ask(&last)), removed);
    nodes[0]
        .0
        .wait_for("/publish/remembered_count", |count| count == 1);
    let unknown = sender.ask(&request(Some(&again), "Expires: 0\r\n"));
    assert!(unknown.starts_with("SIP/2.0 412 "), "{unknown}");
}

/// Three nodes, of which gamma has Ada, and a telephone that watches her by way of beta.
fn watched_at_gamma(site: &Site) -> ([Node; 3], Phone) {
    let nodes = ["alpha", "beta", "gamma"].map(|name| site.node(name));
    for node in &nodes {
        node.0.wait_for("/cluster/nodes_up", |nodes| nodes == 3);
    }
    assert!(nodes[1].register("ada").starts_with("SIP/2.0 200 "));
    move_to(&nodes, 2);
    let mut watcher = Phone::new(&nodes[1].0, 9, "bob");
    let request = watcher.subscribe_request("ada", "Expires: 600\r\n");
    assert!(watcher.ask(&request).starts_with("SIP/2.0 200 "));
    (nodes, watcher)
}

/// The partition of Ada's address.
fn move_to(nodes: &[Node; 3], number: usize) {
    let partition = busyhour_cluster::Partition::of("sip:ada@example.com");
    let name = ["alpha", "beta", "gamma"][number];
    let path = format!("/api/v1/cluster/partitions/{partition}/move/{name}");
    let answer = nodes[0].ask("POST", &path, "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let users = || nodes[number].users();
    wait_until(
        || users().contains("sip:ada@example.com"),
        || nodes[number].0.log(),
    );
}

/// The number of the next NOTIFY behind this one; all are answered.
fn next_number(watcher: &Phone, last: u32) -> u32 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let notify = watcher.notified_until(deadline);
        let notify = notify.expect("a NOTIFY with a higher number");
        let number = header(&notify, "CSeq").and_then(|value| value.split(' ').next());
        let number: u32 = number.expect("a number").parse().expect("a number");
        if number > last {
            return number;
        }
    }
}

/// A new owner begins so far behind the last number that was stored.
const RUN: u32 = 1 << 14;
/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(30);
