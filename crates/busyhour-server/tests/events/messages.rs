//! Message waiting: RFC 3842, the mailboxes, and the information element
//! MSGCOUNT of IAX2.

use crate::world::{World, body, digest_config, header, kept, ok, open_config};
use busyhour_registrar::watch::{MessageCounts, MessageSummary};
use busyhour_server::server::{Limits, MailboxRefusal, ServerConfig};

const PUBLISH: &str =
    "Event: message-summary\r\nContent-Type: application/simple-message-summary\r\n";

#[test]
fn a_watcher_is_notified_at_once_and_then_of_every_change() {
    let mut world = World::open();
    let first = world.watch("w", "alice", "message-summary");
    assert_eq!(
        header(&first, "Content-Type"),
        "application/simple-message-summary"
    );
    assert_eq!(body(&first), "Messages-Waiting: no\r\n");
    assert_eq!(
        world.server.set_mailbox("alice", voice(2, 8), kept()),
        Ok(true)
    );
    world.settle();
    let notify = world.only_notify();
    assert_eq!(
        body(&notify),
        "Messages-Waiting: yes\r\nVoice-Message: 2/8 (1/0)\r\n"
    );
    assert_eq!(
        world.server.set_mailbox("alice", voice(2, 8), kept()),
        Ok(false)
    );
    world.settle();
    assert_eq!(
        world.notified(),
        [""; 0],
        "the watcher has received that already"
    );
    assert_eq!(world.server.remove_mailbox("alice", kept()), Ok(true));
    world.settle();
    assert_eq!(body(&world.only_notify()), "Messages-Waiting: no\r\n");
    assert_eq!(world.server.remove_mailbox("alice", kept()), Ok(false));
    let stats = world.stats().mailbox;
    assert_eq!((stats.mailbox_count, stats.set, stats.removed), (0, 2, 1));
}

#[test]
fn an_account_may_use_the_mailbox_of_another_instead_of_its_own() {
    let mut world = World::with(digest_config());
    world
        .server
        .set_mailbox("alice", voice(1, 0), kept())
        .unwrap();
    let event = "Event: message-summary\r\n";
    for account in ["alice", "bob"] {
        let sent = world.subscribe_as(account, account, event);
        assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
        assert!(
            body(&sent[1]).starts_with("Messages-Waiting: yes\r\n"),
            "{sent:?}"
        );
    }
    let sent = world.subscribe_as("carol", "alice", event);
    assert!(
        sent[0].starts_with("SIP/2.0 403 Not Your Mailbox\r\n"),
        "{sent:?}"
    );
    let sent = world.subscribe_as("carol", "alice", "Event: presence\r\n");
    assert!(sent[0].starts_with("SIP/2.0 200 "), "{sent:?}");
}

#[test]
fn counts_that_a_device_publishes_replace_those_that_were_set() {
    let mut world = World::open();
    world
        .server
        .set_mailbox("alice", voice(1, 0), kept())
        .unwrap();
    world.watch("w", "alice", "message-summary");
    let headers = "Event: message-summary\r\nExpires: 60\r\n\
                   Content-Type: application/simple-message-summary\r\n";
    let text = "Messages-Waiting: yes\r\nMessage-Account: sip:vm@example.com\r\n\
                Voice-Message: 4/0\r\nFax-Message: 1/2 (0/1)\r\n\r\nTo: <sip:x@y>\r\n";
    let answer = world.publish("alice", headers, text);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert_eq!(
        body(&world.only_notify()),
        "Messages-Waiting: yes\r\nMessage-Account: sip:vm@example.com\r\n\
         Voice-Message: 4/0 (0/0)\r\nFax-Message: 1/2 (0/1)\r\n"
    );
    world.pass(60_000);
    let notify = world.only_notify();
    assert_eq!(
        body(&notify),
        "Messages-Waiting: yes\r\nVoice-Message: 1/0 (1/0)\r\n"
    );
}

#[test]
fn a_mailbox_that_only_a_device_publishes_cannot_be_removed() {
    let mut world = World::open();
    let headers = "Event: message-summary\r\nContent-Type: application/simple-message-summary\r\n";
    world.publish("alice", headers, "Messages-Waiting: yes\r\n");
    assert_eq!(
        world.server.remove_mailbox("alice", kept()),
        Err(MailboxRefusal::Published)
    );
    let mailbox = world.server.mailbox("alice").unwrap();
    assert_eq!(
        mailbox.summary.iax2_count(),
        u16::MAX,
        "messages wait, but their number is unknown"
    );
}

#[test]
fn one_of_two_publications_of_a_mailbox_may_end() {
    let mut world = World::with(digest_config());
    let publish = |expires_s: u32| format!("{PUBLISH}Expires: {expires_s}\r\n");
    let text = |new: u32| format!("Messages-Waiting: yes\r\nVoice-Message: {new}/0\r\n");
    let new = |world: &World| {
        let mailbox = world.server.mailbox("alice").unwrap();
        mailbox.summary.voice.unwrap().new
    };
    world.publish_as("alice", "alice", &publish(3600), &text(2));
    assert_eq!(new(&world), 2);
    world.publish_as("bob", "bob", &publish(60), &text(1));
    assert_eq!(
        new(&world),
        1,
        "bob shares alice's mailbox and published last"
    );
    world.pass(60_000);
    assert_eq!(new(&world), 2);
}

#[test]
fn an_account_that_gets_another_mailbox_leaves_no_counts_in_the_old_one() {
    let mut world = World::with(digest_config());
    world.put_account("dave", Some("100"), &[]);
    let text = "Messages-Waiting: yes\r\nVoice-Message: 5/0\r\n";
    let answer = world.publish_as("dave", "dave", &format!("{PUBLISH}Expires: 60\r\n"), text);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let sent = world.subscribe_as("dave", "dave", "Event: message-summary\r\n");
    assert!(body(&sent[1]).contains("5/0"), "{sent:?}");
    world.receive(&ok(&sent[1]));
    world.put_account("dave", Some("200"), &[]);
    world.settle();
    let state = header(&world.only_notify(), "Subscription-State");
    assert_eq!(
        state, "terminated;reason=deactivated",
        "it is notified of the wrong mailbox"
    );
    world.pass(60_000);
    assert_eq!(world.server.mailbox("100"), None);
    assert_eq!(world.stats().mailbox.mailbox_count, 0);
}

#[test]
fn a_full_table_of_mailboxes_refuses_a_publication_before_it_is_accepted() {
    let mut world = World::with(ServerConfig {
        limits: Limits {
            mailboxes_max: 1,
            ..Limits::default()
        },
        ..open_config()
    });
    world
        .server
        .set_mailbox("carol", voice(1, 0), kept())
        .unwrap();
    let answer = world.publish("alice", PUBLISH, "Messages-Waiting: yes\r\n");
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert_eq!(world.stats().publish.publication_count, 0);
    world.server.remove_mailbox("carol", kept()).unwrap();
    let answer = world.publish("alice", PUBLISH, "Messages-Waiting: yes\r\n");
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

#[test]
fn ambiguous_bodies_are_refused() {
    for text in [
        "",
        "Voice-Message: 1/0\r\n",
        "Messages-Waiting: perhaps\r\n",
        "Messages-Waiting: yes\r\nVoice-Message: 1\r\n",
        "Messages-Waiting: yes\r\nVoice-Message: -1/0\r\n",
        "Messages-Waiting: yes\r\nVoice-Message: 1/0 (0/0\r\n",
        "Messages-Waiting: yes\r\nVoice-Message: 1/0 (2/0)\r\n",
        "Messages-Waiting: yes\r\nSmell-Message: 1/0\r\n",
        "Messages-Waiting: yes\r\nMessage-Account: <>\r\n",
        "Messages-Waiting\r\n",
    ] {
        assert!(MessageSummary::parse(text).is_err(), "{text}");
    }
}

#[test]
fn counts_above_255_are_written_as_255() {
    let count = |new, old| voice(new, old).iax2_count();
    assert_eq!(count(0, 0), 0);
    assert_eq!(count(3, 7), 0x0703);
    assert_eq!(count(254, 255), 0xfffe);
    assert_eq!(count(1_000, 1_000), 0xffff);
    assert_eq!(count(0, 1_000), 0xff00);
}

#[test]
fn names_counts_and_numbers_of_mailboxes_have_bounds() {
    let world = World::with(ServerConfig {
        limits: Limits {
            mailboxes_max: 2,
            ..Limits::default()
        },
        ..open_config()
    });
    let set = |id: &str, summary| world.server.set_mailbox(id, summary, kept());
    assert_eq!(set("", voice(1, 0)), Err(MailboxRefusal::Name));
    assert_eq!(set("a b", voice(1, 0)), Err(MailboxRefusal::Name));
    let account = Some("no uri\r\nX: y".to_owned());
    let wrong = MessageSummary {
        account,
        ..voice(1, 0)
    };
    assert!(matches!(set("a", wrong), Err(MailboxRefusal::Summary(_))));
    assert_eq!(set("b", voice(1, 0)), Ok(true));
    assert_eq!(set("a", voice(1, 0)), Ok(true));
    assert_eq!(set("c", voice(1, 0)), Err(MailboxRefusal::Full(2)));
    assert_eq!(set("a", voice(2, 0)), Ok(false));
    let page = world.server.mailboxes(None, 1, None);
    assert_eq!(page.items[0].id, "a");
    let page = world.server.mailboxes(page.next.as_deref(), 1, None);
    assert_eq!((page.items[0].id.as_str(), page.next), ("b", None));
    assert_eq!(world.stats().mailbox.refused, 4);
}

/// `new` new and `old` old voice messages; the first new one is urgent.
fn voice(new: u32, old: u32) -> MessageSummary {
    MessageSummary {
        voice: Some(MessageCounts {
            new,
            old,
            urgent_new: new.min(1),
            urgent_old: 0,
        }),
        ..MessageSummary::default()
    }
}
