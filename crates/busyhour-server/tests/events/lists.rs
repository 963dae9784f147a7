//! Lists of resources, from received to sent datagrams: RFC 4662, RFC 5367, RFC 6446.

use crate::{
    panel::Panel,
    world::{DIALOG, World, body, dialog, digest_config, header, hint, kept, ok, open_config},
};
use busyhour_registrar::watch::{MessageCounts, MessageSummary, WatchPolicy};
use busyhour_server::server::{Limits, ListConfig, ListRefusal, ServerConfig};

/// What a Yealink sends for its BLF list.
const BLF_LIST: &str = "Event: dialog\r\nExpires: 1800\r\nSupported: eventlist\r\n\
    Accept: multipart/related, application/rlmi+xml, application/dialog-info+xml\r\n";

#[test]
fn a_panel_shows_who_rings_and_is_told_only_what_has_changed() {
    let mut world = World::with(with_lists(&[(
        "reception",
        &["Alice A. <alice>", "bob", "carol"],
    )]));
    world.register("alice", 600);
    let (answer, panel) = watch(&mut world, "panel", "reception", BLF_LIST);
    assert_eq!(header(&answer, "Require"), "eventlist");
    assert!(panel.is_full);
    assert_eq!((panel.told, panel.lamps.len()), (3, 3));
    assert_eq!(panel.names["sip:alice@example.com"], "Alice A.");
    let mut panel = panel;
    world.publish("bob", DIALOG, &dialog("early"));
    let notify = world.only_notify();
    panel.take(&notify);
    assert_eq!((panel.is_full, panel.told), (false, 1));
    assert!(lamp(&panel, "bob").contains("early"), "{notify}");
    roxmltree::Document::parse(lamp(&panel, "bob")).unwrap();
    world.register("alice", 600);
    assert_eq!(world.notified(), [""; 0], "a refresh is no news");
}

#[test]
fn who_does_not_say_that_it_reads_lists_is_told_to() {
    let mut world = World::with(with_lists(&[("reception", &["alice"])]));
    let (answer, _) = world.subscribe("w", "reception", "Event: dialog\r\n");
    assert!(
        answer.starts_with("SIP/2.0 421 Extension Required\r\n"),
        "{answer}"
    );
    assert_eq!(header(&answer, "Require"), "eventlist");
    for private in ["reg", "dialog.winfo"] {
        let headers = format!("Event: {private}\r\nSupported: eventlist\r\n");
        let (answer, _) = world.subscribe("w", "reception", &headers);
        assert!(answer.starts_with("SIP/2.0 489 "), "{answer}");
    }
}

#[test]
fn a_group_on_a_list_rings_when_one_of_its_devices_does() {
    let mut config = with_lists(&[("reception", &["sales", "carol"])]);
    config.hints = vec![hint("sales", &["alice", "bob"])];
    let mut world = World::with(config);
    let (_, mut panel) = watch(&mut world, "panel", "reception", BLF_LIST);
    world.publish("bob", DIALOG, &dialog("early"));
    panel.take(&world.only_notify());
    assert!(lamp(&panel, "sales").contains("early"));
}

#[test]
fn an_extension_that_comes_and_goes_changes_its_lamp_and_ends_nothing() {
    let mut world = World::with(with_lists(&[("reception", &["sales", "carol"])]));
    let (_, mut panel) = watch(&mut world, "panel", "reception", BLF_LIST);
    world.publish("bob", DIALOG, &dialog("early"));
    world
        .server
        .set_hint(&hint("sales", &["bob"]), kept())
        .unwrap();
    world.settle();
    panel.take(&world.only_notify());
    assert!(lamp(&panel, "sales").contains("early"));
    world.server.remove_hint("sales", kept()).unwrap();
    world.settle();
    panel.take(&world.only_notify());
    assert!(!lamp(&panel, "sales").contains("early"));
}

#[test]
fn a_list_that_a_telephone_brings_is_watched() {
    let mut world = World::with(open());
    let headers = format!(
        "{BLF_LIST}Require: recipient-list-subscribe\r\nContent-Type: application/resource-lists+xml\r\n\
         Content-Disposition: recipient-list\r\n"
    );
    let body = recipients(&[
        "sip:alice@example.com",
        "sip:bob@example.com",
        "sip:alice@EXAMPLE.com",
    ]);
    let request = world.request("SUBSCRIBE", "rls", None, "mine", &headers, &body);
    world.receive(&request);
    let sent = world.sent();
    assert!(sent[0].starts_with("SIP/2.0 200 "), "{}", sent[0]);
    let mut panel = Panel::default();
    panel.take(&sent[1]);
    assert_eq!(panel.lamps.len(), 2, "each resource is there once");
    world.receive(&ok(&sent[1]));
    world.publish("alice", DIALOG, &dialog("confirmed"));
    panel.take(&world.only_notify());
    assert!(lamp(&panel, "alice").contains("confirmed"));
    let stats = world.stats().list;
    assert_eq!(
        (stats.watched_count, stats.resource_count, stats.lamp_count),
        (1, 2, 2)
    );
}

#[test]
fn wrong_lists_are_refused_with_the_reason() {
    let mut world = World::open();
    let of = |content_type: &str| {
        format!("{BLF_LIST}Require: recipient-list-subscribe\r\nContent-Type: {content_type}\r\n")
    };
    let xml = of("application/resource-lists+xml");
    let mut ask = |headers: &str, body: &str| world.ask("SUBSCRIBE", "rls", headers, body);
    let answer = ask(&of("text/plain"), "alice");
    assert!(answer.starts_with("SIP/2.0 415 "), "{answer}");
    let answer = ask(&xml, "<resource-lists/>");
    assert!(
        answer.starts_with("SIP/2.0 400 Body Has Another Root Element"),
        "{answer}"
    );
    let answer = ask(&xml, &recipients(&[]));
    assert!(
        answer.starts_with("SIP/2.0 400 List Without Entries"),
        "{answer}"
    );
    let elsewhere = recipients(&["sip:a@example.com"]).replace("<entry ", "<entry-ref ref='x' ");
    let answer = ask(&xml, &elsewhere);
    assert!(
        answer.starts_with("SIP/2.0 400 Lists Elsewhere Are Not Fetched"),
        "{answer}"
    );
    // Comparing each with all others would take long.
    let attributes: String = (0..300).map(|number| format!("a{number}='' ")).collect();
    let crowded = recipients(&["sip:a@example.com"]).replace("uri=", &format!("{attributes}uri="));
    let answer = ask(&xml, &crowded);
    assert!(
        answer.starts_with("SIP/2.0 400 Element Has Too Many Attributes"),
        "{answer}"
    );
    let deflated = format!("{xml}Content-Encoding: deflate\r\n");
    let answer = ask(&deflated, &recipients(&["sip:a@example.com"]));
    assert!(
        answer.starts_with("SIP/2.0 400 Body Cannot Be Decoded"),
        "{answer}"
    );
}

#[test]
fn lists_in_lists_are_written_out_once_and_loops_are_refused() {
    let mut world = World::with(with_lists(&[
        ("all", &["sales", "support", "alice"]),
        ("sales", &["alice", "bob"]),
    ]));
    let support = list("support", &["carol", "sales", "dave"]);
    assert_eq!(world.server.set_list(&support, kept()), Ok(true));
    let (_, panel) = watch(&mut world, "panel", "all", BLF_LIST);
    let users: Vec<_> = panel.lamps.keys().map(|uri| &uri[4..]).collect();
    let expected = ["alice", "bob", "carol", "dave"].map(|user| format!("{user}@example.com"));
    assert_eq!(users, expected);
    let looped = list("support", &["all"]);
    let refusal = world.server.set_list(&looped, kept()).unwrap_err();
    assert!(
        matches!(refusal, ListRefusal::ContainsItself(..)),
        "{refusal}"
    );
    let configured = world.server.set_list(&list("sales", &["x"]), kept());
    assert_eq!(configured, Err(ListRefusal::Configured("sales".into())));
    assert_eq!(world.notified(), [""; 0]);
}

#[test]
fn a_changed_list_is_told_in_full_and_a_removed_one_ends() {
    let mut world = World::with(open());
    world
        .server
        .set_list(&list("team", &["alice", "bob"]), kept())
        .unwrap();
    let (_, mut panel) = watch(&mut world, "panel", "team", BLF_LIST);
    world
        .server
        .set_list(&list("team", &["bob", "carol", "dave"]), kept())
        .unwrap();
    world.settle();
    panel.take(&world.only_notify());
    assert!(panel.is_full);
    assert_eq!(panel.lamps.len(), 3);
    world.publish("dave", DIALOG, &dialog("early"));
    panel.take(&world.only_notify());
    assert!(lamp(&panel, "dave").contains("early"));
    world.publish("alice", DIALOG, &dialog("early"));
    assert_eq!(world.notified(), [""; 0], "alice is on it no more");
    assert_eq!(world.server.remove_list("team", kept()), Ok(true));
    world.settle();
    let last = world.only_notify();
    assert_eq!(
        header(&last, "Subscription-State"),
        "terminated;reason=noresource"
    );
    let stats = world.stats();
    assert_eq!((stats.list.lamp_count, stats.list.watched_count), (0, 0));
    assert_eq!(
        (stats.list.resource_count, stats.watch.watcher_count),
        (0, 0)
    );
}

#[test]
fn each_resource_is_judged_as_if_it_were_watched_alone() {
    let mut world = World::with(ServerConfig {
        watch: open().watch,
        lists: vec![list("all", &["alice", "carol", "nobody"])],
        ..digest_config()
    });
    let set = |world: &World, name: &str| {
        let summary = MessageSummary {
            voice: Some(MessageCounts {
                new: 2,
                ..MessageCounts::default()
            }),
            ..MessageSummary::default()
        };
        world.server.set_mailbox(name, summary, kept()).unwrap();
    };
    set(&world, "alice");
    set(&world, "carol");
    let sent = world.subscribe_as(
        "alice",
        "all",
        "Event: message-summary\r\nSupported: eventlist\r\n",
    );
    assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
    let mut panel = Panel::default();
    panel.take(&sent[1]);
    assert!(lamp(&panel, "alice").contains("Voice-Message: 2/0"));
    assert_eq!(lamp(&panel, "carol"), "terminated rejected");
    // Who may not watch it does not learn whether it exists.
    assert_eq!(lamp(&panel, "nobody"), "terminated rejected");
    let sent = world.subscribe_as(
        "alice",
        "all",
        "Event: presence\r\nSupported: eventlist\r\n",
    );
    panel = Panel::default();
    panel.take(&sent[1]);
    assert!(lamp(&panel, "carol").contains("presence"), "{panel:?}");
    assert_eq!(lamp(&panel, "nobody"), "terminated noresource");
}

#[test]
fn watchers_of_one_list_share_the_subscriptions_of_its_resources() {
    let mut world = World::with(with_lists(&[("reception", &["alice", "bob"])]));
    let mut panels = Vec::new();
    for number in 0..20 {
        panels.push(watch(&mut world, &format!("p{number}"), "reception", BLF_LIST).1);
    }
    let stats = world.stats().list;
    assert_eq!(
        (stats.watched_count, stats.resource_count, stats.lamp_count),
        (1, 2, 40)
    );
    world.publish("alice", DIALOG, &dialog("early"));
    let notified = world.notified();
    assert_eq!(notified.len(), 20);
    for notify in &notified {
        assert_eq!(notify.matches("<resource ").count(), 1, "{notify}");
    }
}

#[test]
fn a_refresh_brings_everything_again_and_takes_other_rates() {
    let mut world = World::with(with_lists(&[("reception", &["alice", "bob"])]));
    let (_, mut panel) = watch(&mut world, "panel", "reception", BLF_LIST);
    let slow = BLF_LIST.replace("dialog\r\n", "dialog;max-rate=0.1\r\n");
    let (answer, notify) = world.subscribe("panel", "reception", &slow);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let notify = notify.unwrap();
    assert!(header(&notify, "Subscription-State").ends_with(";max-rate=0.1"));
    panel.take(&notify);
    assert!(panel.is_full);
    world.publish("alice", DIALOG, &dialog("early"));
    world.publish("bob", DIALOG, &dialog("early"));
    assert_eq!(world.notified(), [""; 0], "ten seconds have not passed");
    world.pass(10_000);
    panel.take(&world.only_notify());
    assert_eq!(panel.told, 2);
}

#[test]
fn over_datagrams_a_long_list_comes_in_several_notifies() {
    let users: Vec<_> = (0..30).map(|number| format!("u{number}")).collect();
    let users: Vec<_> = users.iter().map(String::as_str).collect();
    let mut world = World::with(ServerConfig {
        watch: WatchPolicy::default(),
        ..with_lists(&[("long", &users)])
    });
    let (_, mut panel) = watch(&mut world, "panel", "long", BLF_LIST);
    for notify in world.notified() {
        assert!(notify.len() <= 1300 || notify.matches("<instance ").count() == 1);
        panel.take(&notify);
    }
    assert_eq!(panel.lamps.len(), 30);
    assert!(panel.lamps.values().all(Option::is_some));
}

#[test]
fn more_lists_or_resources_than_allowed_are_refused() {
    let mut world = World::with(ServerConfig {
        limits: Limits {
            lists_max: 2,
            list_lamps_max: 5,
            ..Limits::default()
        },
        watch: WatchPolicy {
            list_resources_max: 3,
            ..open().watch
        },
        ..with_lists(&[("three", &["a", "b", "c"])])
    });
    let refusal = world
        .server
        .set_list(&list("four", &["a", "b", "c", "d"]), kept());
    assert!(
        matches!(refusal, Err(ListRefusal::TooMany(_))),
        "{refusal:?}"
    );
    assert_eq!(
        world.server.set_list(&list("two", &["a", "b"]), kept()),
        Ok(true)
    );
    let refusal = world.server.set_list(&list("next", &["a"]), kept());
    assert_eq!(refusal, Err(ListRefusal::Full(2)));
    watch(&mut world, "first", "three", BLF_LIST);
    let (answer, _) = world.subscribe("second", "three", BLF_LIST);
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    let (answer, _) = world.subscribe("first", "three", &BLF_LIST.replace("1800", "0"));
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    world.notified();
    watch(&mut world, "third", "three", BLF_LIST);
}

#[test]
fn a_list_of_five_thousand_lamps_is_told_one_lamp_at_a_time() {
    let users: Vec<_> = (0..5_000).map(|number| format!("u{number}")).collect();
    let users: Vec<_> = users.iter().map(String::as_str).collect();
    let mut world = World::with(with_lists(&[("panel", &users)]));
    let (_, mut panel) = watch(&mut world, "w", "panel", BLF_LIST);
    for notify in world.notified() {
        panel.take(&notify);
    }
    assert_eq!(panel.lamps.len(), 5_000);
    world.publish("u4711", DIALOG, &dialog("early"));
    let notify = world.only_notify();
    panel.take(&notify);
    assert_eq!(panel.told, 1);
    let state = lamp(&panel, "u4711").len();
    assert!(
        notify.len() < state + 2 * 1200,
        "{} bytes for {state}",
        notify.len()
    );
}

/// RFC 4662 §4: the server subscribes to each resource for the watcher of the list, so he is among
/// the resource's watchers: in his package, until his subscription ends.
#[test]
fn who_watches_a_list_is_a_watcher_of_each_resource_on_it() {
    let mut world = World::with(with_lists(&[("reception", &["alice", "bob"])]));
    world.watch("alice", "alice", "dialog.winfo");
    world.watch("other-package", "alice", "presence.winfo");
    world.watch("not-on-it", "carol", "dialog.winfo");
    watch(&mut world, "panel", "reception", BLF_LIST);
    let late = world.watch("bob", "bob", "dialog.winfo");
    let active = |left: u32, lasts: u32| {
        format!(
            "status=\"active\" event=\"subscribe\" expiration=\"{left}\" \
             duration-subscribed=\"{lasts}\">sip:reception@example.com<"
        )
    };
    assert!(body(&late).contains(&active(1800, 0)), "{late}");
    world.pass(5_000);
    let told = world.only_notify();
    assert!(header(&told, "From").contains("sip:alice@"), "{told}");
    assert!(body(&told).contains(&active(1795, 5)), "{told}");

    world.pass(600_000);
    world.subscribe("panel", "reception", BLF_LIST);
    world.pass(5_000);
    assert_eq!(world.notified(), [""; 0], "a refresh is not told");
    let again = world.watch("alice", "alice", "dialog.winfo");
    assert!(body(&again).contains(&active(1795, 610)), "{again}");

    world.subscribe("panel", "reception", &BLF_LIST.replace("1800", "0"));
    let mut told = world.notified();
    world.pass(5_000);
    told.extend(world.notified());
    assert_eq!(told.len(), 2, "{told:?}");
    let ended = "status=\"terminated\" event=\"timeout\">sip:reception@example.com<";
    assert!(
        told.iter().all(|told| body(told).contains(ended)),
        "{told:?}"
    );
}

#[test]
fn who_is_taken_from_a_list_has_lost_its_watchers_and_who_is_put_on_it_has_them() {
    let mut world = World::with(open());
    let before = list("reception", &["alice", "bob"]);
    assert_eq!(world.server.set_list(&before, kept()), Ok(true));
    for user in ["alice", "bob", "carol"] {
        world.watch(user, user, "dialog.winfo");
    }
    watch(&mut world, "panel", "reception", BLF_LIST);
    world.pass(5_000);
    assert_eq!(world.notified().len(), 2);
    let changed = list("reception", &["bob", "carol"]);
    assert!(world.server.set_list(&changed, kept()).is_ok());
    world.settle();
    let mut told = world.notified();
    world.pass(5_000);
    told.extend(world.notified());
    told.retain(|told| header(told, "Event") == "dialog.winfo");
    assert_eq!(told.len(), 2, "{told:?}");
    let is_told = |user: &str, status: &str| {
        let resource = format!("resource=\"sip:{user}@example.com\"");
        let status = format!("status=\"{status}\"");
        let is_it = |told: &&String| body(told).contains(&resource);
        told.iter()
            .find(is_it)
            .is_some_and(|told| body(told).contains(&status))
    };
    assert!(is_told("alice", "terminated"), "{told:?}");
    assert!(is_told("carol", "active"), "{told:?}");
}

fn watch(world: &mut World, id: &str, name: &str, headers: &str) -> (String, Panel) {
    let (answer, notify) = world.subscribe(id, name, headers);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let mut panel = Panel::default();
    let notify = notify.unwrap();
    assert!(body(&notify).starts_with("--"), "{notify}");
    panel.take(&notify);
    (answer, panel)
}

#[track_caller]
fn lamp<'p>(panel: &'p Panel, user: &str) -> &'p str {
    let lamp = &panel.lamps[&format!("sip:{user}@example.com")];
    lamp.as_deref().unwrap()
}

fn list(name: &str, entries: &[&str]) -> ListConfig {
    ListConfig {
        name: name.to_owned(),
        title: None,
        entries: entries.iter().map(|entry| (*entry).to_owned()).collect(),
    }
}

fn with_lists(lists: &[(&str, &[&str])]) -> ServerConfig {
    ServerConfig {
        lists: lists
            .iter()
            .map(|(name, entries)| list(name, entries))
            .collect(),
        ..open()
    }
}

/// With room for a whole panel in a datagram.
fn open() -> ServerConfig {
    ServerConfig {
        watch: WatchPolicy {
            list_datagram_len_max: 60_000,
            ..WatchPolicy::default()
        },
        ..open_config()
    }
}

fn recipients(uris: &[&str]) -> String {
    let entries: String = uris
        .iter()
        .map(|uri| format!("<entry uri=\"{uri}\"/>"))
        .collect();
    format!(
        "<?xml version=\"1.0\"?><resource-lists xmlns=\"urn:ietf:params:xml:ns:resource-lists\">\
         <list>{entries}</list></resource-lists>"
    )
}
