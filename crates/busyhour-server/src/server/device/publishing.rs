//! What the bus is told of a device.

use super::device_context::DeviceContext;
use super::{Device, DeviceInner};
use crate::server::change::record::{self, RegistrationEvent};
use busyhour::{
    bus::Name,
    task::{Executor, Task},
};
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
        context: &Arc<DeviceContext>,
        subscribe: impl FnOnce() -> R,
    ) -> Option<R> {
        let mut state = self.lock();
        if state.is_retired {
            return None;
        }
        if !state.has_subscribers {
            state.has_subscribers = true;
            self.publish(context, &state);
        }
        let subscribed = subscribe();
        self.finish_transition(context, &mut state);
        Some(subscribed)
    }

    /// Publishes the device's state to those who listen already; `false` if the device has left
    /// the table.
    pub(super) fn show(self: &Arc<Self>, context: &Arc<DeviceContext>) -> bool {
        let mut state = self.lock();
        if state.is_retired {
            return false;
        }
        state.has_subscribers = true;
        self.publish_as(&self.name(), context, &state);
        self.finish_transition(context, &mut state);
        true
    }

    /// Publishes the full registration for a new watcher; `false` if the strand is
    /// full.
    ///
    /// One waiting task serves all watchers that come before it begins, since they
    /// subscribe before they ask for it. So many watchers of one device do not fill its
    /// strand.
    pub(in crate::server) fn push_publish_full(self: &Arc<Self>, context: &DeviceContext) -> bool {
        if self.is_shown_soon.swap(true, Ordering::AcqRel) {
            return true;
        }
        let device = self.clone();
        let strand = context.table.strand_of(self);
        let publish = Task::labelled(&"full registration", move || device.publish_full());
        let is_pushed = strand.execute(publish).is_ok();
        if !is_pushed {
            self.is_shown_soon.store(false, Ordering::Release);
        }
        is_pushed
    }

    pub(super) fn publish_full(self: Arc<Self>) {
        // An atomic read-modify-write, so that it sees the subscriptions of those who
        // rely on it.
        self.is_shown_soon.swap(false, Ordering::AcqRel);
        let Some(context) = self.context.upgrade() else {
            return;
        };
        let mut state = self.lock();
        if state.is_retired {
            drop(state);
            if !context.show_registration(&self.aor) {
                // A device with contacts has its place, so this one has none.
                let none = RegistrationState::none(&self.name());
                let _ = context.topics.registrations.publish(none);
            }
            return;
        }
        if !state.has_subscribers {
            state.has_subscribers = true;
            self.publish(&context, &state);
        }
        self.publish_registration(&context, &state, false);
        self.finish_transition(&context, &mut state);
    }

    /// What the device does has changed, or may have.
    pub(super) fn publish(&self, context: &DeviceContext, state: &DeviceInner) {
        self.tell_state(context, state, true);
        if state.has_subscribers {
            self.publish_as(&self.name(), context, state);
        }
    }

    fn publish_as(&self, name: &Name, context: &DeviceContext, state: &DeviceInner) {
        if !context.speaks_for(name) {
            return;
        }
        match DeviceState::of(name, &state.bindings, state.told(name), context.clock.now()) {
            Some(state) => {
                // A watcher that lags is brought up to date from the cache.
                let _ = context.topics.states.publish(state);
            }
            None => {
                let _ = context.topics.states.remove(name);
            }
        }
    }

    /// What is registered has changed; watchers of the device's state see a
    /// difference if it `is_visible`.
    pub(super) fn publish_registration(
        &self,
        context: &DeviceContext,
        state: &DeviceInner,
        is_visible: bool,
    ) {
        if is_visible {
            self.tell_state(context, state, true);
        }
        if !state.has_subscribers {
            return;
        }
        let name = self.name();
        if context.topics.registrations.would_deliver(&name) {
            let registration = RegistrationState::of(&name, &state.bindings, context.clock.now());
            // A watcher that lags receives the last state, which is all it needs.
            let _ = context.topics.registrations.publish(registration);
        }
        if is_visible {
            self.publish_as(&name, context, state);
        }
    }

    /// Tells those who read changes what became of the contacts.
    pub(super) fn tell_registration(
        &self,
        context: &DeviceContext,
        state: &DeviceInner,
        event: Option<RegistrationEvent>,
    ) {
        let now = context.clock.now();
        let told = || record::registration(&self.name(), event, &state.bindings, now);
        context.changes.devices.tell(told);
    }

    /// Tells them what the device does.
    fn tell_state(&self, context: &DeviceContext, state: &DeviceInner, is_change: bool) {
        context.changes.devices.tell(|| {
            let name = self.name();
            let now = context.clock.now();
            let does = DeviceState::of(&name, &state.bindings, state.told(&name), now);
            record::device(&name, is_change, does.as_ref())
        });
    }

    /// Tells them what is so, and not that it has changed.
    fn tell_states(&self, context: &DeviceContext) {
        let state = self.lock();
        self.tell_registration(context, &state, None);
        self.tell_state(context, &state, false);
    }
}

impl DeviceContext {
    /// Tells the devices of a shard to those who read changes; `false` if there is no such
    /// shard.
    pub(in crate::server) fn tell_states(&self, shard: usize) -> bool {
        let Some(devices) = self.table.of_shards(shard, 1) else {
            return false;
        };
        for device in devices {
            device.tell_states(self);
        }
        true
    }
}
