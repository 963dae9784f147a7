//! NOTIFYs that are lost on the way to the server that has the watcher's connection.

use crate::{Watcher, assert_has, at, online};
use busyhour_registrar::watch::End;
use busyhour_sip::Transport;

/// Over a connection nothing is sent twice; but it may not have come to the server that has the connection.
#[test]
fn what_may_be_lost_on_the_way_to_a_connection_is_told_anew_under_other_numbers() {
    let mut watcher = Watcher::subscribe_over("Event: presence\r\nExpires: 600", Transport::Tcp);
    watcher.subscription.device_is(None);
    let mut told = Vec::new();
    loop {
        if let Some(notify) = watcher.poll() {
            let number = notify.split("CSeq: ").nth(1).expect("a number");
            told.push((
                watcher.now,
                number.split(' ').next() == Some(&format!("{}", told.len() + 1)),
            ));
            assert_eq!(
                watcher.subscription.may_be_lost(watcher.now),
                told.len() > 1
            );
        }
        match watcher.subscription.deadline() {
            Some(deadline) => watcher.now = deadline,
            None => break,
        }
    }
    let seconds = [0, 2, 6, 14, 30].map(|second| (at(second * 1000), true));
    assert_eq!(told, seconds);
    assert_eq!(watcher.subscription.ended(), Some(End::Unanswered));
    assert_eq!(watcher.now, at(32_000), "as if it had been told once");
}

#[test]
fn a_watcher_that_answers_what_was_told_anew_is_heard() {
    let mut watcher = Watcher::subscribe_over("Event: presence\r\nExpires: 600", Transport::Tcp);
    watcher.subscription.device_is(None);
    watcher.poll().expect("a NOTIFY");
    watcher.subscription.may_be_lost(watcher.now);
    watcher.pass(1999);
    assert_eq!(watcher.poll(), None);
    watcher.subscription.device_is(Some(online(7)));
    watcher.pass(1);
    let notify = watcher.poll().expect("a NOTIFY");
    assert_has(&notify, "<basic>open</basic>");
    watcher.subscription.may_be_lost(watcher.now);
    assert!(!watcher.answer(1, 200), "it is late");
    assert!(watcher.answer(2, 200));
    assert_eq!(watcher.subscription.deadline(), Some(at(600_000)));
    // The next one has all the time again.
    watcher.pass(40_000);
    watcher.subscription.device_is(None);
    watcher.poll().expect("a NOTIFY");
    assert!(!watcher.subscription.may_be_lost(watcher.now));
    watcher.pass(2000);
    assert!(watcher.poll().is_some());
}
