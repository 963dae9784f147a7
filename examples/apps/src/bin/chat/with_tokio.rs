//! What one would write with tokio alone: a broadcast channel for each room, and a table of last
//! lines behind a mutex. A member that was too slow is told so, and does not learn what it missed.

use crate::{Hub, Line, Member, ROOMS_MAX, Room, Told, USERS_MAX, WAITING_MAX};
use std::{
    collections::HashMap,
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    vec,
};
use tokio::sync::broadcast::{self, error::RecvError};

#[derive(Default)]
pub struct Rooms(Mutex<HashMap<String, Arc<OneRoom>>>);

pub struct OneRoom {
    last: Mutex<HashMap<Arc<str>, Line>>,
    lines: broadcast::Sender<Line>,
}

pub struct Joined {
    last: vec::IntoIter<Line>,
    lines: broadcast::Receiver<Line>,
}

impl Hub for Rooms {
    type Room = Arc<OneRoom>;

    fn open() -> Result<Self, Box<dyn Error>> {
        Ok(Self::default())
    }

    fn room(&self, name: &str) -> Option<Arc<OneRoom>> {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(name) {
            return Some(Arc::clone(room));
        }
        (rooms.len() < ROOMS_MAX).then(|| {
            let room = Arc::new(OneRoom {
                last: Mutex::default(),
                lines: broadcast::Sender::new(WAITING_MAX),
            });
            rooms.insert(name.to_owned(), Arc::clone(&room));
            room
        })
    }
}

impl OneRoom {
    fn last(&self) -> MutexGuard<'_, HashMap<Arc<str>, Line>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room for Arc<OneRoom> {
    type Member = Joined;

    fn say(&self, line: Line) -> bool {
        let mut last = self.last();
        if last.len() >= USERS_MAX && !last.contains_key(&line.user) {
            return false;
        }
        last.insert(Arc::clone(&line.user), line.clone());
        // Within the lock, so that the lines of a user keep their order. Nobody may have joined.
        _ = self.lines.send(line);
        true
    }

    fn join(&self) -> Joined {
        // Both within the lock, so that no line is missed between and none comes twice.
        let last = self.last();
        let lines = self.lines.subscribe();
        let last: Vec<_> = last.values().cloned().collect();
        let last = last.into_iter();
        Joined { last, lines }
    }
}

impl Member for Joined {
    async fn next(&mut self) -> Option<Told> {
        if let Some(line) = self.last.next() {
            return Some(Told::Line(line));
        }
        match self.lines.recv().await {
            Ok(line) => Some(Told::Line(line)),
            Err(RecvError::Lagged(count)) => Some(Told::Lost(count)),
            Err(RecvError::Closed) => None,
        }
    }
}
