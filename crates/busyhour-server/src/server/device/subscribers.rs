//! Listeners to devices on the bus: the state of a device without listeners is not
//! published.

use crate::server::{core::Core, load::shares::Holder};
use busyhour::bus::Name;
use std::sync::{Arc, atomic::Ordering};

impl Core {
    /// Begins to listen to a device's state: `subscribe` subscribes to the topic
    /// of states, with what is there now.
    pub(in crate::server) fn subscribe_with_snapshot<R>(
        self: &Arc<Self>,
        aor: &str,
        subscribe: impl Fn() -> R,
    ) -> R {
        self.is_listened.store(true, Ordering::Release);
        while let Ok(device) = self.devices().open(aor, Holder::NOBODY, self) {
            if let Some(subscribed) = device.subscribe_with_snapshot(self, &subscribe) {
                return subscribed;
            }
        }
        // There is no such device, and no room for one. A device that gets room later
        // sees the subscription; one that was created just now is told of it.
        let subscribed = subscribe();
        if let Some(device) = self.devices().find(aor) {
            device.subscribe_with_snapshot(self, || ());
        }
        subscribed
    }

    /// Whether somebody listens to a device on the bus.
    pub(in crate::server) fn has_subscribers(&self, aor: &str) -> bool {
        if !self.is_listened.load(Ordering::Acquire) {
            return false;
        }
        let name = Name::new(aor);
        self.states().would_deliver(&name) || self.registrations().would_deliver(&name)
    }
}
