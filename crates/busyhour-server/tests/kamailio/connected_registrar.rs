//! A real Kamailio behind the server that takes registrations over TCP alone, or over TLS alone.

use crate::{
    authority::Authority,
    connections::written,
    kamailio::{Kamailio, free_address},
    registrar::is_known,
    support::{Place, ServerProcess, wait_until},
    telephone::Telephone,
};
use rcgen::SanType;
use std::{fs, net::SocketAddr};

/// A Kamailio whose registrar takes one transport, with these lines about connections.
fn registrar(place: &Place, address: SocketAddr, transport: &str, connections: &str) -> Kamailio {
    let only = format!(
        "if (is_method(\"REGISTER\")) {{\n    if ($proto != \"{transport}\") {{\n\
         sl_send_reply(\"403\", \"Not Over $proto\");\n exit;\n }}\n"
    );
    let text = include_str!("configurations/registrar.cfg")
        .replace("if (is_method(\"REGISTER\")) {\n", &only)
        .replace("disable_tcp=yes\n", &format!("{SOURCE}{connections}"))
        .replace("%HERE%", &address.to_string());
    Kamailio::run(place, address, &text)
}

fn configuration(of_sip: &str, transport: &str, address: SocketAddr) -> String {
    let accounts = ["alice", "bob"]
        .map(|user| format!("[[account]]\nuser = \"{user}\"\npassword = \"secret\"\n"))
        .concat();
    format!(
        "[sip]\ndomains = \"example.com\"\n{of_sip}{accounts}\
         [[peer]]\nname = \"pbx\"\naddresses = [\"{}\"]\nmay_call = true\n\
         [[registrar]]\nname = \"pbx\"\naddress = \"{transport}/{address}\"\n",
        address.ip()
    )
}

/// Bob is registered there over the transport, by one registration for all of his; calls come by its
/// Path over the same one; and the end of his registration is told.
fn is_registered_until_he_ends_it(server: &ServerProcess, kamailio: &Kamailio, way: &str) {
    let bob = Telephone::new("bob", server.sip);
    for number in 0..10 {
        let id = format!("register{number}");
        let answer = bob.ask("REGISTER", "sip:example.com", &id, "Expires: 60\r\n");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
    server.wait_for("/upstream/answered", |count| count == 2);
    assert_eq!(server.stat("/upstream/told_count"), 1, "{}", server.log());
    assert_eq!(server.stat("/upstream/sent"), 1);
    assert_eq!(server.stat("/upstream/retransmitted"), 0);
    let world = Telephone::new("world", kamailio.address);
    let uri = "sip:bob@example.com";
    world.send(&world.request("INVITE", uri, "sip:world@world.example", "way", ""));
    let invite = bob.hear("INVITE ");
    assert!(invite.contains(&format!("X-Way: {way}\r\n")), "{invite}");
    bob.answer(&invite, "486 Busy Here");
    world.hear("SIP/2.0 486 ");
    let answer = bob.ask("REGISTER", "sip:example.com", "end", "Expires: 0\r\n");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    server.wait_for("/upstream/told_count", |count| count == 0);
    assert!(!is_known(&world, &bob, "gone"));
}

/// It dies with its connection, and is told everything on a new one when it is back.
#[test]
fn over_tcp_kamailio_is_told_calls_and_is_told_again_on_a_new_connection() {
    let (place, address) = (Place::new(), free_address());
    let over_tcp = format!("listen=tcp:{address}\n");
    let kamailio = registrar(&place, address, "tcp", &over_tcp);
    let server = place.server(&configuration("", "tcp", address));
    let way = format!("sip:{};transport=tcp;lr", server.tcp);
    is_registered_until_he_ends_it(&server, &kamailio, &way);
    let listed = server.get("/api/registrars");
    assert!(listed.contains(&format!("\"tcp/{address}\"")), "{listed}");

    drop(kamailio);
    let bob = Telephone::new("bob", server.sip);
    bob.register();
    server.wait_for("/upstream/sent", |count| count >= 3);
    let _kamailio = registrar(&place, address, "tcp", &over_tcp);
    let world = Telephone::new("world", address);
    let mut tries = 0;
    wait_until(
        || {
            tries += 1;
            is_known(&world, &bob, &format!("back{tries}"))
        },
        || server.log(),
    );
    assert!(server.stop().success());
}

/// Both show certificates: Kamailio one for its address, which a stranger at that place has not.
#[test]
fn over_tls_kamailio_is_told_if_it_shows_a_certificate_for_its_address() {
    let (place, authority, stranger) = (Place::new(), Authority::new(), Authority::new());
    let name = SanType::DnsName("busyhour.example.net".try_into().expect("a name"));
    let [certificate, key] = written(&place, &authority, "server", name);
    let authorities = place.path("authorities.pem");
    fs::write(&authorities, authority.pem()).expect("a writable folder");
    let of_sip = format!(
        "tls = \"127.0.0.1:0\"\ntls_certificate = {certificate:?}\ntls_key = {key:?}\n\
         tls_authorities = {authorities:?}\n"
    );
    let address = free_address();
    let over_tls = |name: &str, authority: &Authority| {
        let shown = SanType::IpAddress(address.ip());
        let [certificate, key] = written(&place, authority, name, shown);
        format!(
            "enable_tls=yes\nlisten=tls:{address}\nloadmodule \"tls.so\"\n\
             modparam(\"tls\", \"tls_method\", \"TLSv1.2+\")\n\
             modparam(\"tls\", \"certificate\", \"{}\")\nmodparam(\"tls\", \"private_key\", \"{}\")\n\
             modparam(\"tls\", \"ca_list\", \"{}\")\nmodparam(\"tls\", \"verify_certificate\", 1)\n\
             modparam(\"tls\", \"require_certificate\", 1)\n",
            certificate.display(),
            key.display(),
            authorities.display()
        )
    };
    let server = place.server(&configuration(&of_sip, "tls", address));
    let other = registrar(&place, address, "tls", &over_tls("other", &stranger));
    let alice = Telephone::new("alice", server.sip);
    alice.register();
    server.wait_for("/network/streams/connect_failures", |count| count > 0);
    assert_eq!(server.stat("/upstream/answered"), 0, "{}", other.log());
    drop(other);
    let kamailio = registrar(&place, address, "tls", &over_tls("kamailio", &authority));
    server.wait_for("/upstream/answered", |count| count >= 2);
    let world = Telephone::new("world", kamailio.address);
    let uri = "sip:alice@example.com";
    world.send(&world.request("INVITE", uri, "sip:world@world.example", "way", ""));
    let invite = alice.hear("INVITE ");
    let ours = server.address("sip-tls");
    let way = format!("X-Way: sip:{ours};transport=tls;lr\r\n");
    assert!(invite.contains(&way), "{invite}");
    alice.answer(&invite, "486 Busy Here");
    world.hear("SIP/2.0 486 ");
    assert!(server.stop().success());
}

/// Its connections come from its own address, by which it is a peer; the kernel would take another
/// one of loopback.
const SOURCE: &str = "tcp_source_ipv4=127.0.0.30\n";
