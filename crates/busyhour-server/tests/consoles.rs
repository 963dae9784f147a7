//! Real telephones without a screen, Debian's linphonec and twinkle-console. They
//! register with digest, refresh and unregister, subscribe, publish, and receive
//! NOTIFYs.
//!
//! Debian 12's linphone does not support message waiting, and twinkle watches others
//! only with a screen; here it subscribes to its mailbox. If a machine has only
//! loopback addresses, linphone assumes that there is no network, and sends nothing.

mod support;

use serde_json::Value;
use std::{fs, net::UdpSocket};
use support::{Place, ServerProcess, console::Console, sipp::free_port};

/// The token is `secret`.
const CONFIGURATION: &str = "
[[token]]
name = \"test\"
scope = \"write\"
sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"
[sip]
algorithms = [\"MD5\"]
domains = [\"example.com\"]
min_expires_seconds = 1

[[account]]
user = \"alice\"
password = \"something\"

[[account]]
user = \"bob\"
password = \"else\"
";

/// Starts bob's twinkle, which publishes and shows the messages in his mailbox.
fn twinkle(server: &ServerProcess) -> Console {
    let place = Place::new();
    let folder = place.path(".twinkle");
    fs::create_dir(&folder).unwrap();
    let sip = server.sip;
    let profile = format!(
        "user_name=bob\nuser_domain=example.com\nauth_name=bob\nauth_pass=else\n\
         registrar={sip}\noutbound_proxy={sip}\nall_requests_to_proxy=yes\n\
         register_at_startup=yes\nregistration_time=600\nsip_transport=udp\n\
         pres_publish_startup=yes\npres_publication_time=600\n\
         mwi_sollicited=yes\nmwi_user=bob\nmwi_server=example.com\nmwi_via_proxy=yes\n\
         mwi_subscription_time=600\n"
    );
    let system = format!(
        "sip_port={}\nrtp_port={}\nlog_show_sip=yes\nstart_user_profile=bob\n",
        free_port(),
        even_port()
    );
    fs::write(folder.join("bob.cfg"), profile).unwrap();
    fs::write(folder.join("twinkle.sys"), system).unwrap();
    Console::start("twinkle-console", &[], "twinkle-console", place)
}

/// A port for RTP, which is configured although there is no call.
fn even_port() -> u16 {
    std::iter::repeat_with(free_port)
        .find(|port| port % 2 == 0)
        .expect("half of all ports are even")
}

/// Starts alice's linphone, which publishes and watches bob.
fn linphone(server: &ServerProcess, expires_s: u32) -> Console {
    assert_is_on_a_network();
    let place = Place::new();
    let (sip, port) = (server.sip, free_port());
    place.file(
        "linphonerc",
        &format!(
            "[sip]\nsip_port={port}\nsip_tcp_port=0\nsip_tls_port=0\nguess_hostname=0\n\
             use_ipv6=0\ndefault_proxy=0\n\
             [auth_info_0]\nusername=alice\nuserid=alice\npasswd=something\nrealm=busyhour\n\
             [proxy_0]\nreg_proxy=<sip:{sip};transport=udp>\nreg_route=<sip:{sip};transport=udp;lr>\n\
             reg_identity=sip:alice@example.com\nreg_expires={expires_s}\nreg_sendregister=1\n\
             publish=1\npublish_expires=600\n\
             [friend_0]\nurl=\"Bob\" <sip:bob@example.com>\npol=accept\nsubscribe=1\n"
        ),
    );
    // Without this folder linphone starts without its database, and logs errors.
    fs::create_dir_all(place.path(".local/share/linphone")).unwrap();
    Console::start("linphonec", &["-c", "linphonerc"], "linphone-cli", place)
}

#[test]
fn twinkle_registers_publishes_and_is_notified_of_its_messages() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    put_mailbox(&server, r#"{"voice":{"new":2,"old":8}}"#);
    let mut phone = twinkle(&server);
    phone.wait_for("registration succeeded (expires = 600 seconds)");
    let binding = only_binding(&server);
    assert_eq!(binding["aor"], "sip:bob@example.com");
    wait_for_message(&mut phone, "Voice-Message: 2/8 (0/0)");
    put_mailbox(&server, r#"{"voice":{"old":10}}"#);
    wait_for_message(&mut phone, "Voice-Message: 0/10 (0/0)");
    wait_for(&server, &mut phone, "/publish/created", 1);

    phone.say("register");
    wait_for(&server, &mut phone, "/registrar/refreshed", 1);
    phone.say("presence -b offline");
    wait_for(&server, &mut phone, "/publish/modified", 1);
    let challenged = server.stat("/registrar/challenged");
    assert!(challenged >= 3, "one request of each kind");

    phone.say("quit");
    server.wait_for("/registrar/removed", |count| count == 1);
    phone.wait_for("de-registration succeeded: 200 OK");
    phone.wait();
    assert_eq!(server.stat("/registrar/binding_count"), 0);
    server.wait_for("/watch/unsubscribed", |count| count == 1);
    server.wait_for("/publish/removed", |count| count == 1);
    assert_nothing_was_rejected(&server);
}

#[test]
fn linphone_registers_publishes_and_sees_what_twinkle_publishes() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let mut alices = linphone(&server, 600);
    wait_for(&server, &mut alices, "/registrar/added", 1);
    // linphone publishes when it knows that it is registered.
    wait_for(&server, &mut alices, "/publish/created", 1);
    alices.say("status register");
    alices.wait_for("registered, identity=sip:alice@example.com duration=600");
    wait_for(&server, &mut alices, "/watch/confirmed", 1);
    alices.wait_for("<sip:bob@example.com> is Offline");

    let mut bobs = twinkle(&server);
    wait_for(&server, &mut bobs, "/publish/created", 2);
    alices.wait_for("<sip:bob@example.com> is Online");

    alices.say("quit");
    server.wait_for("/registrar/removed", |count| count == 1);
    alices.wait();
    server.wait_for("/publish/removed", |count| count == 1);
    server.wait_for("/watch/watcher_count", |count| count == 1);
    bobs.assert_lives();
    assert_nothing_was_rejected(&server);
}

#[test]
fn linphone_refreshes_before_its_registration_expires() {
    let place = Place::new();
    let server = place.server(CONFIGURATION);
    let mut phone = linphone(&server, 10);
    wait_for(&server, &mut phone, "/registrar/added", 1);
    let cseq = || only_binding(&server)["cseq"].as_u64().unwrap();
    let added = cseq();
    wait_for(&server, &mut phone, "/registrar/refreshed", 1);
    assert!(cseq() > added);
}

fn assert_nothing_was_rejected(server: &ServerProcess) {
    let rejected = [
        "/registrar/rejected",
        "/watch/rejected",
        "/publish/rejected",
    ];
    assert_eq!(rejected.map(|pointer| server.stat(pointer)), [0; 3]);
}

/// linphone checks which address it would use towards the Internet. It sends nothing
/// if there is none, or if it is a loopback address. The check itself sends nothing.
fn assert_is_on_a_network() {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let address = socket
        .connect("198.51.100.1:9")
        .and_then(|()| socket.local_addr());
    assert!(
        address.is_ok_and(|address| !address.ip().is_loopback()),
        "linphone needs an address besides loopback's; give the machine one: \
         ip address add 192.0.2.2/32 dev lo && ip route add default dev lo src 192.0.2.2"
    );
}

/// Waits until a counter is at least `least`; fails if the phone ends first.
fn wait_for(server: &ServerProcess, phone: &mut Console, pointer: &str, least: u64) {
    server.wait_for(pointer, |count| {
        phone.assert_lives();
        count >= least
    });
}

/// Waits until twinkle has logged a received message with these lines.
fn wait_for_message(phone: &mut Console, words: &str) {
    let log = phone.place.path(".twinkle/twinkle.log");
    let read = || fs::read_to_string(&log).unwrap_or_default();
    support::wait_until(
        || {
            phone.assert_lives();
            read().contains(words)
        },
        || format!("no {words:?} in:\n{}", read()),
    );
}

fn only_binding(server: &ServerProcess) -> Value {
    let page: Value = serde_json::from_str(&server.get("/api/bindings")).unwrap();
    let bindings = page["bindings"].as_array().unwrap();
    assert_eq!(bindings.len(), 1, "{page}");
    bindings[0].clone()
}

fn put_mailbox(server: &ServerProcess, body: &str) {
    let request = ureq::put(format!("http://{}/api/mailboxes/bob", server.http));
    let response = request.header("authorization", "Bearer secret").send(body);
    response.expect("no request was refused");
}
