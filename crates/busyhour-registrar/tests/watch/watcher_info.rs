//! Watcher information: the template package (RFC 3857) and its body (RFC 3858).

use super::{Watcher, alice, assert_has, at, flow, subscribe};
use busyhour_registrar::{
    Advertised,
    watch::{
        End, ListedWatcher, Package, RunNumber, State, Subscribe, Subscription, WatchPolicy,
        WatcherList,
    },
};
use busyhour_sip::Message;
use std::{collections::BTreeMap, time::Duration};

/// RFC 3857 §4.1: the template is a package of its own for each package that it is applied to;
/// RFC 3858 §6: `application/watcherinfo+xml`.
#[test]
fn the_packages_are_named_after_those_whose_watchers_they_tell() {
    for (package, name) in [
        (Package::Presence, "presence.winfo"),
        (Package::Dialog, "dialog.winfo"),
        (Package::MessageSummary, "message-summary.winfo"),
    ] {
        let watchers = package.watchers().unwrap();
        assert_eq!(watchers.name(), name);
        assert_eq!(Package::from_name(name), Some(watchers));
        assert_eq!(watchers.watched(), Some(package));
        assert_eq!(watchers.content_type(), "application/watcherinfo+xml");
        assert!(!watchers.is_published());
        assert_eq!(watchers.watchers(), None);
    }
    assert_eq!(Package::Registration.watchers(), None);
}

/// RFC 3858 §3: version, state, resource, package, and of each watcher its id, status, event,
/// expiration and duration.
#[test]
fn the_first_body_is_full_and_the_next_tells_what_has_changed() {
    let mut owner = Owner::new();
    owner.list.lives(watcher(1, "sip:bob@example.com"));
    let full = owner.told();
    assert_has(
        &full,
        "Event: presence.winfo\r\nSubscription-State: active;expires=600\r\n",
    );
    assert_has(&full, "Content-Type: application/watcherinfo+xml\r\n");
    assert_has(
        &full,
        "<watcherinfo xmlns=\"urn:ietf:params:xml:ns:watcherinfo\" version=\"0\" state=\"full\">\r\n\
         <watcher-list resource=\"sip:alice@example.com\" package=\"presence\">\r\n\
         <watcher id=\"w1\" status=\"active\" event=\"subscribe\" expiration=\"3600\" \
         duration-subscribed=\"0\">sip:bob@example.com</watcher>\r\n\
         </watcher-list>\r\n</watcherinfo>\r\n",
    );
    owner.pass(5_000);
    owner.list.lives(watcher(2, "sip:c&d@example.com"));
    let partial = owner.told();
    assert_has(&partial, "version=\"1\" state=\"partial\"");
    assert_has(
        &partial,
        "duration-subscribed=\"5\">sip:c&amp;d@example.com<",
    );
    assert!(!partial.contains("w1"), "{partial}");
}

/// RFC 3857 §4.7.1: each event that ends a subscription.
#[test]
fn the_end_of_a_watcher_is_told_once_with_its_event() {
    let mut owner = Owner::new();
    let ends = [
        (End::Unsubscribed, "timeout"),
        (End::Expired, "timeout"),
        (End::Unanswered, "timeout"),
        (End::Refused(481), "timeout"),
        (End::Deactivated, "deactivated"),
        (End::Rejected, "rejected"),
        (End::NoResource, "noresource"),
    ];
    for id in 0..ends.len() as u64 {
        owner.list.lives(watcher(id, "sip:bob@example.com"));
    }
    owner.told();
    owner.told();
    for (id, (end, event)) in ends.into_iter().enumerate() {
        owner.pass(5_000);
        owner.list.ended(id as u64, end, owner.watcher.now);
        let told = owner.told();
        let element = format!(
            "<watcher id=\"w{id}\" status=\"terminated\" event=\"{event}\">\
             sip:bob@example.com</watcher>"
        );
        assert_has(&told, &element);
        assert_eq!(told.matches("<watcher ").count(), 1, "{told}");
    }
}

/// RFC 3857 §4.7.2: who fetches is active and times out at once.
#[test]
fn who_only_fetched_is_told_as_terminated() {
    let mut owner = Owner::new();
    owner.told();
    owner.pass(5_000);
    owner.list.lives(watcher(7, "sip:curious@example.com"));
    owner.list.ended(7, End::Unsubscribed, owner.watcher.now);
    assert_has(
        &owner.told(),
        "<watcher id=\"w7\" status=\"terminated\" event=\"timeout\">sip:curious@example.com<",
    );
}

/// RFC 3857 §4.10: at most one in five seconds, but for those that a SUBSCRIBE asks for; what
/// happens between is told together, and the version counts bodies (RFC 3858 §3.1).
#[test]
fn changes_wait_for_five_seconds_and_are_told_together() {
    let mut owner = Owner::new();
    owner.told();
    owner.list.lives(watcher(1, "sip:bob@example.com"));
    owner.tell();
    assert_eq!(owner.watcher.poll(), None);
    assert_eq!(owner.watcher.subscription.deadline(), Some(at(5_000)));
    owner.pass(4_999);
    owner.list.lives(watcher(2, "sip:carol@example.com"));
    owner.tell();
    assert_eq!(owner.watcher.poll(), None);
    owner.pass(1);
    let told = owner.told();
    assert_has(&told, "version=\"1\" state=\"partial\"");
    assert_eq!(told.matches("<watcher ").count(), 2, "{told}");
}

/// RFC 3857 §4.7: a refresh is answered with the full state.
#[test]
fn a_refresh_is_told_everybody_at_once_with_what_is_left_of_each() {
    let mut owner = Owner::new();
    owner.list.lives(watcher(1, "sip:bob@example.com"));
    owner.list.lives(watcher(2, "sip:carol@example.com"));
    owner.told();
    owner.pass(1_000);
    owner.list.ended(2, End::Expired, owner.watcher.now);
    let refreshed = ListedWatcher {
        expires_at: at(601_000),
        ..watcher(1, "sip:bob@example.com")
    };
    owner.list.lives(refreshed);
    owner.tell();
    assert_eq!(
        owner
            .watcher
            .refresh(2, "Event: presence.winfo\r\nExpires: 600"),
        Ok(())
    );
    let full = owner.told();
    assert_has(&full, "version=\"1\" state=\"full\"");
    assert_has(&full, "expiration=\"600\" duration-subscribed=\"1\"");
    assert!(!full.contains("carol"), "who is absent is gone: {full}");
    owner.pass(5_000);
    owner.tell();
    assert_eq!(owner.watcher.poll(), None, "and is not told once more");
}

#[test]
fn a_refresh_of_a_watcher_is_not_told() {
    let mut owner = Owner::new();
    owner.list.lives(watcher(1, "sip:bob@example.com"));
    owner.told();
    owner.pass(5_000);
    let expires_at = at(9_000_000);
    owner.list.lives(ListedWatcher {
        expires_at,
        ..watcher(1, "sip:bob@example.com")
    });
    owner.tell();
    assert_eq!(owner.watcher.poll(), None);
}

/// A body that cannot leave is lost with what it tells: the next one is full.
#[test]
fn what_did_not_leave_is_told_again() {
    let mut owner = Owner::new();
    owner.list.lives(watcher(1, "sip:bob@example.com"));
    owner.tell();
    let lost = owner.watcher.poll().unwrap();
    owner.watcher.subscription.put_off(owner.watcher.now);
    owner.pass(100);
    assert_eq!(owner.watcher.poll(), Some(lost));
}

/// Two hundred watchers over datagrams: no NOTIFY is longer than those of lists, all follow at
/// once, and together they are the list (RFC 3858 §4).
#[test]
fn a_long_list_is_told_in_several_bodies_that_fit_datagrams() {
    let mut owner = Owner::new();
    for id in 0..200 {
        owner
            .list
            .lives(watcher(id, &format!("sip:user{id}@example.com")));
    }
    owner.tell();
    let mut known = BTreeMap::new();
    let mut count = 0;
    while let Some(notify) = owner.watcher.poll() {
        assert!(notify.len() <= 1_300, "{}", notify.len());
        compute(&mut known, &notify, count);
        count += 1;
        assert!(owner.watcher.answer(count, 200));
    }
    assert_eq!(known.len(), 200);
    assert!((10..60).contains(&count), "{count}");
}

#[test]
fn a_list_has_a_thousand_watchers_and_the_next_one_waits_for_a_place() {
    let mut list = WatcherList::new(alice(), Package::Dialog);
    let most = WatcherList::LISTED_MAX as u64;
    for id in 0..=most {
        list.lives(watcher(id, "sip:bob@example.com"));
    }
    let has = |list: &WatcherList, id: u64| list.info().watchers.iter().any(|one| one.id == id);
    assert_eq!(list.info().watchers.len() as u64, most);
    assert!(!has(&list, most));
    list.ended(3, End::Expired, at(0));
    list.lives(watcher(most, "sip:bob@example.com"));
    assert!(has(&list, most));
}

#[test]
fn those_who_ended_are_listed_for_a_minute_and_never_more_than_64() {
    let mut list = WatcherList::new(alice(), Package::Dialog);
    for id in 0..100 {
        list.lives(watcher(id, "sip:bob@example.com"));
        list.ended(id, End::Expired, at(0));
    }
    assert_eq!(list.info().watchers.len(), 64);
    list.lives(watcher(100, "sip:bob@example.com"));
    list.ended(100, End::Expired, at(61_000));
    assert_eq!(list.info().watchers.len(), 1);
}

/// After a restart the same subscription goes on with a full body of a higher version (RFC 3858
/// §4), and so does the interval.
#[test]
fn a_restored_subscription_begins_with_a_full_body() {
    let mut owner = Owner::new();
    owner.told();
    let stored = owner.watcher.subscription.stored(RunNumber::OfServer(1));
    let (policy, none) = (WatchPolicy::default(), Advertised::default());
    owner.watcher.subscription = Subscription::restore(
        &stored,
        |_| RunNumber::OfServer(2),
        &policy,
        none,
        at(600_000),
        at(0),
    )
    .unwrap();
    owner.list.lives(ListedWatcher {
        opened_at: None,
        ..watcher(1, "sip:bob@example.com")
    });
    owner.tell();
    let full = owner.watcher.poll().unwrap();
    assert_has(&full, "state=\"full\"");
    assert!(!full.contains("version=\"1\""), "{full}");
    assert!(!full.contains("duration-subscribed"), "{full}");
}

/// The owner of an address, who watches its watchers.
struct Owner {
    watcher: Watcher,
    list: WatcherList,
}

impl Owner {
    fn new() -> Self {
        Self {
            watcher: Watcher::subscribe("Event: presence.winfo\r\nExpires: 600"),
            list: WatcherList::new(alice(), Package::Presence),
        }
    }

    fn tell(&mut self) {
        let info = State::Watchers(self.list.info());
        self.watcher.subscription.state_is(Some(info));
    }

    /// The NOTIFY that the list leads to now, which is answered.
    #[track_caller]
    fn told(&mut self) -> String {
        self.tell();
        let notify = self.watcher.poll().expect("a NOTIFY");
        let message = Message::parse(notify.as_bytes()).unwrap();
        let cseq = message.cseq().unwrap().number;
        assert!(self.watcher.answer(cseq, 200));
        let body = notify.split_once("\r\n\r\n").unwrap().1;
        roxmltree::Document::parse(body).unwrap();
        notify
    }

    fn pass(&mut self, milliseconds: u64) {
        self.watcher.pass(milliseconds);
    }
}

/// RFC 3858 §4: a full body replaces what is known, a partial one changes it.
fn compute(known: &mut BTreeMap<String, String>, notify: &str, version: u32) {
    let body = notify.split_once("\r\n\r\n").unwrap().1;
    let document = roxmltree::Document::parse(body).unwrap();
    let root = document.root_element();
    assert_eq!(root.attribute("version"), Some(&*version.to_string()));
    if root.attribute("state") == Some("full") {
        known.clear();
    }
    for watcher in root.descendants().filter(|node| node.has_tag_name(WATCHER)) {
        let id = watcher.attribute("id").unwrap().to_owned();
        match watcher.attribute("status") {
            Some("terminated") => drop(known.remove(&id)),
            _ => drop(known.insert(id, watcher.text().unwrap().to_owned())),
        }
    }
}

const WATCHER: (&str, &str) = ("urn:ietf:params:xml:ns:watcherinfo", "watcher");

/// A subscription of an hour that began at zero, as it lists itself.
fn watcher(id: u64, uri: &str) -> ListedWatcher {
    let text = subscribe(1, None, "Event: presence\r\nExpires: 3600");
    let text = text.replace("sip:bob@example.com", uri);
    let message = Message::parse(text.as_bytes()).unwrap();
    let request = Subscribe::read(&message, &WatchPolicy::default(), flow()).unwrap();
    let subscription = Subscription::open(&request, alice(), "t", Advertised::default(), at(0));
    let listed = subscription.listed(id);
    assert_eq!(listed.expires_at, at(0) + Duration::from_secs(3600));
    listed
}
