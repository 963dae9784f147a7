//! A topic that keeps the last value by sensor. A subscriber that is slow finds the newest
//! value of each sensor that waits for it, however many it has missed.

use crate::{Hub, Reading, Subscriber, Told};
use busyhour::{
    bus::{Event, EventStream, Message, Topic},
    runtime::Runtime,
};
use futures_util::StreamExt;
use std::{error::Error, time::Duration};

pub struct Changes {
    topic: Topic<Reading>,
    runtime: Runtime,
}

pub struct Waiting(EventStream<Reading>);

impl Event for Reading {
    type Key = u64;

    fn key(&self) -> &u64 {
        &self.sensor
    }
}

impl Hub for Changes {
    type Subscriber = Waiting;

    fn open() -> Result<Self, Box<dyn Error>> {
        let runtime = Runtime::builder().workers(1).build()?;
        Ok(Self {
            topic: runtime.topic("changes").cached().build(),
            runtime,
        })
    }

    fn offer(&self, readings: impl Iterator<Item = Reading>) {
        let is_change = |last: &Reading, new: &Reading| last.value != new.value;
        _ = self.topic.publish_all_if(readings, is_change);
    }

    fn subscribe(&self) -> Waiting {
        let subscription = self.topic.subscribe().replay().conflate();
        Waiting(subscription.capacity(QUEUE_CAPACITY).stream())
    }
}

impl Drop for Changes {
    /// Ends the streams, once they have delivered what waits.
    fn drop(&mut self) {
        self.runtime.shutdown(Duration::from_secs(1));
    }
}

impl Subscriber for Waiting {
    async fn next(&mut self) -> Option<Told> {
        loop {
            match self.0.next().await? {
                Message::Event(reading, _) => return Some(Told::Change(reading)),
                Message::Lost(count) => return Some(Told::Lost(count)),
                _ => {}
            }
        }
    }
}

/// If more sensors wait, the subscriber is brought up to date from the topic.
const QUEUE_CAPACITY: usize = 65_536;
