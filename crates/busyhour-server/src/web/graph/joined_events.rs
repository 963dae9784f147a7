use super::cached_archive::ArchiveEvent;
use busyhour_graphite::Event;
use std::{collections::HashMap, ops::ControlFlow};

/// What happened in several archives, joined in the order of their start.
///
/// A text that the last archive of its path ended with already is no event, although
/// each archive logs it again.
pub(super) struct JoinedEvents {
    events: Vec<Event>,
    /// By path.
    texts: HashMap<String, String>,
    count_max: usize,
}

impl JoinedEvents {
    /// Ends when there are more than `count_max`.
    pub(super) fn new(count_max: usize) -> Self {
        Self {
            events: Vec::new(),
            texts: HashMap::new(),
            count_max,
        }
    }

    /// Adds what the next archive has.
    pub(super) fn add(&mut self, events: Vec<ArchiveEvent>) -> ControlFlow<()> {
        for ArchiveEvent { event, is_text } in events {
            if is_text && self.texts.get(&event.what) == Some(&event.data) {
                continue;
            }
            if is_text {
                self.texts.insert(event.what.clone(), event.data.clone());
            }
            self.events.push(event);
        }
        match self.events.len() > self.count_max {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }
}
