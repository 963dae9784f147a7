//! A topic for each room, which keeps the last line of each user. A member that was too slow is
//! told so, and then the last line of each user that it has missed.

use crate::{Hub, Line, Member, ROOMS_MAX, Room, Told, USERS_MAX, WAITING_MAX};
use busyhour::{
    bus::{Event, EventStream, Message, Topic},
    runtime::Runtime,
};
use futures_util::StreamExt;
use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

pub struct Rooms {
    rooms: Mutex<HashMap<String, Topic<Line>>>,
    runtime: Runtime,
}

pub struct Joined(EventStream<Line>);

impl Event for Line {
    type Key = Arc<str>;

    fn key(&self) -> &Arc<str> {
        &self.user
    }
}

impl Hub for Rooms {
    type Room = Topic<Line>;

    fn open() -> Result<Self, Box<dyn Error>> {
        let runtime = Runtime::builder().workers(1).build()?;
        let rooms = Mutex::default();
        Ok(Self { rooms, runtime })
    }

    fn room(&self, name: &str) -> Option<Topic<Line>> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(name) {
            return Some(room.clone());
        }
        (rooms.len() < ROOMS_MAX).then(|| {
            let room = self.runtime.topic(name).cached().key_limit(USERS_MAX);
            let room = room.build();
            rooms.insert(name.to_owned(), room.clone());
            room
        })
    }
}

impl Room for Topic<Line> {
    type Member = Joined;

    fn say(&self, line: Line) -> bool {
        !self.publish(line).refused
    }

    fn join(&self) -> Joined {
        Joined(self.subscribe().replay().capacity(WAITING_MAX).stream())
    }
}

impl Member for Joined {
    async fn next(&mut self) -> Option<Told> {
        loop {
            match self.0.next().await? {
                Message::Event(line, _) => return Some(Told::Line(line)),
                Message::Lost(count) => return Some(Told::Lost(count)),
                _ => {}
            }
        }
    }
}

impl Drop for Rooms {
    /// Ends the streams, once they have delivered what waits.
    fn drop(&mut self) {
        self.runtime.shutdown(Duration::from_secs(1));
    }
}
