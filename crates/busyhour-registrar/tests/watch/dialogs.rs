//! The dialogs that a proxy carries, beside those that the device publishes.

use super::{Watcher, assert_has, online};
use busyhour::bus::Name;
use busyhour_registrar::watch::{
    CallNames, DeviceDialogs, DeviceState, DialogChange, DialogDirection, DialogEnd,
    DialogIdentity, DialogInfo, DialogState, DialogStep, Document, LineState, Package, Published,
};
use std::sync::Arc;

#[test]
fn changes_come_in_order_and_an_older_one_does_nothing() {
    let mut dialogs = DeviceDialogs::default();
    assert!(dialogs.apply(change(1, 1, is(DialogState::Early, RECIPIENT))));
    assert_eq!(dialogs.line(), Some(LineState::Ringing));
    assert!(dialogs.apply(change(1, 3, is(DialogState::Confirmed, RECIPIENT))));
    assert!(!dialogs.apply(change(1, 2, is(DialogState::Early, RECIPIENT))));
    assert_eq!(dialogs.line(), Some(LineState::InUse));
    assert!(
        !dialogs.apply(change(1, 4, is(DialogState::Confirmed, RECIPIENT))),
        "the same"
    );
    assert!(dialogs.apply(change(1, 5, ended(DialogEnd::RemoteBye))));
    assert!(!dialogs.apply(change(1, 6, ended(DialogEnd::RemoteBye))));
    assert_eq!(dialogs.line(), None);
}

#[test]
fn lines_are_combined_as_those_of_several_devices() {
    let mut dialogs = DeviceDialogs::default();
    dialogs.apply(change(1, 1, is(DialogState::Confirmed, INITIATOR)));
    dialogs.apply(change(2, 1, is(DialogState::Early, RECIPIENT)));
    assert_eq!(dialogs.line(), Some(LineState::RingInUse));
    let held = DialogInfo {
        is_local_hold: true,
        ..info("c1", DialogState::Confirmed, INITIATOR)
    };
    dialogs.apply(change(2, 2, ended(DialogEnd::Cancelled)));
    dialogs.apply(change(1, 2, DialogStep::Is(held)));
    assert_eq!(dialogs.line(), Some(LineState::OnHold));
}

/// RFC 4235 §4.1, and our own reader reads the same line from it.
#[test]
fn the_document_is_what_a_device_could_publish() {
    for direction in [INITIATOR, RECIPIENT] {
        for state in [
            DialogState::Trying,
            DialogState::Proceeding,
            DialogState::Early,
            DialogState::Confirmed,
        ] {
            for is_local_hold in [false, true] {
                let info = DialogInfo {
                    is_local_hold,
                    is_remote_hold: true,
                    ..info("c<1", state, direction)
                };
                let line = info.line();
                let mut dialogs = DeviceDialogs::default();
                dialogs.apply(change(1, 1, DialogStep::Is(info)));
                let text = body(&dialogs, None);
                assert!(text.contains("call-id=\"c&lt;1\" local-tag=\"l\" remote-tag=\"r\""));
                assert!(text.contains("<identity display=\"B &amp; co\">sip:b@x</identity>"));
                let read = Document::read(Package::Dialog, text.as_bytes(), 9_999);
                let Ok(Document::Dialog { line: read, .. }) = read else {
                    panic!("no dialogs in {text}");
                };
                // Of a remote hold the device is still in use.
                assert_eq!(read, line, "{text}");
            }
        }
    }
}

/// A telephone that publishes the same call: nothing is counted twice, and its late word
/// changes nothing.
#[test]
fn of_a_call_that_both_know_only_the_proxys_word_counts() {
    let mut dialogs = DeviceDialogs::default();
    dialogs.apply(change(1, 1, is(DialogState::Early, RECIPIENT)));
    let ringing = published(&[("call-id=\"c1\"", "early")]);
    assert_eq!(line(&dialogs, Some(ringing.clone())), LineState::Ringing);
    dialogs.apply(change(1, 2, is(DialogState::Confirmed, RECIPIENT)));
    assert_eq!(
        line(&dialogs, Some(ringing.clone())),
        LineState::InUse,
        "not ring-in-use"
    );
    assert_eq!(
        body(&dialogs, Some(ringing.clone()))
            .matches("<dialog ")
            .count(),
        1
    );
    dialogs.apply(change(1, 3, ended(DialogEnd::RemoteBye)));
    assert_eq!(line(&dialogs, Some(ringing)), LineState::Idle);
}

#[test]
fn a_published_call_that_the_proxy_does_not_know_counts_beside_its_own() {
    let mut dialogs = DeviceDialogs::default();
    let elsewhere = published(&[
        ("call-id=\"other\"", "confirmed"),
        ("call-id='c1'", "early"),
    ]);
    assert_eq!(
        line(&dialogs, Some(elsewhere.clone())),
        LineState::RingInUse
    );
    dialogs.apply(change(1, 1, is(DialogState::Early, RECIPIENT)));
    assert_eq!(
        line(&dialogs, Some(elsewhere.clone())),
        LineState::RingInUse
    );
    dialogs.apply(change(1, 2, ended(DialogEnd::Cancelled)));
    assert_eq!(line(&dialogs, Some(elsewhere)), LineState::InUse);
}

#[test]
fn a_published_dialog_without_a_call_id_counts_while_the_proxy_has_none() {
    let mut dialogs = DeviceDialogs::default();
    let nameless = published(&[("", "early")]);
    assert_eq!(line(&dialogs, Some(nameless.clone())), LineState::Ringing);
    dialogs.apply(change(1, 1, is(DialogState::Confirmed, RECIPIENT)));
    assert_eq!(line(&dialogs, Some(nameless.clone())), LineState::InUse);
    dialogs.apply(change(1, 2, ended(DialogEnd::LocalBye)));
    assert_eq!(line(&dialogs, Some(nameless)), LineState::Ringing);
}

/// What the proxy only supposes does not outweigh what the device says.
#[test]
fn a_dialog_that_ended_for_lack_of_messages_may_be_published() {
    for (end, expected) in [
        (DialogEnd::Timeout, LineState::InUse),
        (DialogEnd::Error, LineState::InUse),
        (DialogEnd::LocalBye, LineState::Idle),
    ] {
        let mut dialogs = DeviceDialogs::default();
        dialogs.apply(change(1, 1, is(DialogState::Confirmed, RECIPIENT)));
        dialogs.apply(change(1, 2, ended(end)));
        let says = published(&[("call-id=\"c1\"", "confirmed")]);
        assert_eq!(line(&dialogs, Some(says)), expected, "{end:?}");
    }
}

#[test]
fn only_the_last_few_ended_calls_are_remembered() {
    let mut dialogs = DeviceDialogs::default();
    for id in 0..9 {
        let begun = info(&format!("c{id}"), DialogState::Early, RECIPIENT);
        dialogs.apply(change(id, 1, DialogStep::Is(begun)));
        dialogs.apply(change(id, 2, ended(DialogEnd::Rejected)));
    }
    let says = |call: &str| published(&[(call, "confirmed")]);
    assert_eq!(
        line(&dialogs, Some(says("call-id=\"c1\""))),
        LineState::Idle
    );
    assert_eq!(
        line(&dialogs, Some(says("call-id=\"c0\""))),
        LineState::InUse
    );
}

#[test]
fn presence_and_an_untouched_publication_stay_as_they_are() {
    let mut dialogs = DeviceDialogs::default();
    dialogs.apply(change(1, 1, is(DialogState::Early, RECIPIENT)));
    let presence = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\"><note>x</note></presence>";
    let presence = Document::read(Package::Presence, presence.as_bytes(), 9_999).unwrap();
    let mut told: Vec<Published> = published(&[("call-id=\"x\"", "early")]).to_vec();
    told.push(Published {
        number: 8,
        document: Arc::new(presence),
    });
    let after = dialogs
        .told(&Name::new(DEVICE), Some(told.clone().into()))
        .unwrap();
    assert!(Arc::ptr_eq(&after[0].document, &told[0].document));
    assert!(Arc::ptr_eq(&after[1].document, &told[1].document));
    assert_eq!(after.len(), 3);
}

/// RFC 4480 §3.2. What the device says of its person itself stays alone.
#[test]
fn presence_tells_who_is_on_the_phone() {
    let mut watcher = Watcher::active();
    watcher.answer(1, 200);
    let mut cseq = 1;
    let mut told = |published: Option<Arc<[Published]>>| {
        let state = DeviceState {
            published,
            ..online(1)
        };
        watcher.subscription.device_is(Some(state));
        let body = watcher.poll();
        if body.is_some() {
            cseq += 1;
            watcher.answer(cseq, 200);
        }
        body
    };
    let person = "<person xmlns=\"urn:ietf:params:xml:ns:pidf:data-model\" id=\"user\"><activities \
                  xmlns=\"urn:ietf:params:xml:ns:pidf:rpid\"><on-the-phone/></activities></person>";
    let dialog = |state: &str| Some(published(&[("call-id=\"x\"", state)]));
    assert!(told(None).is_some());
    assert_eq!(told(dialog("early")), None, "it only rings");
    let body = told(dialog("confirmed")).unwrap();
    assert_has(&body, person);
    let tuple = body.find("<tuple").unwrap();
    assert!(tuple < body.find("<person").unwrap(), "{body}");
    assert_eq!(told(dialog("confirmed")), None, "the same");
    let body = told(dialog("terminated")).unwrap();
    assert!(!body.contains("<person"), "{body}");

    let with = |presence: &str| {
        let root = "<presence xmlns=\"urn:ietf:params:xml:ns:pidf\" \
                    xmlns:dm=\"urn:ietf:params:xml:ns:pidf:data-model\">";
        let text = format!("{root}{presence}</presence>");
        let document = Document::read(Package::Presence, text.as_bytes(), 9_999).unwrap();
        let mut all = published(&[("call-id=\"x\"", "confirmed")]).to_vec();
        all.push(Published {
            number: 8,
            document: Arc::new(document),
        });
        Some(Arc::from(all))
    };
    let body = told(with("<note>Back at noon</note>")).unwrap();
    assert_has(&body, "Back at noon");
    assert_has(&body, person);
    let body = told(with("<dm:person id=\"p\"><dm:note>x</dm:note></dm:person>")).unwrap();
    assert!(!body.contains("on-the-phone"), "{body}");
    assert_eq!(
        body.matches("person id=").count() + body.matches("person xmlns").count(),
        1
    );
}

#[test]
fn a_device_with_very_many_dialogs_has_a_short_body_and_the_right_line() {
    let mut dialogs = DeviceDialogs::default();
    for id in 0..500 {
        let mut one = info(&"<".repeat(256), DialogState::Confirmed, INITIATOR);
        one.is_local_hold = id != 499;
        dialogs.apply(change(id, 1, DialogStep::Is(one)));
    }
    let text = body(&dialogs, None);
    assert!(
        text.len() < 9_000 && text.contains("<dialog "),
        "{}",
        text.len()
    );
    assert_eq!(line(&dialogs, None), LineState::InUse);
}

fn line(dialogs: &DeviceDialogs, published: Option<Arc<[Published]>>) -> LineState {
    LineState::of(state(dialogs, published).as_ref())
}

fn state(dialogs: &DeviceDialogs, published: Option<Arc<[Published]>>) -> Option<DeviceState> {
    let device = Name::new(DEVICE);
    let published = dialogs.told(&device, published);
    published.is_some().then(|| DeviceState {
        device,
        contacts: Arc::new([]),
        published,
    })
}

/// The documents as one published one.
fn body(dialogs: &DeviceDialogs, published: Option<Arc<[Published]>>) -> String {
    let state = state(dialogs, published).expect("a state");
    let mut text = String::new();
    for one in state.published() {
        if let Document::Dialog { dialogs, .. } = &*one.document {
            text.push_str(&format!("{dialogs:?}"));
        }
    }
    let plain = text
        .replace("\\\"", "\"")
        .replace("\\r\\n", "\n")
        .replace("\\u{1}", "");
    let inner: String = plain
        .split("Elements(\"")
        .skip(1)
        .map(|one| one.trim_end_matches("\")"))
        .collect();
    format!(
        "<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" state=\"full\">{inner}</dialog-info>"
    )
}

fn published(dialogs: &[(&str, &str)]) -> Arc<[Published]> {
    let dialogs: String = dialogs
        .iter()
        .map(|(call, state)| format!("<dialog id=\"1\" {call}><state>{state}</state></dialog>"))
        .collect();
    let text = format!(
        "<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"1\" \
         state=\"full\" entity=\"x\">{dialogs}</dialog-info>"
    );
    let document = Document::read(Package::Dialog, text.as_bytes(), 9_999).expect("sound");
    Arc::new([Published {
        number: 7,
        document: Arc::new(document),
    }])
}

fn change(id: u64, version: u64, step: DialogStep) -> DialogChange {
    DialogChange {
        device: Name::new(DEVICE),
        id,
        version,
        step,
    }
}

fn is(state: DialogState, direction: DialogDirection) -> DialogStep {
    DialogStep::Is(info("c1", state, direction))
}

fn ended(end: DialogEnd) -> DialogStep {
    DialogStep::Ended { end, code: None }
}

fn info(call_id: &str, state: DialogState, direction: DialogDirection) -> DialogInfo {
    let identity = DialogIdentity {
        display: "B & co",
        uri: "sip:b@x",
    };
    let (tags, sides) = match direction {
        INITIATOR => (["l", "r"], [None, Some(identity)]),
        RECIPIENT => (["r", "l"], [Some(identity), None]),
    };
    let names = CallNames::new(call_id, tags[0], sides).expect("short");
    DialogInfo {
        names: names.into(),
        callee_tag: Some(tags[1].into()),
        direction,
        state,
        is_local_hold: false,
        is_remote_hold: false,
    }
}

const DEVICE: &str = "sip:a@x";
const INITIATOR: DialogDirection = DialogDirection::Initiator;
const RECIPIENT: DialogDirection = DialogDirection::Recipient;
