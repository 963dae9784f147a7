//! What docs/lamps.md replays: the states of a call that a server publishes, in the orders in
//! which networks and processes deliver them.

use crate::{
    exchange::digest_config,
    world::{CAROL, Phone, World, header, phone},
};
use busyhour_server::server::{PeerConfig, ServerConfig};
use std::time::Duration;

const KAMAILIO: Phone = phone("pua", "192.0.2.12:5060");

struct Site {
    world: World,
    serial: u32,
}

impl Site {
    fn new() -> Self {
        let kamailio = PeerConfig {
            name: "kamailio".into(),
            addresses: vec!["192.0.2.12".parse().unwrap()],
            may_publish: true,
            probe_interval: Duration::ZERO,
            ..PeerConfig::default()
        };
        let mut world = World::with(ServerConfig {
            peers: vec![kamailio],
            ..digest_config()
        });
        world.watch(CAROL, "bob");
        Self { world, serial: 0 }
    }

    /// A PUBLISH for bob of one state of one call, as `pua_dialoginfo` writes it.
    fn request(&mut self, call: &str, state: &str, if_match: Option<&str>, expires: u32) -> String {
        self.serial += 1;
        let body = format!(
            "<?xml version=\"1.0\"?>\r\n<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" \
             version=\"1\" state=\"full\" entity=\"sip:bob@example.com\">\
             <dialog id=\"{call}\" call-id=\"{call}\" direction=\"recipient\">\
             <state>{state}</state></dialog></dialog-info>"
        );
        let tag = if_match.map(|tag| format!("SIP-If-Match: {tag}\r\n"));
        let headers = format!(
            "Event: dialog\r\nExpires: {expires}\r\n{}Content-Type: application/dialog-info+xml\r\n",
            tag.unwrap_or_default()
        );
        let uri = "sip:bob@example.com";
        let call_id = format!("publish-{}", self.serial);
        let world = &mut self.world;
        let request = world.request(
            KAMAILIO,
            "PUBLISH",
            uri,
            &format!("<{uri}>"),
            &call_id,
            &headers,
        );
        let length = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        request.replace("Content-Length: 0\r\n\r\n", &length)
    }

    /// An initial PUBLISH; its entity-tag.
    fn publish(&mut self, call: &str, state: &str) -> String {
        let request = self.request(call, state, None, 3600);
        self.world.send(KAMAILIO, &request);
        let answer = self.world.read_status(KAMAILIO, "200");
        header(&answer, "SIP-ETag")
    }

    /// The states that carol has been told last.
    fn lamp(&mut self) -> String {
        // Changes closer together than this are told as one.
        self.world.pass(1_000);
        self.world.lamp(CAROL)
    }
}

/// The second call to a telephone that takes one only: 183 and 486 a moment apart, handled by
/// two processes, so that `terminated` arrives first.
#[test]
fn early_after_terminated_lights_no_lamp() {
    let mut site = Site::new();
    site.publish("call-1", "early");
    assert_eq!(site.lamp(), "early");
    let terminated = site.request("call-2", "terminated", None, 3600);
    let early = site.request("call-2", "early", None, 3600);
    site.world.send_at_once(KAMAILIO, &[terminated, early]);
    site.world.pass(500);
    for _ in 0..2 {
        site.world.read_status(KAMAILIO, "200");
    }
    assert_eq!(site.lamp(), "early terminated", "the first call rings");
    // And the first one ends in the same way.
    site.publish("call-1", "terminated");
    site.publish("call-1", "early");
    assert_eq!(site.lamp(), "terminated terminated");
}

/// `terminated` with Expires: 0 ends the dialog and leaves no publication.
#[test]
fn what_is_terminated_at_once_does_not_come_back() {
    let mut site = Site::new();
    let tag = site.publish("call-1", "early");
    assert_eq!(site.lamp(), "early");
    let terminated = site.request("call-1", "terminated", Some(&tag), 0);
    site.world.send(KAMAILIO, &terminated);
    site.world.read_status(KAMAILIO, "200");
    assert_eq!(site.lamp(), "");
    site.publish("call-1", "early");
    site.publish("call-2", "early");
    assert_eq!(site.lamp(), "early", "the other call");
}

/// `pua_dialoginfo` publishes `terminated` for eleven seconds.
#[test]
fn the_end_of_a_call_may_be_published_for_a_moment() {
    let mut site = Site::new();
    let tag = site.publish("call-1", "confirmed");
    assert_eq!(site.lamp(), "confirmed");
    let terminated = site.request("call-1", "terminated", Some(&tag), 11);
    site.world.send(KAMAILIO, &terminated);
    let answer = site.world.read_status(KAMAILIO, "200");
    assert_eq!(header(&answer, "Expires"), "11");
    assert_eq!(site.lamp(), "terminated");
    site.world.pass(11_000);
    assert_eq!(site.lamp(), "");
}

/// The first two PUBLISH requests of a call are both initial ones, as the entity-tag of the
/// first is not known yet: the first must not stay behind.
#[test]
fn no_state_stays_behind_under_an_entity_tag_that_nobody_uses() {
    let mut site = Site::new();
    site.publish("call-1", "early");
    let tag = site.publish("call-1", "confirmed");
    assert_eq!(site.lamp(), "confirmed early");
    let terminated = site.request("call-1", "terminated", Some(&tag), 3600);
    site.world.send(KAMAILIO, &terminated);
    site.world.read_status(KAMAILIO, "200");
    assert_eq!(site.lamp(), "terminated");
}

/// RFC 3903 §4.1: of two changes of one publication, the one that comes second has an old
/// entity-tag and is refused; sent again as an initial one, it still changes nothing.
#[test]
fn a_change_with_an_old_entity_tag_is_refused() {
    let mut site = Site::new();
    let tag = site.publish("call-1", "early");
    let terminated = site.request("call-1", "terminated", Some(&tag), 3600);
    let confirmed = site.request("call-1", "confirmed", Some(&tag), 3600);
    site.world.send_at_once(KAMAILIO, &[terminated, confirmed]);
    site.world.pass(500);
    site.world.read_status(KAMAILIO, "200");
    site.world.read_status(KAMAILIO, "412");
    site.publish("call-1", "confirmed");
    assert_eq!(site.lamp(), "terminated");
}

/// Within one publication the entity-tags are the order: its last word counts.
#[test]
fn a_publication_may_say_that_its_own_dialog_lives() {
    let mut site = Site::new();
    let tag = site.publish("call-1", "terminated");
    let again = site.request("call-1", "early", Some(&tag), 3600);
    site.world.send(KAMAILIO, &again);
    site.world.read_status(KAMAILIO, "200");
    assert_eq!(site.lamp(), "early");
}
