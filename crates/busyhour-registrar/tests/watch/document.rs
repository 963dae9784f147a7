//! Published documents and mailboxes: what is read from them, and what is
//! refused.

use busyhour_registrar::watch::{Document, MessageCounts, MessageSummary, Package, Unreadable};

#[test]
fn elements_are_bounded_in_number_and_depth_whatever_their_length() {
    let wide = |count: usize| presence(&"<a/>".repeat(count), 1 << 20);
    assert!(wide(1_900).is_ok());
    assert_eq!(wide(2_000), Err(Unreadable("Body Is No XML")));
    let deep = |depth: usize| {
        let (open, close) = ("<a>".repeat(depth), "</a>".repeat(depth));
        presence(&format!("{open}{close}"), 1 << 20)
    };
    assert!(deep(16).is_ok());
    assert_eq!(deep(17), Err(Unreadable("Body Is Nested Too Deep")));
}

#[test]
fn an_element_may_be_as_long_as_allowed_with_the_longest_owner() {
    let body = "<a>1234567890</a><a id='1'>x</a>";
    // Each element is written with a line end; its id gets one character for its owner,
    // and 22 more.
    let written_len = body.len() + 2 * 2 + 1 + 22;
    assert!(presence(body, written_len).is_ok());
    let refusal = Err(Unreadable("Body Is Too Long Written Out"));
    assert_eq!(presence(body, written_len - 1), refusal);
}

#[test]
fn without_messages_waiting_new_messages_of_any_class_count() {
    let old = MessageCounts {
        old: 3,
        ..MessageCounts::default()
    };
    let new = MessageCounts { new: 1, ..old };
    let with = |voice, none| MessageSummary {
        voice,
        none,
        ..MessageSummary::default()
    };
    assert!(!MessageSummary::default().is_waiting());
    assert!(!with(Some(old), Some(old)).is_waiting());
    assert!(with(Some(old), Some(new)).is_waiting());
    let word = |waiting, voice| MessageSummary {
        waiting,
        ..with(voice, None)
    };
    assert!(word(Some(true), None).is_waiting(), "the text counts");
    assert!(!word(Some(false), Some(new)).is_waiting());
}

#[test]
fn urgent_messages_are_at_most_all_messages() {
    let checked = |urgent_new, urgent_old| {
        let voice = Some(MessageCounts {
            new: 2,
            old: 3,
            urgent_new,
            urgent_old,
        });
        let summary = MessageSummary {
            voice,
            ..MessageSummary::default()
        };
        summary.checked().is_ok()
    };
    assert!(checked(2, 3));
    assert!(!checked(3, 3) && !checked(2, 4));
}

#[test]
fn each_class_of_messages_has_its_own_count() {
    let summary = |class: &str| {
        let text = format!("Messages-Waiting: yes\r\n{class}: 7/1\r\n");
        MessageSummary::parse(&text).unwrap()
    };
    let counts = Some(MessageCounts {
        new: 7,
        old: 1,
        ..MessageCounts::default()
    });
    assert_eq!(summary("Voice-Message").voice, counts);
    assert_eq!(summary("Fax-Message").fax, counts);
    assert_eq!(summary("Pager-Message").pager, counts);
    assert_eq!(summary("Multimedia-Message").multimedia, counts);
    assert_eq!(summary("Text-Message").text, counts);
    assert_eq!(summary("None").none, counts);
}

#[test]
fn iax2_counts_are_at_most_255_each() {
    let voice = |new, old| MessageSummary {
        voice: Some(MessageCounts {
            new,
            old,
            ..MessageCounts::default()
        }),
        ..MessageSummary::default()
    };
    assert_eq!(voice(0, 0).iax2_count(), 0);
    assert_eq!(voice(0, 3).iax2_count(), 0x0300);
    assert_eq!(voice(2, 0x81).iax2_count(), 0x8102);
    assert_eq!(voice(300, 255).iax2_count(), 0xffff);
    let lit = MessageSummary {
        waiting: Some(true),
        ..voice(0, 3)
    };
    assert_eq!(
        lit.iax2_count(),
        u16::MAX,
        "messages wait, and their number is unknown"
    );
}

fn presence(children: &str, written_len_max: usize) -> Result<Document, Unreadable> {
    let body = format!("<presence xmlns=\"urn:ietf:params:xml:ns:pidf\">{children}</presence>");
    Document::read(Package::Presence, body.as_bytes(), written_len_max)
}
