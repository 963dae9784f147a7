//! A topic with a last-value cache: a late subscriber first receives the state.
//!
//! Run with `cargo run -p busyhour --example bus`.

use busyhour::bus::{Delivery, Event, Name, Topic};

#[derive(Clone, Debug)]
struct DeviceState {
    device: Name,
    state: &'static str,
}

impl Event for DeviceState {
    type Key = Name;

    fn key(&self) -> &Name {
        &self.device
    }
}

fn main() {
    let states = Topic::builder("device-state").cached().build();
    let (door, gate) = (Name::new("SIP/door"), Name::new("SIP/gate"));
    let change = |device: &Name, state| DeviceState {
        device: device.clone(),
        state,
    };
    let _ = states.publish(change(&door, "idle"));
    let _ = states.publish(change(&gate, "in use"));

    // The cached events come first, each key once; then the changes.
    let watcher = states
        .subscribe()
        .replay()
        .start(|delivery| match delivery {
            Delivery::Event(event, _) => println!("{} is {}", event.device, event.state),
            Delivery::Removed(device, _) => println!("{device} is gone"),
            Delivery::Replayed => println!("-- that was the state; now the changes"),
            Delivery::Lost(count) => println!("-- {count} changes were skipped"),
        });
    let published = states.publish(change(&door, "ringing"));
    println!("-- {} subscription heard of it", published.delivered);
    let _ = states.remove(&gate);

    watcher.unsubscribe();
    let _ = states.publish(change(&door, "busy"));
    println!("-- nobody heard that, and yet {:?}", states.get(&door));
}
