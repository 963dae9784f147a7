//! One hint: it listens to its devices on the bus, on its own serializer, and publishes
//! their combined state when that changes.

use crate::lock::lock;
use crate::server::{
    change::{changes::Changes, record},
    device::device_context::DeviceContext,
};
use busyhour::{
    bus::{self, Delivery, Name, Topic},
    serializer::Serializer,
    stats::SerializerStats,
};
use busyhour_registrar::watch::{DeviceState, ExtensionState, LineState};
use std::sync::{Arc, Mutex};

/// An extension that listens to its devices.
pub(in crate::server) struct Hint {
    extension: Name,
    /// Those that were set come first.
    pub(in crate::server) devices: Vec<Name>,
    /// The devices that were set, and where; `None` if only accounts name the hint.
    pub(in crate::server) set: Option<(Vec<Name>, SetBy)>,
    serializer: Serializer,
    lines: Mutex<Vec<LineState>>,
    feeds: Mutex<Vec<bus::Subscription<DeviceState>>>,
}

/// Where the states of extensions are told: to watchers, and to those who read changes.
#[derive(Clone)]
pub(in crate::server) struct ExtensionTopic {
    pub(in crate::server) states: Topic<ExtensionState>,
    pub(in crate::server) changes: Arc<Changes>,
}

/// Who set the devices of an extension.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum SetBy {
    Configuration,
    /// HTTP, now or before the last start.
    Http,
}

/// A hint as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintView {
    /// The user part of the address of record that is watched.
    pub extension: Name,
    /// The addresses of record of its devices.
    pub devices: Vec<Name>,
    /// What they do together.
    pub line: LineState,
    /// It is defined in the configuration, and must be changed there; otherwise it
    /// comes from HTTP or accounts.
    pub is_configured: bool,
}

impl Hint {
    pub(in crate::server) fn new(
        extension: Name,
        devices: Vec<Name>,
        set: Option<(Vec<Name>, SetBy)>,
        serializer: Serializer,
    ) -> Self {
        Self {
            extension,
            lines: Mutex::new(vec![LineState::Invalid; devices.len()]),
            devices,
            set,
            serializer,
            feeds: Mutex::default(),
        }
    }

    pub(in crate::server) fn is_configured(&self) -> bool {
        matches!(self.set, Some((_, SetBy::Configuration)))
    }

    /// Listens to its devices from now on, and publishes their current state.
    pub(in crate::server) fn start(
        self: &Arc<Self>,
        topic: &ExtensionTopic,
        devices: &Arc<DeviceContext>,
    ) {
        let states = &devices.topics.states;
        let named = self.devices.iter().enumerate();
        let feeds = named.map(|(index, device)| {
            // The device does not change between the check and the subscription.
            devices.subscribe_with_snapshot(device, || {
                let state = states.get(device);
                lock(&self.lines)[index] = LineState::of(state.as_ref());
                self.listen(topic, states, index, device.clone())
            })
        });
        *lock(&self.feeds) = feeds.collect();
        self.tell(topic, &lock(&self.lines));
    }

    fn listen(
        self: &Arc<Self>,
        topic: &ExtensionTopic,
        states: &Topic<DeviceState>,
        index: usize,
        device: Name,
    ) -> bus::Subscription<DeviceState> {
        let hint = Arc::downgrade(self);
        let (topic, states) = (topic.clone(), states.clone());
        let feed = states.subscribe().key(device.clone()).replay().conflate();
        let feed = feed.name(format!("hint {}", self.extension));
        feed.on(&self.serializer).start(move |delivery| {
            let Some(hint) = hint.upgrade() else { return };
            match delivery {
                Delivery::Event(state, _) => hint.hear(&topic, index, Some(state)),
                Delivery::Removed(..) => hint.hear(&topic, index, None),
                // If there was no room for the device, it may have come and gone
                // between the check and the subscription.
                Delivery::Replayed => hint.hear(&topic, index, states.get(&device).as_ref()),
                Delivery::Lost(_) => {}
            }
        })
    }

    fn hear(&self, topic: &ExtensionTopic, index: usize, state: Option<&DeviceState>) {
        let mut lines = lock(&self.lines);
        let before = LineState::aggregate(lines.iter().copied());
        lines[index] = LineState::of(state);
        if LineState::aggregate(lines.iter().copied()) != before {
            self.tell(topic, &lines);
        }
    }

    fn tell(&self, topic: &ExtensionTopic, lines: &[LineState]) {
        let state = self.state(lines);
        let told = || record::hint(&self.extension, true, Some(&state));
        topic.changes.hints.tell(told);
        // A watcher that lags is brought up to date from the cache.
        let _ = topic.states.publish(state);
    }

    /// Tells its state to those who read changes.
    pub(in crate::server) fn tell_state(&self, changes: &Changes) {
        let lines = lock(&self.lines);
        let state = self.state(&lines);
        let told = || record::hint(&self.extension, false, Some(&state));
        changes.hints.tell(told);
    }

    fn state(&self, lines: &[LineState]) -> ExtensionState {
        ExtensionState {
            extension: self.extension.clone(),
            line: LineState::aggregate(lines.iter().copied()),
        }
    }

    /// Says nothing from now on.
    pub(in crate::server) fn silence(&self) {
        let feeds = std::mem::take(&mut *lock(&self.feeds));
        for feed in feeds {
            feed.unsubscribe();
        }
    }

    /// What waits for its serializer.
    pub(in crate::server) fn queue_stats(&self) -> SerializerStats {
        self.serializer.stats()
    }

    pub(in crate::server) fn view(&self) -> HintView {
        HintView {
            extension: self.extension.clone(),
            devices: self.devices.clone(),
            line: LineState::aggregate(lock(&self.lines).iter().copied()),
            is_configured: self.is_configured(),
        }
    }
}
