//! A call rings at two telephones of one user, and one of them answers.

use crate::{
    baresip::{Baresip, Speaker},
    linphone,
    site::Site,
};

/// Bob has a linphone and a baresip. He answers with the linphone.
#[test]
fn linphone_answers_and_baresip_stops_ringing() {
    let site = Site::start();
    let lamps = site.lamps(["alice", "bob"]);
    let mut answering = linphone::start(&site, "bob", "else", 600, "", &[]);
    answering.say("soundcard use files");
    site.server.wait_for("/registrar/binding_count", |count| {
        answering.assert_lives();
        count == 1
    });
    let mut ringing = Baresip::speaking(
        &site,
        &Speaker {
            user: "bob",
            password: "else",
            transport: "tcp",
            hertz: 880,
            options: "",
            command: "",
        },
    );
    let mut alices = Baresip::speaking(
        &site,
        &Speaker {
            user: "alice",
            password: "something",
            transport: "udp",
            hertz: 440,
            options: "",
            command: "/dial sip:bob@example.com",
        },
    );
    lamps[1].wait_for("early early");
    answering.wait_for("incoming call");
    answering.say("answer");

    ringing.wait_for(&["Reason: SIP;cause=200;text=\"Call completed elsewhere\""]);
    ringing.wait_for(&["SIP/2.0 487 "]);
    ringing.wait_for(&["session closed"]);
    lamps[0].wait_for("confirmed");
    lamps[1].wait_for("confirmed");
    answering.wait_for("connected");
    site.wait_for_calls(1, || alices.assert_lives());

    // Alice hangs up.
    alices.end_gently();
    answering.wait_for("ended");
    site.wait_for_calls(0, || answering.assert_lives());
    lamps[0].ends_dark_after(&["confirmed"]);
    lamps[1].ends_dark_after(&["early early", "confirmed"]);
    assert_eq!(site.server.stat("/calls/proxy/cancels_sent"), 1);
    assert_eq!(site.server.stat("/calls/dialogs/answered"), 1);
}
