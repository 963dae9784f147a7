//! The dialogs of a device that the proxy carries.

use super::{Device, device_context::DeviceContext};
use busyhour_cluster::Member;
use busyhour_registrar::watch::DialogChange;
use foldhash::quality::FixedState;
use std::{hash::BuildHasher, sync::Arc};

/// The number, among the dialogs of its device, of one that the proxy of another node carries: it
/// has the highest bit, which no dialog of this node has.
pub(in crate::server) fn foreign_dialog_id(by: Member, id: u64) -> u64 {
    FixedState::with_seed(0).hash_one((by, id)) | FOREIGN
}

impl DeviceContext {
    /// A dialog of a device has changed; called in the order of the changes, under the lock
    /// of the shard of its call. If another node has the device, that is told of it.
    pub(in crate::server) fn apply_dialog(self: &Arc<Self>, change: DialogChange) {
        let Some(live) = &self.live else {
            return self.apply_dialog_here(change);
        };
        let _kept = live.keep_partitions();
        match live.speaks_for(&change.device) {
            true => self.apply_dialog_here(change),
            false => live.report(&change),
        }
    }

    /// The same for a device of this node. One that has no room is not told of: the call is worth
    /// more than its lamp.
    pub(in crate::server) fn apply_dialog_here(self: &Arc<Self>, change: DialogChange) {
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

    /// The dialogs that this node carries, each with its number and as other nodes are told it.
    pub(in crate::server) fn own_dialogs(&self) -> Vec<(u64, Vec<u8>)> {
        let state = self.lock();
        let rare = state.rare.as_ref();
        let shared = rare.into_iter().flat_map(|rare| rare.dialogs.shared());
        shared.filter(|(id, _)| id & FOREIGN == 0).collect()
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

/// Set in the numbers of dialogs of other nodes.
const FOREIGN: u64 = 1 << 63;
