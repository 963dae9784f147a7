//! Which keys are equal.

use busyhour::bus::{Delivery, Event, Topic};
use std::{
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, mpsc},
};

/// A host's name: upper and lower case are the same.
#[derive(Debug, Clone)]
struct Host(&'static str);

impl PartialEq for Host {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(other.0)
    }
}

impl Eq for Host {}

impl Hash for Host {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.0.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
    }
}

#[derive(Debug, Clone)]
struct Reachable(Host, bool);

impl Event for Reachable {
    type Key = Host;

    fn key(&self) -> &Host {
        &self.0
    }
}

/// A key whose hash is always the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Crowded(u32);

impl Hash for Crowded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(0);
    }
}

#[derive(Debug, Clone, Copy)]
struct Crowd(Crowded, u32);

impl Event for Crowd {
    type Key = Crowded;

    fn key(&self) -> &Crowded {
        &self.0
    }
}

#[test]
fn a_key_type_decides_which_keys_are_equal() {
    let topic = Topic::<Reachable>::builder("hosts").cached().build();
    let (sender, heard) = mpsc::channel();
    let _watch = topic
        .subscribe()
        .key(Host("PBX.example.com"))
        .start(move |delivery| {
            if let Delivery::Event(Reachable(_, up), _) = delivery {
                sender.send(*up).unwrap();
            }
        });
    let _ = topic.publish(Reachable(Host("pbx.EXAMPLE.com"), true));
    let _ = topic.publish(Reachable(Host("pbx.example.com"), false));
    let _ = topic.publish(Reachable(Host("pbx.example.org"), true));
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [true, false]);
    assert_eq!(topic.len(), 2);
    assert!(!topic.get(&Host("Pbx.Example.Com")).unwrap().1);
    assert_eq!(topic.remove(&Host("PBX.EXAMPLE.COM")).key_count, 1);
    assert_eq!(topic.len(), 1);
}

#[test]
fn keys_with_equal_hashes_stay_apart() {
    let topic = Topic::<Crowd>::builder("crowd").cached().build();
    let (sender, heard) = mpsc::channel();
    let _watch = topic.subscribe().key(Crowded(7)).start(move |delivery| {
        if let Delivery::Event(Crowd(key, value), _) = delivery {
            sender.send((key.0, *value)).unwrap();
        }
    });
    for round in 0..3 {
        for key in 0..200 {
            let _ = topic.publish(Crowd(Crowded(key), key + round));
        }
    }
    for key in (0..200).step_by(2) {
        assert_eq!(topic.remove(&Crowded(key)).key_count, 1);
    }
    for key in 0..200 {
        let value = topic.get(&Crowded(key)).map(|crowd| crowd.1);
        assert_eq!(value, (key % 2 == 1).then_some(key + 2));
    }
    assert_eq!(
        heard.try_iter().collect::<Vec<_>>(),
        [(7, 7), (7, 8), (7, 9)]
    );
}

/// A subscription by key remembers the slot of its key. When the key is
/// removed, a key with the same hash may take that slot; the subscription must
/// not receive its events.
#[test]
fn a_key_in_the_slot_of_another_is_not_delivered_to_the_subscribers_of_that_one() {
    let topic = Topic::<Crowd>::builder("crowd").cached().build();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&heard);
    let _watch = topic.subscribe().key(Crowded(1)).start(move |delivery| {
        if let Delivery::Event(crowd, _) = delivery {
            theirs.lock().unwrap().push((crowd.0.0, crowd.1));
        }
    });
    for round in 0..4 {
        for number in 0..2 {
            let _ = topic.publish(Crowd(Crowded(1), 10 * round + number));
        }
        let _ = topic.remove(&Crowded(1));
        for number in 0..2 {
            let _ = topic.publish(Crowd(Crowded(2), number));
        }
        let _ = topic.remove(&Crowded(2));
    }
    let expected = [0, 1, 10, 11, 20, 21, 30, 31].map(|number| (1, number));
    assert_eq!(*heard.lock().unwrap(), expected);
}
