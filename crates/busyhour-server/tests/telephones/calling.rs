//! Two baresip call each other. Each plays a tone of its own, and hears that of the other.

use crate::{
    baresip::{Baresip, Speaker},
    site::Site,
};

#[test]
fn telephones_call_and_hear_each_other_over_datagrams() {
    call_over("udp", "udp");
}

#[test]
fn telephones_call_and_hear_each_other_over_connections() {
    call_over("tcp", "tcp");
}

#[test]
fn telephones_call_and_hear_each_other_over_encrypted_connections() {
    call_over("tls", "tls");
}

#[test]
fn a_telephone_over_tls_calls_one_over_datagrams() {
    call_over("tls", "udp");
}

#[test]
fn a_telephone_over_datagrams_calls_one_over_tls() {
    call_over("udp", "tls");
}

/// Alice calls bob, who answers at once.
fn call_over(of_alice: &str, of_bob: &str) {
    let site = Site::start();
    let lamps = site.lamps(["alice", "bob"]);
    let mut bobs = Baresip::speaking(
        &site,
        &Speaker {
            user: "bob",
            password: "else",
            transport: of_bob,
            hertz: 880,
            options: ";answermode=auto",
            command: "",
        },
    );
    let mut alices = Baresip::speaking(
        &site,
        &Speaker {
            user: "alice",
            password: "something",
            transport: of_alice,
            hertz: 440,
            options: "",
            command: "/dial sip:bob@example.com",
        },
    );
    site.wait_for_calls(1, || {
        alices.assert_lives();
        bobs.assert_lives();
    });
    for lamp in &lamps {
        lamp.wait_for("confirmed");
    }
    bobs.wait_for_tone(440, 880);
    alices.wait_for_tone(880, 440);
    // Alice hangs up.
    alices.end_gently();
    bobs.wait_for(&["session closed"]);
    site.wait_for_calls(0, || bobs.assert_lives());
    let stat = |name: &str| site.server.stat(name);
    assert_eq!(stat("/calls/dialogs/answered"), 1);
    assert_eq!(stat("/calls/untrusted_routes"), 0);
    for lamp in &lamps {
        lamp.ends_dark_after(&["confirmed"]);
    }
}
