//! Message waiting: RFC 3842, the mailboxes, and MSGCOUNT of IAX2.

use crate::world::{World, body, digest_config, header, open_config};
use busyhour_server::{
    server::{Limits, MailboxRefusal, ServerConfig},
    watch::{MessageCounts, MessageSummary},
};

#[test]
fn a_watcher_is_told_at_once_and_then_every_change() {
    let mut world = World::open();
    let first = world.watch("w", "alice", "message-summary");
    assert_eq!(
        header(&first, "Content-Type"),
        "application/simple-message-summary"
    );
    assert_eq!(body(&first), "Messages-Waiting: no\r\n");
    assert_eq!(world.server.set_mailbox("alice", voice(2, 8)), Ok(true));
    world.settle();
    let notify = world.only_notify();
    assert_eq!(
        body(&notify),
        "Messages-Waiting: yes\r\nVoice-Message: 2/8 (1/0)\r\n"
    );
    assert_eq!(world.server.set_mailbox("alice", voice(2, 8)), Ok(false));
    world.settle();
    assert_eq!(world.notified(), [""; 0], "it was told that already");
    assert_eq!(world.server.remove_mailbox("alice"), Ok(true));
    world.settle();
    assert_eq!(body(&world.only_notify()), "Messages-Waiting: no\r\n");
    assert_eq!(world.server.remove_mailbox("alice"), Ok(false));
    let stats = world.stats().mailbox;
    assert_eq!((stats.mailbox_count, stats.set, stats.removed), (0, 2, 1));
}

#[test]
fn an_account_may_have_the_mailbox_of_another_and_none_beside() {
    let mut world = World::with(digest_config());
    world.server.set_mailbox("alice", voice(1, 0)).unwrap();
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
fn what_a_device_publishes_stands_in_front_of_what_was_set() {
    let mut world = World::open();
    world.server.set_mailbox("alice", voice(1, 0)).unwrap();
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
fn a_mailbox_that_only_a_device_speaks_of_cannot_be_removed() {
    let mut world = World::open();
    let headers = "Event: message-summary\r\nContent-Type: application/simple-message-summary\r\n";
    world.publish("alice", headers, "Messages-Waiting: yes\r\n");
    assert_eq!(
        world.server.remove_mailbox("alice"),
        Err(MailboxRefusal::Published)
    );
    let mailbox = world.server.mailbox("alice").unwrap();
    assert_eq!(
        mailbox.summary.iax2_count(),
        u16::MAX,
        "lit, but nobody said by how many"
    );
}

#[test]
fn bodies_that_say_nothing_clear_are_refused() {
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
fn two_octets_hold_what_they_can() {
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
    let set = |id: &str, summary| world.server.set_mailbox(id, summary);
    assert_eq!(set("", voice(1, 0)), Err(MailboxRefusal::Name));
    assert_eq!(set("a/b", voice(1, 0)), Err(MailboxRefusal::Name));
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
    let page = world.server.mailboxes(None, 1);
    assert_eq!(page.mailboxes[0].id, "a");
    let page = world.server.mailboxes(page.next.as_deref(), 1);
    assert_eq!((page.mailboxes[0].id.as_str(), page.next), ("b", None));
    assert_eq!(world.stats().mailbox.refused, 4);
}

/// So many voice messages, the first new one urgent.
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
