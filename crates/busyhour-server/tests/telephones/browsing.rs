//! A telephone in a real browser calls one on a desk, and the other way round: over ws and wss, with
//! the media through a real rtpengine.

use crate::{
    baresip::{Baresip, Speaker},
    browser::Browser,
    site::Site,
    support::{rtpengine::Rtpengine, wait_until},
};
use std::process::Command;

#[test]
fn a_browser_and_a_desk_telephone_call_and_hear_each_other() {
    let relay = Rtpengine::start(14_000..14_400);
    let site = site(&relay);
    let wss = format!("wss://127.0.0.1:{}/", site.server.address("sip-wss").port());
    // The page finds `ws` itself.
    for server in ["", &wss] {
        let page = format!("http://{}/telephone/", site.server.http);
        let browser = Browser::open(&page, 600);
        browser.register(server, "alice", "something");
        browser_calls(&browser, &site, &relay);
        desk_calls(&browser, &site);
        browser.press("unregister");
        browser.wait_for("registration", "none");
    }
    wait_until(|| relay.calls() == 0, || site.server.log());
    assert_eq!(site.server.stat("/network/streams/web_sockets_refused"), 0);
}

/// With a lamp that shows it.
fn browser_calls(browser: &Browser, site: &Site, relay: &Rtpengine) {
    let mut desk = Baresip::speaking(site, &desk(1000, ";answermode=auto", ""));
    browser.fill("watched", "bob");
    browser.press("add-lamp");
    browser.wait_for_lamp("bob", "terminated");
    browser.fill("number", "bob");
    browser.press("call");
    browser.wait_for("call", "talking");
    site.wait_for_calls(1, || desk.assert_lives());
    browser.wait_for_lamp("bob", "confirmed");
    browser.wait_for_tone(1000);
    desk.wait_for_tone(600, 1000);
    assert_eq!(relay.calls(), 1);
    browser.press("hangup");
    browser.wait_for("call", "none");
    site.wait_for_calls(0, || desk.assert_lives());
    browser.wait_for_lamp("bob", "terminated");
}

fn desk_calls(browser: &Browser, site: &Site) {
    let mut desk = Baresip::speaking(site, &desk(800, "", "/dial sip:alice@example.com"));
    browser.wait_for("call", "incoming");
    browser.press("answer");
    browser.wait_for("call", "talking");
    browser.wait_for_tone(800);
    desk.wait_for_tone(600, 800);
    desk.end_gently();
    browser.wait_for("call", "none");
    site.wait_for_calls(0, || {});
}

fn desk<'a>(hertz: u32, options: &'a str, command: &'a str) -> Speaker<'a> {
    Speaker {
        user: "bob",
        password: "else",
        transport: "udp",
        hertz,
        options,
        command,
    }
}

fn site(relay: &Rtpengine) -> Site {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let client = format!("{root}/target/telephone");
    let script = format!("{root}/scripts/telephone.sh");
    let made = Command::new(script).arg(&client).status();
    assert!(made.expect("a script").success(), "it says why");
    let sections = format!(
        "[http]\ntelephone = \"{client}\"\n[media]\nrelays = \"{}\"\n",
        relay.address
    );
    Site::with("ws = \"127.0.0.1:0\"\nwss = \"127.0.0.1:0\"\n", &sections)
}
