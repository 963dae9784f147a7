//! The broker on a real NATS server: order, answers, its end and return, TLS and passwords; and live
//! states that are whole again after it was away.

#![cfg(feature = "nats")]

mod live_node;
#[path = "../../../busyhour-server/tests/support/ports.rs"]
#[allow(dead_code)] // others use the rest
mod ports;
mod server;
#[path = "../../../busyhour-server/tests/support/waiting.rs"]
mod waiting;

use busyhour_cluster::{
    Broker, BrokerError, BrokerMessage, LiveOrigin, NatsBroker, NatsError, NatsOptions,
};
use live_node::LiveNode;
use server::NatsServer;
use std::{sync::mpsc, time::Duration};
use waiting::wait_until;

#[test]
fn messages_arrive_in_order_and_requests_are_answered() {
    let server = NatsServer::start();
    let (alpha, beta) = (server.broker(), server.broker());
    let heard = listen(&beta, "news");
    say_until_heard(&alpha, "news", &heard);
    for number in 0..2_000_u32 {
        alpha.publish("news", number.to_be_bytes().into()).unwrap();
    }
    for number in 0..2_000_u32 {
        let message = next(&heard, b"hello");
        assert_eq!(message.payload, number.to_be_bytes());
    }
    let asked = listen(&beta, "questions");
    say_until_heard(&alpha, "questions", &asked);
    let (told, answered) = mpsc::channel();
    let ask = |subject: &str, patience: Duration| {
        let told = told.clone();
        let done = move |answer| told.send(answer).unwrap();
        alpha
            .request(subject, b"why".into(), patience, Box::new(done))
            .unwrap();
    };
    ask("questions", LONG);
    let question = next(&asked, b"hello");
    beta.publish(&question.reply.unwrap(), b"because".into())
        .unwrap();
    assert_eq!(answered.recv().unwrap(), Ok(b"because".into()));
    ask("nobody", LONG);
    assert_eq!(answered.recv().unwrap(), Err(BrokerError::Nobody));
    ask("questions", Duration::from_millis(50));
    assert_eq!(answered.recv().unwrap(), Err(BrokerError::Late));
}

/// While the broker is away messages are refused; subscriptions are there again with it.
#[test]
fn a_broker_that_is_away_refuses_and_comes_back() {
    let mut server = NatsServer::start();
    let broker = server.broker();
    let heard = listen(&broker, "news");
    say_until_heard(&broker, "news", &heard);
    server.kill();
    wait_until(|| !broker.is_connected(), || server.log());
    assert_eq!(
        broker.publish("news", b"lost".into()),
        Err(BrokerError::Away)
    );
    let done = Box::new(|_| panic!("it was refused"));
    assert_eq!(
        broker.request("news", Vec::new(), LONG, done),
        Err(BrokerError::Away)
    );
    server.run();
    server.wait_for(&broker);
    say_until_heard(&broker, "news", &heard);
}

/// NATS need not be there when a node starts.
#[test]
fn a_node_may_start_before_its_broker() {
    let mut server = NatsServer::start();
    server.kill();
    let broker = NatsBroker::connect(server.options()).unwrap();
    let heard = listen(&broker, "news");
    assert_eq!(broker.publish("news", Vec::new()), Err(BrokerError::Away));
    server.run();
    server.wait_for(&broker);
    say_until_heard(&broker, "news", &heard);
}

/// Passwords, authorities and certificates come from files; without one of them there is no
/// connection.
#[test]
fn tls_and_passwords_come_from_files() {
    let authority = Authority::new();
    let (server_certificate, server_key) = authority.certificate("localhost");
    let (client_certificate, client_key) = authority.certificate("busyhour");
    let files = tempfile::TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let authorities = file("ca.pem", &authority.certificate.pem());
    let folder = files.path().display();
    file("server.pem", &server_certificate);
    file("server.key", &server_key);
    let server = NatsServer::start_with(&format!(
        "authorization {{ users = [ {{ user: busyhour, password: \"a secret\" }} ] }}\n\
        tls {{ cert_file: \"{folder}/server.pem\", key_file: \"{folder}/server.key\", \
        ca_file: \"{folder}/ca.pem\", verify: true }}"
    ));
    let port = server.options().servers[0]
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    let right = NatsOptions {
        servers: vec![format!("tls://localhost:{port}")],
        user: Some(file("user", "busyhour\na secret\n")),
        authorities: Some(authorities),
        certificate: Some((
            file("client.pem", &client_certificate),
            file("client.key", &client_key),
        )),
        ..server.options()
    };
    let wrong = [
        NatsOptions {
            user: Some(file("wrong", "busyhour\nanother\n")),
            ..right.clone()
        },
        NatsOptions {
            user: None,
            ..right.clone()
        },
        NatsOptions {
            authorities: None,
            ..right.clone()
        },
        NatsOptions {
            certificate: None,
            ..right.clone()
        },
    ];
    let wrong = wrong.map(|options| NatsBroker::connect(options).unwrap());
    let broker = NatsBroker::connect(right.clone()).unwrap();
    server.wait_for(&broker);
    let heard = listen(&broker, "news");
    say_until_heard(&broker, "news", &heard);
    for (case, wrong) in wrong.iter().enumerate() {
        assert!(!wrong.is_connected(), "case {case}");
    }
    let no_password = NatsOptions {
        user: Some(file("short", "busyhour")),
        ..right.clone()
    };
    let error = NatsBroker::connect(no_password).err().unwrap();
    assert!(
        error.to_string().contains("the password on the second"),
        "{error}"
    );
    let missing = NatsOptions {
        credentials: Some("/nowhere.creds".into()),
        ..right
    };
    assert!(matches!(
        NatsBroker::connect(missing),
        Err(NatsError::File { .. })
    ));
}

/// What changes while the broker is away is there when it is back, and what was removed is not.
#[test]
fn live_states_are_whole_again_when_the_broker_is_back() {
    let mut server = NatsServer::start();
    let nodes = [1, 2, 3].map(|node| LiveNode::start(node, server.options()));
    for key in 0..500 {
        nodes[0].set(key, 1);
        nodes[1].set(key, 2);
    }
    let agree = || {
        nodes.iter().for_each(LiveNode::beat);
        let pairs = nodes
            .iter()
            .flat_map(|one| nodes.iter().map(move |other| (one, other)));
        pairs
            .filter(|(one, other)| !std::sync::Arc::ptr_eq(one, other))
            .all(|(one, other)| one.is_whole() && one.states_of(other) == other.own_states())
    };
    wait_until(agree, || server.log());
    server.kill();
    wait_until(
        || nodes.iter().all(|node| !node.broker().is_connected()),
        || server.log(),
    );
    assert!(
        nodes.iter().all(|node| !node.is_whole()),
        "they know that they may be wrong"
    );
    for key in 0..100 {
        nodes[0].remove(key);
        nodes[1].set(key, 3);
        nodes[2].set(key, 4);
    }
    server.run();
    wait_until(agree, || server.log());
    assert_eq!(nodes[2].states_of(&nodes[0]).len(), 400);
}

/// NATS takes 1 MiB by default, and here 64 KiB. Larger states go in pieces, as they change and when
/// a node joins; what no node would take is not said, and does no harm.
#[test]
fn states_larger_than_the_broker_takes_reach_all() {
    let server = NatsServer::start_with("max_payload: 65536");
    let nodes = [1, 2].map(|node| LiveNode::start(node, server.options()));
    let agree = |nodes: &[std::sync::Arc<LiveNode>]| {
        nodes.iter().for_each(|node| node.beat());
        let others = nodes
            .iter()
            .flat_map(|one| nodes.iter().map(move |it| (one, it)));
        others
            .filter(|(one, other)| !std::sync::Arc::ptr_eq(one, other))
            .all(|(one, other)| one.is_whole() && one.states_of(other) == other.own_states())
    };
    nodes[0].set(1, 1);
    wait_until(|| agree(&nodes), || server.log());
    let resyncs = nodes[1].resyncs();
    nodes[0].set_large(2, 3 << 20);
    nodes[0].set(3, 3);
    wait_until(|| agree(&nodes), || server.log());
    assert_eq!(nodes[1].states_of(&nodes[0]).len(), 3);
    assert_eq!(nodes[1].resyncs(), resyncs, "the change itself has come");
    nodes[0].set_large(4, LiveOrigin::VALUE_BYTES_MAX + 1);
    nodes[0].set_large(5, LiveOrigin::VALUE_BYTES_MAX);
    let [first, second] = nodes;
    let third = LiveNode::start(3, server.options());
    let nodes = [first, second, third];
    wait_until(|| agree(&nodes), || server.log());
    assert_eq!(nodes[2].states_of(&nodes[0]).len(), 4);
    let error = nodes[0].broker().publish("live", vec![0; (16 << 20) + 1]);
    assert_eq!(error, Err(BrokerError::TooLarge));
}

/// What this client hears of a subject from some moment on.
fn listen(broker: &NatsBroker, subject: &str) -> mpsc::Receiver<BrokerMessage> {
    let (told, heard) = mpsc::channel();
    let receive = move |message| drop(told.send(message));
    broker.subscribe(subject, Box::new(receive)).unwrap();
    heard
}

/// A subscription takes some time to reach the server.
fn say_until_heard(broker: &NatsBroker, subject: &str, heard: &mpsc::Receiver<BrokerMessage>) {
    let say = || {
        let _lost_if_it_is_away = broker.publish(subject, b"hello".into());
        heard.recv_timeout(Duration::from_millis(20)).is_ok()
    };
    wait_until(say, || "nothing was heard".into());
}

/// The next message that is another one.
fn next(heard: &mpsc::Receiver<BrokerMessage>, skipped: &[u8]) -> BrokerMessage {
    heard
        .iter()
        .find(|message| message.payload != skipped)
        .unwrap()
}

/// An authority for one test.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let issuer = rcgen::Issuer::new(params, key);
        Self {
            certificate,
            issuer,
        }
    }

    /// A certificate for a name, and its key.
    fn certificate(&self, name: &str) -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

const LONG: Duration = Duration::from_secs(60);
