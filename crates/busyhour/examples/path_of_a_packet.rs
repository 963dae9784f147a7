//! The path of a packet: it lands in a pinned buffer, becomes a task on its
//! device's serializer, changes a state on a topic, reaches a subscriber on a
//! serializer of its own, and a timer ends it. All in virtual time, so that
//! every run prints the same.

use std::{error::Error, time::Duration};

use busyhour::{
    buffer::Buffer,
    bus::{Delivery, Event, Topic},
    runtime::Runtime,
    serializer::Serializer,
};

/// What watchers learn about a device.
#[derive(Debug, Clone)]
struct DeviceState {
    device: String,
    is_registered: bool,
}

impl Event for DeviceState {
    type Key = String;

    fn key(&self) -> &String {
        &self.device
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::simulated(2026);
    let states = runtime
        .topic::<DeviceState>("device states")
        .cached()
        .build();

    // The subscriber's serializer keeps its deliveries in order.
    let watcher = runtime.serializer("watcher").build()?;
    let clock = runtime.clock().clone();
    let subscription = states
        .subscribe()
        .replay()
        .on(&watcher)
        .start(move |delivery| {
            let seconds = clock.now().as_nanos() / 1_000_000_000;
            match delivery {
                Delivery::Event(state, _) if state.is_registered => {
                    println!("{seconds:3} s: {} is here", state.device);
                }
                Delivery::Event(state, _) => println!("{seconds:3} s: {} is gone", state.device),
                Delivery::Replayed => println!("{seconds:3} s: that was the cache"),
                other => println!("{seconds:3} s: {other:?}"),
            }
        });

    let device = runtime.serializer("device alice").build()?;
    let packet = receive(&runtime, b"REGISTER alice 60")?;
    handle(&runtime, &states, &device, packet)?;

    let simulation = runtime.simulation().ok_or("not simulated")?;
    simulation.run_for(Duration::from_secs(90));
    println!("buffers still pinned: {}", runtime.buffers().live_count());
    subscription.unsubscribe();
    assert!(runtime.shutdown(Duration::from_secs(1)).is_clean());
    Ok(())
}

/// The network's part: bytes land in a pinned buffer.
fn receive(runtime: &Runtime, datagram: &[u8]) -> Result<Buffer, Box<dyn Error>> {
    let mut buffer = runtime.buffers().alloc(datagram.len())?;
    buffer.copy_from_slice(datagram);
    Ok(buffer.freeze())
}

/// The device's part: parse in place, publish, and let a timer end it.
fn handle(
    runtime: &Runtime,
    states: &Topic<DeviceState>,
    device: &Serializer,
    packet: Buffer,
) -> Result<(), Box<dyn Error>> {
    let (timers, states, own) = (runtime.timers().clone(), states.clone(), device.clone());
    device.push(move || {
        let text = String::from_utf8_lossy(&packet);
        let mut words = text.split(' ').skip(1);
        let name = words.next().unwrap_or("nobody").to_owned();
        let expires: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        publish(&states, &name, true);
        let expire = move || publish(&states, &name, false);
        timers.after(Duration::from_secs(expires), &own, expire);
    })?;
    Ok(())
}

fn publish(states: &Topic<DeviceState>, device: &str, is_registered: bool) {
    let device = device.to_owned();
    let published = states.publish(DeviceState {
        device,
        is_registered,
    });
    assert_eq!(published.lost, 0);
}
