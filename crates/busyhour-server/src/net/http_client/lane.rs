use crate::server::HttpPurpose;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::Semaphore;

/// The lanes that have requests.
pub(super) struct Lanes {
    lanes: Mutex<HashMap<LaneKey, Lane>>,
    /// Requests under way in one lane.
    width: usize,
}

/// Whose requests share a lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LaneKey {
    pub(super) purpose: HttpPurpose,
    /// The scheme and the authority.
    pub(super) host: String,
}

struct Lane {
    places: Arc<Semaphore>,
    request_count: usize,
}

/// The place of one request in its lane, under way or waiting.
pub(super) struct LanePlace {
    lanes: Arc<Lanes>,
    key: LaneKey,
    /// Those who have a permit of it are under way.
    pub(super) places: Arc<Semaphore>,
}

impl Lanes {
    pub(super) fn new(width: usize) -> Self {
        Self {
            lanes: Mutex::default(),
            width,
        }
    }

    /// A place; `None` if as many wait as may.
    pub(super) fn enter(self: &Arc<Self>, key: LaneKey) -> Option<LanePlace> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = lanes.entry(key.clone()).or_insert_with(|| Lane {
            places: Arc::new(Semaphore::new(self.width)),
            request_count: 0,
        });
        if lane.request_count >= self.width + WAITING_MAX {
            return None;
        }
        lane.request_count += 1;
        let places = lane.places.clone();
        drop(lanes);
        Some(LanePlace {
            lanes: self.clone(),
            key,
            places,
        })
    }

    /// The requests in all lanes.
    pub(super) fn request_count(&self) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.values().map(|lane| lane.request_count).sum()
    }
}

impl Drop for LanePlace {
    /// The last one to leave removes the lane, so hosts that nobody asks take no memory.
    fn drop(&mut self) {
        let lanes = &self.lanes.lanes;
        let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get_mut(&self.key) {
            lane.request_count -= 1;
            if lane.request_count == 0 {
                lanes.remove(&self.key);
            }
        }
    }
}

/// Requests that may wait in one lane.
const WAITING_MAX: usize = 1024;
