//! A server that is bound to all addresses answers from the address that a
//! request was sent to.

use crate::{
    phone::{OPEN, Phone, header},
    support::{Place, ServerProcess, busyhour},
};
use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
};

#[test]
fn a_request_is_answered_from_its_target_address_which_the_answer_names() {
    let place = Place::new();
    let server = start(&place, "0.0.0.0:0", OPEN);
    for host in [2, 3] {
        let ours = SocketAddr::from(([127, 0, 0, host], server.sip.port()));
        tells_of(&Phone::at("127.0.0.9:0"), ours, ours);
    }
}

#[test]
fn a_request_over_ipv6_is_answered_from_its_target_address_which_the_answer_names() {
    let place = Place::new();
    let server = start(&place, "[::]:0", OPEN);
    let ours = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], server.sip.port()));
    tells_of(&Phone::at("[::1]:0"), ours, ours);
}

#[test]
fn connections_and_iax2_use_the_target_address_of_the_request() {
    let place = Place::new();
    let server = start(&place, "0.0.0.0:0", OPEN);
    let ours = SocketAddr::from(([127, 0, 0, 2], server.tcp.port()));
    let mut stream = TcpStream::connect(ours).expect("a server");
    let phone = Phone::at("127.0.0.9:0");
    let request = phone
        .subscribe("alice")
        .replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    stream.write_all(request.as_bytes()).expect("open");
    let answer = BufReader::new(stream).lines().map_while(Result::ok);
    let answer: Vec<String> = answer.take_while(|line| !line.is_empty()).collect();
    let contact = format!("Contact: <sip:{ours};transport=tcp>");
    assert!(answer.contains(&contact), "{answer:?}");

    let iax2 = SocketAddr::from(([127, 0, 0, 3], server.iax2.port()));
    let phone = Phone::at("127.0.0.9:0");
    // A POKE: call 1, no time, no sequence, an IAX frame of subclass 30.
    let poke = [0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6, 30];
    phone.socket.send_to(&poke, iax2).expect("room");
    let (_, from) = phone.socket.recv_from(&mut [0; 100]).expect("a PONG");
    assert_eq!(from, iax2);
}

#[test]
fn each_network_gets_the_address_that_is_advertised_to_it() {
    let place = Place::new();
    let advertised = "advertised = [\"127.0.0.8/30=192.0.2.1:5070\", \"192.0.2.2:5080\"]\n";
    let server = start(&place, "0.0.0.0:0", &format!("{OPEN}{advertised}"));
    let ours = SocketAddr::from(([127, 0, 0, 2], server.sip.port()));
    let within = Phone::at("127.0.0.9:0");
    tells_of(&within, ours, "192.0.2.1:5070".parse().expect("an address"));
    let without = Phone::at("127.0.0.13:0");
    tells_of(
        &without,
        ours,
        "192.0.2.2:5080".parse().expect("an address"),
    );
}

/// Sends a request to `ours`, is answered from there, and finds `named` in the
/// answer.
fn tells_of(phone: &Phone, ours: SocketAddr, named: SocketAddr) {
    let user = format!("alice-{}", phone.address().port());
    let (answer, from) = phone.ask(&phone.register(&user), ours);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert_eq!(from, ours);
    let (answer, from) = phone.ask(&phone.subscribe(&user), ours);
    assert_eq!(from, ours);
    assert_eq!(header(&answer, "Contact"), format!("<sip:{named}>"));
    let (notify, from) = phone.hear("NOTIFY ");
    assert_eq!(from, ours);
    assert_eq!(header(&notify, "Contact"), format!("<sip:{named}>"));
    let via = format!("SIP/2.0/UDP {named};");
    assert!(header(&notify, "Via").starts_with(&via), "{notify}");
}

fn start(place: &Place, address: &str, configuration: &str) -> ServerProcess {
    let mut command = busyhour();
    let file = place.file("busyhour.toml", configuration);
    command.args(["serve", "--store-durability", "memory"]);
    command.args(["--http-listen", "127.0.0.1:0"]);
    command.args(["--sip-listen", address, "--iax2-listen", address]);
    command.arg("--config").arg(file);
    ServerProcess::start(&mut command, place)
}
