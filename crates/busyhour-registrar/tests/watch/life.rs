//! How much memory a subscription counts for, and when it is over.

use super::{Watcher, alice, flow, subscribe};
use busyhour::clock::Instant;
use busyhour_registrar::{
    Advertised,
    watch::{End, NotRestored, RunNumber, Subscribe, Subscription, WatchPolicy},
};
use busyhour_sip::Message;

#[test]
fn a_kept_request_counts_its_texts_and_a_place_for_each_route() {
    let kept = |headers: &str| {
        let text = subscribe(1, None, headers);
        let message = Message::parse(text.as_bytes()).unwrap();
        let request = Subscribe::read(&message, &WatchPolicy::default(), flow());
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
fn a_subscription_is_over_from_its_last_notify_on() {
    let mut watcher = Watcher::active();
    assert!(!watcher.subscription.tells_its_end());
    assert!(watcher.answer(1, 200));
    watcher.subscription.end(End::Deactivated, watcher.now);
    assert!(
        !watcher.subscription.tells_its_end(),
        "nothing was sent before"
    );
    assert!(watcher.poll().is_some());
    assert!(watcher.subscription.tells_its_end());
    assert_eq!(watcher.subscription.ended(), None);
    assert!(watcher.answer(2, 200));
    assert!(watcher.subscription.tells_its_end());
    assert_eq!(watcher.subscription.ended(), Some(End::Deactivated));
    assert_eq!(watcher.subscription.deadline(), None);
}

#[test]
fn notifys_go_to_the_contacts_port_unless_rport_was_requested() {
    let port = |rport: &str| {
        let text = subscribe(1, None, "Event: presence");
        let text = text.replace(";rport", rport).replace("7:5070>", "7:5090>");
        let message = Message::parse(text.as_bytes()).unwrap();
        let request = Subscribe::read(&message, &WatchPolicy::default(), flow()).unwrap();
        let none = Advertised::default();
        let subscription = Subscription::open(&request, alice(), "ours", none, Instant::ZERO);
        subscription.dialog().flow().remote.port()
    };
    assert_eq!((port(""), port(";rport")), (5090, 5070));
}

#[test]
fn a_subscription_knows_the_account_that_opened_it() {
    let watcher = Watcher::active();
    assert_eq!(watcher.subscription.account(), None);
    let opened = watcher.subscription.opened_by(Some("bob"));
    assert_eq!(opened.account(), Some("bob"));
    assert_eq!(opened.opened_by(None).account(), None);
}

/// A run may have used up to `PER_RUN` numbers since the row was written, and as many
/// must be left.
#[test]
fn a_subscription_is_restored_while_higher_cseqs_are_left() {
    let watcher = Watcher::active();
    let stored = watcher.subscription.stored(RunNumber::OfServer(1));
    let restored = |cseq: u32| {
        let text = stored.replace("\"local_cseq\":1,", &format!("\"local_cseq\":{cseq},"));
        assert_ne!(text, stored);
        let (policy, none) = (WatchPolicy::default(), Advertised::default());
        let restored = Subscription::restore(
            &text,
            |_| RunNumber::OfServer(2),
            &policy,
            none,
            watcher.now,
            watcher.now,
        );
        restored.map(|subscription| subscription.last_cseq())
    };
    let most = (i32::MAX as u32) - 2 * PER_RUN;
    assert_eq!(restored(most).ok(), Some(most + PER_RUN));
    assert!(matches!(restored(most + 1), Err(NotRestored::CSeq)));
}

/// The next run of the same count goes on behind all runs since the row was written; one of the other count, as a node
/// that takes over from a server alone, behind as many as it has had, and wants the row to be written again.
#[test]
fn a_subscription_goes_on_with_higher_numbers_whatever_its_run_was() {
    use RunNumber::{OfPartition, OfServer};
    let watcher = Watcher::active();
    for (written_in, run, runs, is_counted_otherwise) in [
        (OfServer(1), OfServer(4), 3, false),
        (OfPartition(1), OfPartition(4), 3, false),
        (OfServer(70_000), OfPartition(2), 2, true),
        (OfServer(1), OfPartition(2), 2, true),
        (OfPartition(70_000), OfServer(3), 3, true),
    ] {
        let restored = restored(&watcher, &watcher.subscription.stored(written_in), run);
        let last = watcher.subscription.last_cseq();
        assert_eq!(
            restored.last_cseq(),
            last + runs * PER_RUN,
            "{written_in:?}, {run:?}"
        );
        assert_eq!(restored.is_counted_otherwise(), is_counted_otherwise);
    }
}

/// Rows of versions without epochs have nothing but a run, whoever counted it.
#[test]
fn no_number_comes_twice_while_a_row_without_an_epoch_moves_from_owner_to_owner() {
    let watcher = Watcher::active();
    let with_epoch = watcher.subscription.stored(RunNumber::OfPartition(9_000));
    let old = with_epoch.replace(",\"epoch\":9000", "");
    assert_ne!(old, with_epoch);
    let mut used = watcher.subscription.last_cseq();
    for epoch in 2..6 {
        let restored = restored(&watcher, &old, RunNumber::OfPartition(epoch));
        assert!(restored.is_counted_otherwise());
        assert!(restored.last_cseq() >= used + PER_RUN);
        used = restored.last_cseq();
    }
    // Who knows no epochs goes on with the run.
    let rewritten =
        restored(&watcher, &old, RunNumber::OfPartition(6)).stored(RunNumber::OfPartition(6));
    assert!(rewritten.contains("\"run\":6,\"epoch\":6,"), "{rewritten}");
    assert!(!restored(&watcher, &rewritten, RunNumber::OfPartition(7)).is_counted_otherwise());
}

fn restored(watcher: &Watcher, stored: &str, run: RunNumber) -> Subscription {
    let (policy, none) = (WatchPolicy::default(), Advertised::default());
    let run_of = |device: &str| {
        assert_eq!(device, &**watcher.subscription.device());
        run
    };
    Subscription::restore(stored, run_of, &policy, none, watcher.now, watcher.now).unwrap()
}

/// How many NOTIFYs a run has numbers for.
const PER_RUN: u32 = 1 << 14;
