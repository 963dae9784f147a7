//! What devices tell the bus, and who listens there: the state of a device without
//! listeners is not published.

use super::device_context::DeviceContext;
use crate::server::{cluster::live_states::LiveStates, load::shares::Holder};
use busyhour::{
    bus::{Name, Topic},
    runtime::Runtime,
};
use busyhour_registrar::watch::{DeviceState, RegistrationState};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// The topics that devices publish to.
pub(in crate::server) struct StateTopics {
    /// What each device does, for presence and dialog.
    pub(in crate::server) states: Topic<DeviceState>,
    /// What each device has registered. Not cached: there are few watchers, and a refresh
    /// must not cost a publish that nobody receives.
    pub(in crate::server) registrations: Topic<RegistrationState>,
    /// Somebody listened to a device, at some time.
    is_listened: AtomicBool,
}

impl StateTopics {
    pub(in crate::server) fn new(runtime: &Runtime) -> Self {
        Self {
            states: runtime.topic("device-state").cached().build(),
            registrations: runtime.topic("registration").build(),
            is_listened: AtomicBool::new(false),
        }
    }

    /// Whether somebody listens to a device.
    pub(super) fn has_subscribers(&self, aor: &str) -> bool {
        if !self.is_listened.load(Ordering::Acquire) {
            return false;
        }
        let name = Name::new(aor);
        self.states.would_deliver(&name) || self.registrations.would_deliver(&name)
    }
}

impl DeviceContext {
    /// Begins to listen to a device's state: `subscribe` subscribes to the topic
    /// of states, with what is there now.
    pub(in crate::server) fn subscribe_with_snapshot<R>(
        self: &Arc<Self>,
        aor: &str,
        subscribe: impl Fn() -> R,
    ) -> R {
        self.topics.is_listened.store(true, Ordering::Release);
        match &self.live {
            None => self.subscribe_here(aor, subscribe),
            Some(live) => self.subscribe_in_cluster(live, aor, subscribe),
        }
    }

    /// The same for a device that is this node's and stays so meanwhile, on behalf of other nodes: nobody
    /// here has to be told when it moves.
    pub(in crate::server) fn subscribe_for_others<R>(
        self: &Arc<Self>,
        aor: &str,
        subscribe: impl Fn() -> R,
    ) -> R {
        self.topics.is_listened.store(true, Ordering::Release);
        self.subscribe_here(aor, subscribe)
    }

    fn subscribe_here<R>(self: &Arc<Self>, aor: &str, subscribe: impl Fn() -> R) -> R {
        while let Ok(device) = self.open(aor, Holder::NOBODY) {
            if let Some(subscribed) = device.subscribe_with_snapshot(self, &subscribe) {
                return subscribed;
            }
        }
        // There is no such device, and no room for one. A device that gets room later
        // sees the subscription; one that was created just now is told of it.
        let subscribed = subscribe();
        if let Some(device) = self.table.find(aor) {
            device.subscribe_with_snapshot(self, || ());
        }
        subscribed
    }

    /// Another node may have the device; or have it, or have had it, at this moment.
    fn subscribe_in_cluster<R>(
        self: &Arc<Self>,
        live: &LiveStates,
        aor: &str,
        subscribe: impl Fn() -> R,
    ) -> R {
        let is_ours = live.speaks_for(aor);
        let subscribed = match is_ours {
            true => self.subscribe_here(aor, subscribe),
            false => subscribe(),
        };
        live.want(&Name::new(aor));
        // Whose it becomes after that is told what is watched.
        if !is_ours && live.speaks_for(aor) {
            self.show(aor);
        }
        subscribed
    }

    /// Publishes what a device does that is this node's from now on.
    pub(in crate::server) fn show(self: &Arc<Self>, aor: &str) {
        while let Ok(device) = self.open(aor, Holder::NOBODY) {
            if device.show(self) {
                return;
            }
        }
        let _ = self.topics.states.remove(&Name::new(aor));
    }

    /// Whether watchers are told what this node knows of a device.
    pub(super) fn speaks_for(&self, aor: &str) -> bool {
        self.live.as_ref().is_none_or(|live| live.speaks_for(aor))
    }

    /// Makes a device publish its full registration; `false` if there is no room.
    pub(in crate::server) fn show_registration(self: &Arc<Self>, aor: &str) -> bool {
        self.topics.is_listened.store(true, Ordering::Release);
        let Ok(device) = self.open(aor, Holder::NOBODY) else {
            return false;
        };
        let is_pushed = device.push_publish_full(self);
        if !is_pushed {
            device.leave_if_idle(self);
        }
        is_pushed
    }
}
