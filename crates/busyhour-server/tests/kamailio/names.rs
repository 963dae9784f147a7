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
    let name = |name: &str| SanType::DnsName(name.try_into().expect("a name"));
    let [certificate, key] = written(&place, &authority, "server", name("busyhour.example.net"));
    let authorities = place.path("authorities.pem");
    fs::write(&authorities, authority.pem()).expect("a writable folder");
    let server = place.server(&format!(
        "{}[[peer]]\nname = \"kamailio\"\naddresses = [\"sip.example.net\"]\n\
         prefixes = [\"9\"]\nprobe_seconds = 10\n",
        ACCOUNTS.replacen(
            "[sip]\n",
            &format!(
                "[sip]\ntls = \"127.0.0.1:0\"\ntls_certificate = {certificate:?}\n\
                 tls_key = {key:?}\ntls_authorities = {authorities:?}\n\
                 dns_servers = \"{}\"\n",
                dns.address
            ),
            1
        )
    ));
    let mut callee = callee(own, 1);
    let [certificate, key] = written(&place, &authority, "kamailio", name("sip.example.net"));
    let over_tls = format!(
        "enable_tls=yes\nlisten=tls:{there}\nloadmodule \"tls.so\"\n\
         modparam(\"tls\", \"tls_method\", \"TLSv1.2+\")\n\
         modparam(\"tls\", \"certificate\", \"{}\")\nmodparam(\"tls\", \"private_key\", \"{}\")\n",
        certificate.display(),
        key.display(),
    );
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
