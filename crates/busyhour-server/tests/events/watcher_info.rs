//! Who watches whom, told to those who are watched (RFC 3857).

use crate::world::{World, body, digest_config, header};

#[test]
fn the_owner_is_told_who_watches_and_who_has_ceased_to() {
    let mut world = World::open();
    let first = world.watch("owner", "alice", "presence.winfo");
    assert_eq!(
        header(&first, "Content-Type"),
        "application/watcherinfo+xml"
    );
    assert!(
        body(&first).contains("version=\"0\" state=\"full\""),
        "{first}"
    );
    assert!(!body(&first).contains("<watcher "), "{first}");

    watch_as(&mut world, "bob", "presence");
    world.pass(5_000);
    let told = world.only_notify();
    assert_eq!(header(&told, "Event"), "presence.winfo");
    let active = "status=\"active\" event=\"subscribe\" expiration=\"3595\" \
                  duration-subscribed=\"5\">sip:bob@example.com<";
    assert!(body(&told).contains(active), "{told}");
    assert!(body(&told).contains("state=\"partial\""), "{told}");

    let (answer, last) = unwatch_as(&mut world, "bob", "presence");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert!(last.unwrap().contains("Subscription-State: terminated"));
    world.pass(5_000);
    let told = world.only_notify();
    let terminated = "status=\"terminated\" event=\"timeout\">sip:bob@example.com<";
    assert!(body(&told).contains(terminated), "{told}");
}

/// RFC 3857 §4.10.
#[test]
fn many_watchers_within_five_seconds_are_one_notify() {
    let mut world = World::open();
    world.watch("owner", "alice", "dialog.winfo");
    for name in ["bob", "carol", "dave"] {
        watch_as(&mut world, name, "dialog");
    }
    assert_eq!(world.notified(), [""; 0]);
    world.pass(5_000);
    let told = world.only_notify();
    assert_eq!(body(&told).matches("<watcher ").count(), 3, "{told}");
}

/// To publish the list copies it: once when the owner comes, and once for all that has changed
/// within the interval, however many they were. Who only refreshes is no news.
#[test]
fn a_thousand_watchers_at_once_are_one_copy_of_the_list() {
    let mut world = World::open();
    world.watch("owner", "alice", "presence.winfo");
    assert_eq!(copies(&world), 1);
    let names: Vec<_> = (0..1_000).map(|number| format!("w{number}")).collect();
    for name in &names {
        watch_as(&mut world, name, "presence");
    }
    world.pass(5_000);
    assert_eq!(copies(&world), 2);
    let bodies = world.notified();
    let told: usize = bodies
        .iter()
        .map(|one| one.matches("<watcher ").count())
        .sum();
    assert_eq!(told, 1_000);
    for round in 0..3 {
        for name in &names {
            watch_as(&mut world, name, "presence");
        }
        world.pass(5_000);
        assert_eq!(copies(&world), 2, "round {round}");
    }
}

/// Though nobody is told of the refreshes themselves.
#[test]
fn who_asks_again_is_told_how_long_refreshed_watchers_have_left() {
    let mut world = World::open();
    world.watch("owner", "alice", "presence.winfo");
    watch_as(&mut world, "bob", "presence");
    world.pass(5_000);
    world.only_notify();
    world.pass(1_000_000);
    watch_as(&mut world, "bob", "presence");
    assert_eq!(world.notified(), [""; 0]);
    let full = world.watch("owner", "alice", "presence.winfo");
    let active = "expiration=\"3600\" duration-subscribed=\"1005\">sip:bob@";
    assert!(body(&full).contains(active), "{full}");
    world.pass(5_000);
    assert_eq!(world.notified(), [""; 0], "that was all");
}

/// One who asks between two publications has everything at once, and the first is not told twice.
#[test]
fn a_second_owner_is_told_what_the_first_one_waits_for() {
    let mut world = World::open();
    world.watch("owner", "alice", "presence.winfo");
    world.pass(1_000);
    watch_as(&mut world, "bob", "presence");
    let second = world.watch("second", "alice", "presence.winfo");
    assert_eq!(body(&second).matches("<watcher ").count(), 1, "{second}");
    world.pass(4_000);
    let told = world.only_notify();
    assert!(
        body(&told).contains("version=\"1\" state=\"partial\""),
        "{told}"
    );
    world.pass(60_000);
    assert_eq!(world.notified(), [""; 0]);
}

/// Also for one who asks for the second time, when nobody had asked in between.
#[test]
fn those_who_watched_before_are_in_the_first_body() {
    let mut world = World::open();
    watch_as(&mut world, "bob", "dialog");
    watch_as(&mut world, "carol", "presence");
    for owner in ["owner", "owner-again"] {
        let first = world.watch(owner, "alice", "dialog.winfo");
        assert!(body(&first).contains(">sip:bob@example.com<"), "{first}");
        assert_eq!(body(&first).matches("<watcher ").count(), 1, "{first}");
        let (_, last) = world.subscribe(owner, "alice", "Event: dialog.winfo\r\nExpires: 0\r\n");
        assert!(last.unwrap().contains("Subscription-State: terminated"));
        watch_as(&mut world, "dave", "presence");
    }
}

#[test]
fn only_the_account_itself_sees_who_watches_it() {
    let mut world = World::with(digest_config());
    for package in ["presence", "dialog", "message-summary"] {
        let headers = format!("Event: {package}.winfo\r\n");
        let sent = world.subscribe_as("alice", "alice", &headers);
        assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
        let sent = world.subscribe_as("bob", "alice", &headers);
        assert!(
            sent[0].starts_with("SIP/2.0 403 Not Your Watchers\r\n"),
            "{sent:?}"
        );
    }
}

/// The end of an account ends what it watches, and the watched one is told why.
#[test]
fn a_watcher_without_an_account_any_more_was_rejected() {
    let mut world = World::with(digest_config());
    world.put_account("dora", None, &[]);
    let sent = world.subscribe_as("alice", "alice", "Event: presence.winfo\r\n");
    assert_eq!(sent.len(), 2, "{sent:?}");
    world.receive(&crate::world::ok(&sent[1]));
    let sent = world.subscribe_as("dora", "alice", "Event: presence\r\n");
    world.receive(&crate::world::ok(&sent[1]));
    world.pass(5_000);
    world.only_notify();
    let gone = world.server.remove_account("dora", crate::world::kept());
    assert!(gone.is_ok());
    world.settle();
    world.notified();
    world.pass(5_000);
    let told = world.only_notify();
    assert!(
        body(&told).contains("status=\"terminated\" event=\"rejected\""),
        "{told}"
    );
}

/// How often the list of alice's watchers of her presence was copied.
fn copies(world: &World) -> u64 {
    let topics = world.stats().runtime.topics;
    let topic = topics.iter().find(|topic| topic.name == "presence.winfo");
    topic.unwrap().published
}

/// `bob` or another user watches alice; his NOTIFY is confirmed.
fn watch_as(world: &mut World, name: &str, package: &str) {
    subscribe_as(world, name, &format!("Event: {package}\r\n"));
}

fn unwatch_as(world: &mut World, name: &str, package: &str) -> (String, Option<String>) {
    subscribe_as(world, name, &format!("Event: {package}\r\nExpires: 0\r\n"))
}

fn subscribe_as(world: &mut World, name: &str, headers: &str) -> (String, Option<String>) {
    let request = world.subscribe_request(name, "alice", headers);
    let from = format!("From: <sip:{name}@example.com>");
    let request = request.replacen("From: <sip:alice@example.com>", &from, 1);
    world.begin(name, &request)
}
