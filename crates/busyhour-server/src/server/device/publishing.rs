//! What the bus is told of a device.

use super::{Device, DeviceInner};
use crate::server::core::Core;
use busyhour::bus::Name;
use busyhour_registrar::watch::{DeviceState, RegistrationState};
use std::sync::{Arc, atomic::Ordering};

impl Device {
    /// Publishes the device's state, and calls `subscribe` under the same lock, so that
    /// no change falls in between; `None` if the device has left the table.
    ///
    /// Under the lock the device does not change, and does not conclude that nobody
    /// listens.
    pub(in crate::server) fn subscribe_with_snapshot<R>(
        self: &Arc<Self>,
        core: &Arc<Core>,
        subscribe: impl FnOnce() -> R,
    ) -> Option<R> {
        let mut state = self.lock();
        if state.is_retired {
            return None;
        }
        if !state.has_subscribers {
            state.has_subscribers = true;
            self.publish(core, &state);
        }
        let subscribed = subscribe();
        self.finish_transition(core, &mut state);
        Some(subscribed)
    }

    /// Publishes the full registration for a new watcher; `false` if the strand is
    /// full.
    ///
    /// One waiting task serves all watchers that come before it begins, since they
    /// subscribe before they ask for it. So many watchers of one device do not fill its
    /// strand.
    pub(in crate::server) fn push_publish_full(self: &Arc<Self>, core: &Core) -> bool {
        if self.is_shown_soon.swap(true, Ordering::AcqRel) {
            return true;
        }
        let device = self.clone();
        let strand = core.devices().strand(self.hash);
        let is_pushed = strand.try_push(move || device.publish_full()).is_ok();
        if !is_pushed {
            self.is_shown_soon.store(false, Ordering::Release);
        }
        is_pushed
    }

    pub(super) fn publish_full(self: Arc<Self>) {
        // An atomic read-modify-write, so that it sees the subscriptions of those who
        // rely on it.
        self.is_shown_soon.swap(false, Ordering::AcqRel);
        let Some(core) = self.core.upgrade() else {
            return;
        };
        let mut state = self.lock();
        if state.is_retired {
            drop(state);
            if !core.show_registration(&self.aor) {
                // A device with contacts has its place, so this one has none.
                let none = RegistrationState::none(&self.name());
                let _ = core.registrations().publish(none);
            }
            return;
        }
        if !state.has_subscribers {
            state.has_subscribers = true;
            self.publish(&core, &state);
        }
        self.publish_registration(&core, &state, false);
        self.finish_transition(&core, &mut state);
    }

    pub(super) fn publish(&self, core: &Core, state: &DeviceInner) {
        if state.has_subscribers {
            self.publish_as(&self.name(), core, state);
        }
    }

    fn publish_as(&self, name: &Name, core: &Core, state: &DeviceInner) {
        match DeviceState::of(name, &state.bindings, state.told(), core.now()) {
            Some(state) => {
                // A watcher that lags is brought up to date from the cache.
                let _ = core.states().publish(state);
            }
            None => {
                let _ = core.states().remove(name);
            }
        }
    }

    /// What is registered has changed; watchers of the device's state see a
    /// difference if it `is_visible`.
    pub(super) fn publish_registration(&self, core: &Core, state: &DeviceInner, is_visible: bool) {
        if !state.has_subscribers {
            return;
        }
        let name = self.name();
        if core.registrations().would_deliver(&name) {
            let registration = RegistrationState::of(&name, &state.bindings, core.now());
            // A watcher that lags receives the last state, which is all it needs.
            let _ = core.registrations().publish(registration);
        }
        if is_visible {
            self.publish_as(&name, core, state);
        }
    }
}
