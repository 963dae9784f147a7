//! A telephone transfers its call to another one with REFER (RFC 3515, RFC 5589), and is
//! told by NOTIFY what became of it. All messages pass through the server.

use crate::{
    baresip::{Baresip, Speaker},
    linphone,
    site::Site,
    support::wait_until,
    twinkle,
};
use serde_json::Value;

/// A baresip that answers each call at once.
fn answering(site: &Site, user: &str, password: &str, hertz: u32) -> Baresip {
    Baresip::speaking(
        site,
        &Speaker {
            user,
            password,
            transport: "udp",
            hertz,
            options: ";answermode=auto",
            command: "",
        },
    )
}

fn calls(site: &Site) -> Vec<Value> {
    let page: Value = serde_json::from_str(&site.server.get("/api/calls")).expect("JSON");
    page["calls"].as_array().expect("a list").clone()
}

/// Waits until the only call is that of alice with carol.
fn wait_for_alice_with_carol(site: &Site) {
    let is_so = |call: &Value| {
        let expected = [
            ("caller", "sip:alice@example.com"),
            ("callee", "sip:carol@example.com"),
            ("state", "confirmed"),
        ];
        expected.iter().all(|(key, value)| call[key] == *value)
    };
    wait_until(
        || matches!(&calls(site)[..], [call] if is_so(call)),
        || {
            format!(
                "{:#?}\n{}",
                calls(site),
                site.server.get("/api/call-records")
            )
        },
    );
}

/// Bob calls alice and transfers her to carol, without asking carol.
#[test]
fn twinkle_transfers_a_call_to_a_telephone_that_it_has_not_asked() {
    let site = Site::start();
    let lamps = site.lamps(["alice", "bob", "carol"]);
    let [of_alice, of_bob, of_carol] = &lamps;
    let mut alices = answering(&site, "alice", "something", 440);
    let mut carols = answering(&site, "carol", "other", 660);
    let mut bobs = twinkle::start(&site, "bob", "else", "");
    bobs.say("call alice");
    bobs.wait_for("far end answered call");
    of_alice.wait_for("confirmed");
    of_bob.wait_for("confirmed");

    bobs.say("transfer carol");
    bobs.wait_for("call successfully referred");
    wait_for_alice_with_carol(&site);
    of_alice.wait_for("confirmed");
    of_carol.wait_for("confirmed");
    of_bob.ends_dark_after(&["confirmed"]);
    carols.wait_for_tone(440, 660);
    alices.wait_for_tone(660, 440);

    alices.end_gently();
    carols.wait_for(&["session closed"]);
    site.wait_for_calls(0, || carols.assert_lives());
    of_alice.ends_dark_after(&["confirmed", "confirmed"]);
    of_carol.ends_dark_after(&["confirmed"]);
    assert_eq!(site.server.stat("/calls/dialogs/answered"), 2);
    assert_eq!(site.server.stat("/calls/untrusted_routes"), 0);
}

/// Bob calls alice, holds her and asks carol. Then he transfers alice, whose call replaces
/// his own with carol (RFC 3891). All have a linphone: Twinkle 1.10.2 waits for itself for
/// ever when a call with Replaces comes, and does not know routes that a linphone returns,
/// since it takes upper and
/// lower case in the names of headers for different.
#[test]
fn linphone_transfers_a_call_to_a_telephone_that_it_has_asked() {
    let site = Site::start();
    let lamps = site.lamps(["alice", "bob", "carol"]);
    let [of_alice, of_bob, of_carol] = &lamps;
    let start = |user: &str, password: &str, options: &[&str]| {
        let mut phone = linphone::start(&site, user, password, 600, "", options);
        phone.say("soundcard use files");
        phone
    };
    let mut alices = start("alice", "something", &["-a"]);
    let mut bobs = start("bob", "else", &[]);
    let mut carols = start("carol", "other", &["-a"]);
    site.server.wait_for("/registrar/binding_count", |count| {
        alices.assert_lives();
        carols.assert_lives();
        count == 3
    });
    bobs.say("call sip:alice@example.com");
    of_alice.wait_for("confirmed");
    of_bob.wait_for("confirmed");
    bobs.wait_for("Media streams established with sip:alice@example.com");
    bobs.say("pause");
    of_bob.wait_for("confirmed held");
    bobs.wait_for("is now paused");
    bobs.say("call sip:carol@example.com");
    of_carol.wait_for("confirmed");
    of_bob.wait_for("confirmed confirmed held");
    bobs.wait_for("Media streams established with sip:carol@example.com");

    bobs.say("transfer 1 --to-call 2");
    wait_for_alice_with_carol(&site);
    of_alice.wait_for("confirmed");
    of_carol.wait_for("confirmed");
    of_bob.ends_dark_after(&["confirmed", "confirmed held", "confirmed confirmed held"]);

    carols.say("terminate");
    site.wait_for_calls(0, || carols.assert_lives());
    of_alice.ends_dark_after(&["confirmed", "confirmed"]);
    of_carol.ends_dark_after(&["confirmed"]);
    assert_eq!(site.server.stat("/calls/dialogs/answered"), 3);
    assert_eq!(site.server.stat("/calls/untrusted_routes"), 0);
}
