//! Next hops with names, which a real DNS server knows.

use crate::{
    ACCOUNTS,
    authority::Authority,
    connections::{call, callee, written},
    dnsmasq::Dnsmasq,
    kamailio::{Kamailio, free_address},
    nobody,
    support::{Place, wait_until},
    telephone::Telephone,
};
use rcgen::SanType;
use std::{fs, net::SocketAddr};

fn srv(service: &str, host: &str, at: SocketAddr, priority: u16) -> [String; 2] {
    [
        format!("--srv-host={service},{host},{},{priority},0", at.port()),
        format!("--host-record={host},{}", at.ip()),
    ]
}

/// The server's configuration with TLS, and with this peer.
fn with_tls(place: &Place, authority: &Authority, dns: &Dnsmasq, peer: &str) -> String {
    let [certificate, key] = written(place, authority, "server", named("busyhour.example.net"));
    let authorities = place.path("authorities.pem");
    fs::write(&authorities, authority.pem()).expect("a writable folder");
    let sip = format!(
        "[sip]\ntls = \"127.0.0.1:0\"\ntls_certificate = {certificate:?}\ntls_key = {key:?}\n\
         tls_authorities = {authorities:?}\ndns_servers = \"{}\"\n",
        dns.address
    );
    ACCOUNTS.replacen("[sip]\n", &sip, 1) + peer
}

/// Kamailio's lines for TLS, with a certificate for this name.
fn over_tls(place: &Place, authority: &Authority, there: SocketAddr, name: &str) -> String {
    let [certificate, key] = written(place, authority, "kamailio", named(name));
    format!(
        "enable_tls=yes\nlisten=tls:{there}\nloadmodule \"tls.so\"\n\
         modparam(\"tls\", \"tls_method\", \"TLSv1.2+\")\n\
         modparam(\"tls\", \"certificate\", \"{}\")\nmodparam(\"tls\", \"private_key\", \"{}\")\n",
        certificate.display(),
        key.display(),
    )
}

fn named(name: &str) -> SanType {
    SanType::DnsName(name.try_into().expect("a name"))
}

/// NAPTR says that the domain wants TLS, SRV names two servers of which one is not there, and the
/// certificate of the other is for the domain.
#[test]
fn a_kamailio_is_found_by_the_name_of_its_domain_and_shows_its_certificate() {
    let (place, authority, own) = (Place::new(), Authority::new(), nobody());
    let (gone, there) = (nobody(), free_address());
    let service = "_sips._tcp.sip.example.net";
    let naptr = format!("--naptr-record=sip.example.net,10,10,s,SIPS+D2T,,{service}");
    let servers = [
        srv(service, "one.example.net", gone, 1),
        srv(service, "two.example.net", there, 2),
    ];
    let dns = Dnsmasq::start(&[servers.as_flattened(), &[naptr]].concat());
    let peer = "[[peer]]\nname = \"kamailio\"\naddresses = [\"sip.example.net\"]\n\
                prefixes = [\"9\"]\nprobe_seconds = 10\n";
    let server = place.server(&with_tls(&place, &authority, &dns, peer));
    let mut callee = callee(own, 1);
    let over_tls = over_tls(&place, &authority, there, "sip.example.net");
    let kamailio = Kamailio::with(&place, there, server.sip, own, &over_tls);
    let is_up = || server.get("/api/peers").contains("\"state\":\"up\"");
    wait_until(is_up, || {
        format!("{}\n{}", server.get("/api/peers"), kamailio.log())
    });
    let alice = Telephone::new("alice", server.sip);
    alice.register();
    let route = call(&server, &alice, "over-tls");
    assert!(
        route.contains(&format!("{there};transport=tls")),
        "{route}\n{}",
        kamailio.log()
    );
    assert!(callee.wait().expect("a child").success());
    assert!(server.stat("/dns/questions") >= 6);
}

/// The certificate is for the domain, and not for the host that SRV names (RFC 5922 §4). Who has
/// one for the host alone does not get the calls of the domain, even where a connection for
/// another domain stands. The dialog outlives its connection.
#[test]
fn a_domain_is_called_over_tls_and_shows_that_it_is_the_domain() {
    let (place, authority, own, there) = (Place::new(), Authority::new(), nobody(), free_address());
    let srv = |domain: &str, host: &str| {
        format!("--srv-host=_sips._tcp.{domain},{host},{},1,0", there.port())
    };
    let dns = Dnsmasq::start(&[
        "--naptr-record=partner.example,10,10,s,SIPS+D2T,,_sips._tcp.partner.example".to_owned(),
        srv("partner.example", "sip.host.example"),
        srv("forged.example", "partner.example"),
        format!("--host-record=sip.host.example,{}", there.ip()),
        format!("--host-record=partner.example,{}", there.ip()),
    ]);
    let peer = "[[peer]]\nname = \"federation\"\nlookup = true\n\
                domains = [\"partner.example\", \"forged.example\"]\n";
    let server = place.server(&with_tls(&place, &authority, &dns, peer));
    let over_tls = over_tls(&place, &authority, there, "partner.example");
    let start = || Kamailio::with(&place, there, server.sip, own, &over_tls);
    let mut kamailio = start();
    let mut callee = callee(own, 2);
    let alice = Telephone::new("alice", server.sip);
    alice.register();
    let bob = Telephone::new("bob", server.sip);
    for (call_id, uri) in [
        ("by-naptr", "sip:9001@partner.example"),
        ("sips", "sips:9001@partner.example"),
    ] {
        let answer = alice.ask("INVITE", uri, call_id, "");
        assert!(
            answer.starts_with("SIP/2.0 200 "),
            "{answer}\n{}",
            kamailio.log()
        );
        assert!(
            answer.contains(&format!("{there};transport=tls")),
            "{answer}"
        );
        alice.send_within("ACK", 2, &answer);
        // To the same address, while the connection of the other domain stands.
        let forged = bob.ask("INVITE", "sips:9001@forged.example", call_id, "");
        assert!(forged.starts_with("SIP/2.0 500 "), "{forged}");
        drop(kamailio);
        server.wait_for("/network/streams/connection_count", |count| count == 0);
        kamailio = start();
        alice.send_within("BYE", 3, &answer);
        let ended = alice.final_answer();
        assert!(ended.starts_with("SIP/2.0 200 "), "{ended}");
    }
    assert!(callee.wait().expect("a child").success());
}

/// A domain that is called by its name: its SRV answer does not fit in a datagram, its host is
/// an alias, and what DNS has said once needs no DNS.
#[test]
fn a_domain_is_called_where_dns_says_and_while_dns_is_gone() {
    let place = Place::new();
    let zoe = Telephone::new("zoe", nobody());
    let service = "_sip._udp.partner.example";
    let mut options = vec![
        format!(
            "--srv-host={service},sip.partner.example,{},1,0",
            zoe.address().port()
        ),
        "--cname=sip.partner.example,host.partner.example".to_owned(),
        format!("--host-record=host.partner.example,{}", zoe.address().ip()),
    ];
    options.extend((0..40).map(|number| {
        format!(
            "--srv-host={service},spare-{number}.partner.example,5060,{},0",
            2 + number
        )
    }));
    let dns = Dnsmasq::start(&options);
    // The first one does not answer.
    let silent = nobody();
    let server = place.server(&format!(
        "{}[[peer]]\nname = \"federation\"\ndomains = [\"*\", \"partner.example\"]\nlookup = true\n",
        ACCOUNTS.replacen(
            "[sip]\n",
            &format!("[sip]\ndns_servers = \"{silent},{}\"\n", dns.address),
            1
        )
    ));
    let alice = Telephone::new("alice", server.sip);
    alice.register();
    let uri = "sip:zoe@partner.example";
    let answers = std::thread::spawn(move || {
        for _ in 0..2 {
            let invite = zoe.hear("INVITE ");
            assert!(invite.starts_with(&format!("INVITE {uri} ")), "{invite}");
            zoe.answer(&invite, "200 OK");
            zoe.hear("ACK ");
            let bye = zoe.hear("BYE ");
            zoe.answer(&bye, "200 OK");
        }
    });
    for call_id in ["first", "second"] {
        let answer = alice.ask("INVITE", uri, call_id, "");
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        alice.send_within("ACK", 2, &answer);
        alice.send_within("BYE", 3, &answer);
        let ended = alice.final_answer();
        assert!(ended.starts_with("SIP/2.0 200 "), "{ended}");
    }
    answers.join().expect("zoe was called");
    let refused = alice.ask("INVITE", "sip:zoe@nobody.example", "nobody", "");
    assert!(
        refused.starts_with("SIP/2.0 404 Domain Does Not Exist"),
        "{refused}"
    );
    drop(dns);
    let bob = Telephone::new("bob", server.sip);
    let refused = bob.ask("INVITE", "sip:zoe@silent.example", "silent", "");
    assert!(
        refused.starts_with("SIP/2.0 504 No Answer From DNS"),
        "{refused}"
    );
}
