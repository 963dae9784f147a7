//! Requests that come while their partition is on its way from one node to another.

use crate::{
    cluster::{DATABASE, Node, Site},
    support::phone::{Phone, header},
    wait_until,
};
use busyhour_cluster::Partition;
use postgres::{Client, NoTls, Transaction};
use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

/// All are answered by the next owner as soon as that has read the partition.
#[test]
fn what_comes_while_nobody_has_its_partition_is_answered_by_its_next_owner() {
    let site = Site::new();
    let nodes = two_nodes(&site);
    let [alpha, beta] = &nodes;
    let mut session = session(&site);
    let held = hold_on_the_way(&mut session, &nodes);
    let mut at_beta = Phone::new(&beta.0, 9, "ada");
    let mut at_alpha = Phone::new(&alpha.0, 10, "bob");
    let mut publisher = Phone::new(&alpha.0, 11, "ada");
    let requests = [
        at_beta.register_request(),
        at_alpha.subscribe_request("ada", "Expires: 600\r\n"),
        publish_request(&mut publisher),
    ];
    let mut connection = TcpStream::connect(alpha.0.tcp).expect("the server listens");
    let over_tcp = register_over(&connection);
    let answers = thread::scope(|scope| {
        let phones = [&mut at_beta, &mut at_alpha, &mut publisher];
        let phones = phones.into_iter().zip(&requests);
        let mut asked: Vec<_> = phones
            .map(|(phone, request)| scope.spawn(|| phone.ask(request)))
            .collect();
        // Their copies are not kept beside them.
        beta.0.wait_for("/cluster/kept_copies", |count| count >= 3);
        assert_eq!(beta.0.stat("/cluster/kept_waiting"), 3);
        connection.write_all(over_tcp.as_bytes()).expect("it reads");
        asked.push(scope.spawn(|| alpha.ask("GET", &format!("/api/v1/bindings?user={ADA}"), "")));
        beta.0
            .wait_for("/cluster/kept_waiting", |waiting| waiting == 5);
        held.rollback().expect("unlocked");
        let answers = asked.into_iter().map(|one| one.join().expect("an answer"));
        answers.collect::<Vec<_>>()
    });
    for (answer, request) in answers.iter().zip(&requests) {
        assert!(is_accepted(answer, request), "{answer}");
    }
    let over_http = &answers[requests.len()];
    assert!(over_http.starts_with("HTTP/1.1 200 "), "{over_http}");
    assert!(over_http.contains(ADA), "{over_http}");
    let answer = read_answer(&mut connection);
    assert!(is_accepted(&answer, &over_tcp), "{answer}");
    for node in &nodes {
        assert_eq!(node.0.stat("/cluster/kept_waiting"), 0);
        assert_eq!(node.0.stat("/cluster/set_aside"), 0);
    }
}

/// A client over a connection is told to try again; a datagram that nobody has served is forgotten, and its next copy is a new one.
#[test]
fn what_waits_for_too_long_ends() {
    let site = Site::new();
    let nodes = two_nodes(&site);
    let [alpha, beta] = &nodes;
    let mut session = session(&site);
    let held = hold_on_the_way(&mut session, &nodes);
    let mut phone = Phone::new(&beta.0, 9, "ada");
    let register = phone.register_request();
    phone.send(&register);
    let mut connection = TcpStream::connect(alpha.0.tcp).expect("the server listens");
    let over_tcp = register_over(&connection);
    connection.write_all(over_tcp.as_bytes()).expect("it reads");
    let answer = read_answer(&mut connection);
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert!(header(&answer, "Retry-After").is_some(), "{answer}");
    beta.0.wait_for("/cluster/kept_late", |late| late == 2);
    assert_eq!(beta.0.stat("/cluster/kept_waiting"), 0);
    assert_eq!(beta.0.stat("/cluster/set_aside"), 2);
    held.rollback().expect("unlocked");
    wait_until(|| beta.users().contains(ADA), || beta.0.log());
    assert!(phone.ask(&register).starts_with("SIP/2.0 200 "));
}

/// Two nodes, of which alpha has Ada.
fn two_nodes(site: &Site) -> [Node; 2] {
    let nodes = ["alpha", "beta"].map(|name| site.node(name));
    for node in &nodes {
        node.0.wait_for("/cluster/nodes_up", |nodes| nodes == 2);
        node.wait_until_it_serves(128);
    }
    assert!(nodes[0].register("ada").starts_with("SIP/2.0 200 "));
    give_ada(&nodes[0], "alpha");
    wait_until(|| nodes[0].users().contains(ADA), || nodes[0].0.log());
    nodes
}

fn session(site: &Site) -> Client {
    Client::connect(&site.postgres.url(DATABASE), NoTls).expect("it listens")
}

/// Alpha has given Ada's partition to beta, which cannot read it until the transaction ends.
fn hold_on_the_way<'s>(session: &'s mut Client, [alpha, beta]: &[Node; 2]) -> Transaction<'s> {
    let mut lock = session.transaction().expect("begun");
    lock.batch_execute("LOCK TABLE contact IN ACCESS EXCLUSIVE MODE")
        .expect("locked");
    give_ada(alpha, "beta");
    let partition = i32::from(Partition::of(ADA).0);
    let sql = "SELECT name FROM cluster_partition JOIN cluster_node ON node = owner \
        WHERE partition = $1::int4::int2";
    let mut owner = || {
        let row = lock.query_one(sql, &[&partition]);
        row.expect("an owner").get::<_, String>(0)
    };
    wait_until(|| owner() == "beta", || beta.0.log());
    lock
}

fn give_ada(asked: &Node, to: &str) {
    let partition = Partition::of(ADA);
    let path = format!("/api/v1/cluster/partitions/{partition}/move/{to}");
    let answer = asked.ask("POST", &path, "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

fn publish_request(phone: &mut Phone) -> String {
    let body = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" entity=\"sip:ada@example.com\">\
        <tuple id=\"t\"><status><basic>open</basic></status></tuple></presence>";
    let headers = "Event: presence\r\nContent-Type: application/pidf+xml\r\n";
    let request = phone.request("PUBLISH", ADA, ADA, headers);
    let len = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    request.replace("Content-Length: 0\r\n\r\n", &len)
}

fn register_over(connection: &TcpStream) -> String {
    let address = connection.local_addr().expect("connected");
    format!(
        "REGISTER sip:example.com SIP/2.0\r\n\
         Via: SIP/2.0/TCP {address};branch=z9hG4bKtcp;rport\r\n\
         From: <{ADA}>;tag=t\r\nTo: <{ADA}>\r\nCall-ID: tcp@{address}\r\nCSeq: 1 REGISTER\r\n\
         Contact: <sip:ada@{address};transport=tcp>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn read_answer(connection: &mut TcpStream) -> String {
    let timeout = connection.set_read_timeout(Some(PATIENCE));
    timeout.expect("a time");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).expect("an answer");
        answer.extend(byte);
    }
    String::from_utf8(answer).expect("text")
}

fn is_accepted(answer: &str, request: &str) -> bool {
    let is_200 = answer.starts_with("SIP/2.0 200 ");
    is_200 && header(answer, "Call-ID") == header(request, "Call-ID")
}

const ADA: &str = "sip:ada@example.com";
/// A limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(30);
