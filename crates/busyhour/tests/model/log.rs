//! Records what a subscription to a line receives, and a pool that runs only
//! when it is stepped.
#![allow(dead_code)] // each test file uses its own part

use crate::model::Level;
use busyhour::{
    bus::{Delivery, NodeId, Subscription, SubscriptionBuilder},
    clock::{Clock, UnixTime},
    pool::TaskPool,
};
use std::sync::{Arc, Mutex};

pub const HERE: NodeId = NodeId(1);
pub const THERE: NodeId = NodeId(2);

/// What was received for a line, and from which node; the level is `None` when
/// the line was cleared.
pub type Heard = (u32, Option<u32>, NodeId);

#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Heard>>>);

impl Log {
    pub fn start(&self, builder: SubscriptionBuilder<Level>) -> Subscription<Level> {
        let log = self.clone();
        builder.start(move |delivery| log.hear(&delivery))
    }

    pub fn hear(&self, delivery: &Delivery<'_, Level>) {
        let heard = match delivery {
            Delivery::Event(event, origin) => (event.line, Some(event.level), *origin),
            Delivery::Removed(line, origin) => (**line, None, *origin),
            Delivery::Replayed | Delivery::Lost(_) => return,
        };
        self.0.lock().unwrap().push(heard);
    }

    pub fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// As before, without the nodes.
    pub fn take_levels(&self) -> Vec<(u32, Option<u32>)> {
        let heard = self.take().into_iter();
        heard.map(|(line, level, _)| (line, level)).collect()
    }
}

/// A pool that runs only when it is stepped.
pub fn stepped_pool() -> TaskPool {
    TaskPool::simulated(1, Clock::simulated(UnixTime::from_secs(0)))
}
