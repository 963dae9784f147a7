//! The dialogs of a device that the proxy carries.

use super::{Device, device_context::DeviceContext};
use busyhour_registrar::watch::DialogChange;
use std::sync::Arc;

impl DeviceContext {
    /// A dialog of a device has changed; called in the order of the changes, under the lock
    /// of the shard of its call. A device that has no room is not told of: the call is
    /// worth more than its lamp.
    pub(in crate::server) fn apply_dialog(self: &Arc<Self>, change: DialogChange) {
        let mut change = Some(change);
        while let Some(device) = change
            .as_ref()
            .and_then(|change| self.table.open_for_account(&change.device, self).ok())
        {
            change = match change.take() {
                Some(change) => device.apply_dialog(self, change),
                None => return,
            };
        }
    }
}

impl Device {
    /// Takes a change in, and publishes it; gives it back if the device has left the table.
    fn apply_dialog(
        self: &Arc<Self>,
        context: &Arc<DeviceContext>,
        change: DialogChange,
    ) -> Option<DialogChange> {
        let mut state = self.lock();
        if state.is_retired {
            return Some(change);
        }
        if state.rare().dialogs.apply(change) {
            self.publish(context, &state);
        }
        self.finish_transition(context, &mut state);
        None
    }

    /// The numbers of the dialogs that live.
    pub(in crate::server) fn dialogs(&self) -> Vec<u64> {
        let state = self.lock();
        let rare = state.rare.as_ref();
        rare.map_or_else(Vec::new, |rare| {
            rare.dialogs.live().map(|(id, _)| id).collect()
        })
    }
}
