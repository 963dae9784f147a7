//! Two Kamailios behind the server, one over TCP and one over TLS.

use crate::{
    ACCOUNTS,
    authority::Authority,
    kamailio::{Kamailio, free_address},
    nobody,
    support::{Place, ServerProcess, wait_until},
    telephone::Telephone,
};
use rcgen::SanType;
use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// A certificate and its key, in files.
pub fn written(place: &Place, authority: &Authority, name: &str, shown: SanType) -> [PathBuf; 2] {
    let made = authority.vouch(shown);
    let files = [
        ("certificate", made.cert.pem()),
        ("key", made.signing_key.serialize_pem()),
    ];
    files.map(|(kind, pem)| {
        let path = place.path(&format!("{name}-{kind}.pem"));
        fs::write(&path, pem).expect("a writable folder");
        path
    })
}

/// Who answers so many calls behind Kamailio.
pub fn callee(own: SocketAddr, calls: usize) -> Child {
    Command::new("sipp")
        .arg("-sf")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/kamailio/answer.xml"
        ))
        .args(["-m", &calls.to_string(), "-nostdin", "-timeout", "120s"])
        .args(["-i", &own.ip().to_string(), "-p", &own.port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("sipp: run scripts/install-deps.sh test")
}

/// Calls, hangs up, and returns the Record-Route of the answer.
pub fn call(server: &ServerProcess, alice: &Telephone, call_id: &str) -> String {
    let answer = alice.ask("INVITE", "sip:9001@example.com", call_id, "");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    alice.send_within("ACK", 2, &answer);
    alice.send_within("BYE", 3, &answer);
    let ended = alice.final_answer();
    assert!(ended.starts_with("SIP/2.0 200 "), "{ended}");
    server.wait_for("/calls/dialogs/call_count", |count| count == 0);
    let lines = answer
        .lines()
        .filter(|line| line.starts_with("Record-Route:"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The states of the two addresses.
fn states(server: &ServerProcess) -> String {
    let listed = server.get("/api/peers");
    let states = listed.split("\"state\":\"").skip(1);
    let states = states.filter_map(|rest| rest.split('"').next());
    states.collect::<Vec<_>>().join(" ")
}

/// The first one dies and comes back: calls go to the second one, and OPTIONS over the
/// connections tell.
#[test]
fn calls_go_over_tcp_and_over_tls_when_the_first_one_is_gone() {
    let (place, authority, own) = (Place::new(), Authority::new(), nobody());
    let (first, second) = (free_address(), free_address());
    let [certificate, key] = written(
        &place,
        &authority,
        "server",
        SanType::DnsName("busyhour.example.net".try_into().expect("a name")),
    );
    let authorities = place.path("authorities.pem");
    fs::write(&authorities, authority.pem()).expect("a writable folder");
    let server = place.server(&format!(
        "{}[[peer]]\nname = \"kamailio\"\naddresses = [\"tcp/{first}\", \"tls/{second}\"]\n\
         prefixes = [\"9\"]\nprobe_seconds = 10\n",
        ACCOUNTS.replacen(
            "[sip]\n",
            &format!(
                "[sip]\ntls = \"127.0.0.1:0\"\ntls_certificate = {certificate:?}\n\
                 tls_key = {key:?}\ntls_authorities = {authorities:?}\n"
            ),
            1
        )
    ));
    let mut callee = callee(own, 3);
    let over_tcp = format!("listen=tcp:{first}\n");
    let start_first = || Kamailio::with(&place, first, server.sip, own, &over_tcp);
    let kamailio = start_first();
    // It wants a certificate of ours, and shows one for its address.
    let [certificate, key] = written(
        &place,
        &authority,
        "kamailio",
        SanType::IpAddress(second.ip()),
    );
    let over_tls = format!(
        "enable_tls=yes\nlisten=tls:{second}\nloadmodule \"tls.so\"\n\
         modparam(\"tls\", \"tls_method\", \"TLSv1.2+\")\n\
         modparam(\"tls\", \"certificate\", \"{}\")\nmodparam(\"tls\", \"private_key\", \"{}\")\n\
         modparam(\"tls\", \"ca_list\", \"{}\")\nmodparam(\"tls\", \"verify_certificate\", 1)\n\
         modparam(\"tls\", \"require_certificate\", 1)\n",
        certificate.display(),
        key.display(),
        authorities.display()
    );
    let spare = Kamailio::with(&place, second, server.sip, own, &over_tls);
    wait_until(
        || states(&server) == "up up",
        || format!("{}\n{}", states(&server), spare.log()),
    );
    let alice = Telephone::new("alice", server.sip);
    alice.register();
    let route = call(&server, &alice, "over-tcp");
    assert!(route.contains(&format!("{first};transport=tcp")), "{route}");

    drop(kamailio);
    let route = call(&server, &alice, "over-tls");
    assert!(
        route.contains(&format!("{second};transport=tls")),
        "{route}"
    );
    wait_until(|| states(&server) == "down up", || states(&server));

    let _kamailio = start_first();
    wait_until(|| states(&server) == "up up", || states(&server));
    let route = call(&server, &alice, "over-tcp-again");
    assert!(route.contains(&format!("{first};transport=tcp")), "{route}");
    assert!(callee.wait().expect("a child").success());
}
