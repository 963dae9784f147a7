//! Telephones publish and watch presence, and are notified of their messages. twinkle watches
//! others only with a screen; here it subscribes to its mailbox.

use crate::{
    baresip::Baresip,
    linphone,
    registering::{only_binding, wait_for},
    site::Site,
    support::{console::Console, wait_until},
    twinkle,
};
use std::fs;

/// A line of baresip's file of accounts.
fn account(site: &Site, user: &str, password: &str, options: &str) -> String {
    format!(
        "<sip:{user}@example.com;transport=udp>;auth_user={user};auth_pass={password};\
         outbound=\"sip:{};transport=udp\";regint=600;pubint=600{options}",
        site.address("udp")
    )
}

/// Starts alice's baresip, which has bob among its contacts.
fn alice(site: &Site, options: &str) -> Baresip {
    let contacts = "\"Bob\" <sip:bob@example.com>;presence=p2p\n";
    Baresip::silent(&account(site, "alice", "something", options), contacts)
}

#[test]
fn baresip_is_notified_of_its_messages() {
    let site = Site::start();
    site.put_mailbox("alice", r#"{"voice":{"new":2,"old":8}}"#);
    let mut telephone = alice(&site, ";mwi=yes");
    telephone.wait_for(&["Voice-Message: 2/8 (0/0)"]);
    assert!(telephone.output().contains("Messages-Waiting: yes"));
    // A telephone that was started again has left its first binding behind.
    assert!(site.server.stat("/registrar/binding_count") >= 1);
    site.put_mailbox("alice", r#"{"voice":{"old":10}}"#);
    telephone.wait_for(&["Voice-Message: 0/10 (0/0)"]);
    assert!(telephone.output().contains("Messages-Waiting: no"));
}

#[test]
fn baresip_publishes_and_watches() {
    let site = Site::start();
    let server = &site.server;
    let mut alices = alice(&site, ";mwi=no");
    server.wait_for("/publish/publication_count", |count| {
        alices.assert_lives();
        count >= 1
    });
    // The NOTIFY says that bob cannot be reached.
    server.wait_for("/watch/confirmed", |count| count >= 1);
    let mut bobs = Baresip::silent(&account(&site, "bob", "else", ";mwi=no"), "");
    alices.wait_for(&["<sip:bob@example.com> changed status", "Online"]);
    bobs.assert_lives();
    assert_eq!(server.stat("/publish/rejected"), 0);
    assert_eq!(server.stat("/watch/rejected"), 0);
}

/// Starts bob's twinkle, which publishes and shows the messages in his mailbox.
fn twinkle(site: &Site) -> Console {
    let settings = "pres_publish_startup=yes\npres_publication_time=600\n\
         mwi_sollicited=yes\nmwi_user=bob\nmwi_server=example.com\nmwi_via_proxy=yes\n\
         mwi_subscription_time=600\n";
    twinkle::start(site, "bob", "else", settings)
}

#[test]
fn twinkle_registers_publishes_and_is_notified_of_its_messages() {
    let site = Site::start();
    let server = &site.server;
    site.put_mailbox("bob", r#"{"voice":{"new":2,"old":8}}"#);
    let mut phone = twinkle(&site);
    assert_eq!(only_binding(&site)["aor"], "sip:bob@example.com");
    wait_for_message(&mut phone, "Voice-Message: 2/8 (0/0)");
    site.put_mailbox("bob", r#"{"voice":{"old":10}}"#);
    wait_for_message(&mut phone, "Voice-Message: 0/10 (0/0)");
    wait_for(&site, &mut phone, "/publish/created", 1);

    phone.say("register");
    wait_for(&site, &mut phone, "/registrar/refreshed", 1);
    phone.say("presence -b offline");
    wait_for(&site, &mut phone, "/publish/modified", 1);
    let challenged = server.stat("/registrar/challenged");
    assert!(challenged >= 3, "one request of each kind");

    phone.say("quit");
    server.wait_for("/registrar/removed", |count| count == 1);
    phone.wait_for("de-registration succeeded: 200 OK");
    phone.wait();
    assert_eq!(server.stat("/registrar/binding_count"), 0);
    server.wait_for("/watch/unsubscribed", |count| count == 1);
    server.wait_for("/publish/removed", |count| count == 1);
    assert_nothing_was_rejected(&site);
}

#[test]
fn linphone_registers_publishes_and_sees_what_twinkle_publishes() {
    let site = Site::start();
    let server = &site.server;
    let settings = "publish=1\npublish_expires=600\n\
         [friend_0]\nurl=\"Bob\" <sip:bob@example.com>\npol=accept\nsubscribe=1\n";
    let mut alices = linphone::start(&site, "alice", "something", 600, settings, &[]);
    wait_for(&site, &mut alices, "/registrar/added", 1);
    // linphone publishes when it knows that it is registered.
    wait_for(&site, &mut alices, "/publish/created", 1);
    alices.say("status register");
    alices.wait_for("registered, identity=sip:alice@example.com duration=600");
    wait_for(&site, &mut alices, "/watch/confirmed", 1);
    alices.wait_for("<sip:bob@example.com> is Offline");

    let mut bobs = twinkle(&site);
    wait_for(&site, &mut bobs, "/publish/created", 2);
    alices.wait_for("<sip:bob@example.com> is Online");

    alices.say("quit");
    server.wait_for("/registrar/removed", |count| count == 1);
    alices.wait();
    server.wait_for("/publish/removed", |count| count == 1);
    server.wait_for("/watch/watcher_count", |count| count == 1);
    bobs.assert_lives();
    assert_nothing_was_rejected(&site);
}

/// It compresses the list of its friends, is told their presence as one list, and shows it.
#[test]
fn linphone_shows_its_friends_by_a_list_that_it_compresses() {
    let site = Site::start();
    let server = &site.server;
    let friends = ["bob", "carol"].map(|user| {
        let number = usize::from(user == "carol");
        format!(
            "[friend_{number}]\nurl=\"{user}\" <sip:{user}@example.com>\npol=accept\nsubscribe=1\n"
        )
    });
    let settings = format!("{}[sip]\nrls_uri=sip:rls@example.com\n", friends.concat());
    let mut alices = linphone::start(&site, "alice", "something", 600, &settings, &[]);
    wait_for(&site, &mut alices, "/registrar/added", 1);
    wait_for(&site, &mut alices, "/list/lamp_count", 2);
    wait_for(&site, &mut alices, "/traffic/bodies_decoded", 1);
    assert_eq!(server.stat("/watch/watcher_count"), 1, "one for both");
    alices.wait_for("<sip:bob@example.com> is Offline");
    alices.wait_for("<sip:carol@example.com> is Offline");
    let mut bobs = twinkle(&site);
    wait_for(&site, &mut bobs, "/publish/created", 1);
    alices.wait_for("<sip:bob@example.com> is Online");
    assert!(
        !alices
            .output()
            .contains("<sip:carol@example.com> is Online")
    );
    alices.say("quit");
    server.wait_for("/registrar/removed", |count| count == 1);
    alices.wait();
    server.wait_for("/list/lamp_count", |count| count == 0);
    assert_eq!(server.stat("/traffic/bodies_refused"), 0);
    assert_nothing_was_rejected(&site);
}

fn assert_nothing_was_rejected(site: &Site) {
    let rejected = [
        "/registrar/rejected",
        "/watch/rejected",
        "/publish/rejected",
    ];
    assert_eq!(rejected.map(|pointer| site.server.stat(pointer)), [0; 3]);
}

/// Waits until twinkle has logged a received message with these lines.
fn wait_for_message(phone: &mut Console, words: &str) {
    let log = phone.place.path(".twinkle/twinkle.log");
    let read = || fs::read_to_string(&log).unwrap_or_default();
    wait_until(
        || {
            phone.assert_lives();
            read().contains(words)
        },
        || format!("no {words:?} in:\n{}", read()),
    );
}
