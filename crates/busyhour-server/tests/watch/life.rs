//! What a subscription keeps, and what it says of its end.

use super::{Watcher, flow, subscribe};
use busyhour_server::{
    proto::sip::Message,
    watch::{End, Policy, Subscribe},
};

#[test]
fn what_is_kept_of_a_request_is_its_texts_and_a_place_for_each_route() {
    let kept = |headers: &str| {
        let text = subscribe(1, None, headers);
        let message = Message::parse(text.as_bytes()).unwrap();
        let request = Subscribe::read(&message, &Policy::default(), flow());
        request.unwrap().kept_len()
    };
    let least = kept("Event: presence");
    let texts = ["sip:bob@192.0.2.7:5070", "sip:alice@example.com"];
    let others = ["sip:bob@example.com", "theirs", "call"];
    let len = |texts: &[&str]| texts.iter().map(|text| text.len()).sum::<usize>();
    assert_eq!(least, len(&texts) + len(&others));
    assert_eq!(kept("Event: presence;id=12345"), least + 5);
    let routes = "Event: presence\r\nRecord-Route: <sip:p1;lr>, <sip:p22;lr>";
    assert_eq!(kept(routes), least + 9 + 32 + 10 + 32);
}

#[test]
fn it_tells_its_end_from_its_last_notify_on() {
    let mut watcher = Watcher::active();
    assert!(!watcher.subscription.tells_its_end());
    assert!(watcher.answer(1, 200));
    watcher.subscription.end(End::Deactivated, watcher.now);
    assert!(!watcher.subscription.tells_its_end(), "nothing was sent");
    assert!(watcher.poll().is_some());
    assert!(watcher.subscription.tells_its_end());
    assert_eq!(watcher.subscription.ended(), None);
    assert!(watcher.answer(2, 200));
    assert!(watcher.subscription.tells_its_end());
    assert_eq!(watcher.subscription.ended(), Some(End::Deactivated));
    assert_eq!(watcher.subscription.deadline(), None);
}
