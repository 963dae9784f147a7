//! Which devices are reached over which connection, so that a connection that
//! ends takes their contacts along.
//!
//! A device enters a flow before it asks the network whether the connection
//! lives ([`Network::recognise`]), and the network takes a connection out of its
//! directory before it tells of the end ([`Core::flow_failed`]). So either the
//! device is told that the connection is gone, or whoever tells of the end finds
//! the device here. Both may happen; the second changes nothing.
//!
//! [`Network::recognise`]: super::Network::recognise

use super::{core::Core, device::Device};
use crate::registrar::Flow;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, Weak, atomic::Ordering},
};

/// The devices of every connection, in shards with a lock each.
pub(super) struct Flows {
    shards: Box<[Mutex<Table>]>,
}

/// The devices of a flow, each by its address in memory.
type Table = HashMap<Flow, HashMap<usize, Weak<Device>>>;

impl Flows {
    pub(super) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// From now on the device is reached over this flow.
    pub(super) fn enter(&self, flow: Flow, device: &Arc<Device>) {
        let mut table = self.shard(&flow);
        let devices = table.entry(flow).or_default();
        devices.insert(place(device), Arc::downgrade(device));
    }

    /// From now on it is not.
    pub(super) fn leave(&self, flow: Flow, device: &Arc<Device>) {
        let mut table = self.shard(&flow);
        let Some(devices) = table.get_mut(&flow) else {
            return;
        };
        devices.remove(&place(device));
        if devices.is_empty() {
            table.remove(&flow);
        }
    }

    /// Ends a flow: the devices it had, in the order of their addresses of record,
    /// since every run with the same seed has to go the same way.
    fn end(&self, flow: Flow) -> VecDeque<Arc<Device>> {
        let devices = self.shard(&flow).remove(&flow).unwrap_or_default();
        let mut devices: Vec<_> = devices.values().filter_map(Weak::upgrade).collect();
        devices.sort_unstable_by(|one, other| one.aor().cmp(other.aor()));
        devices.into()
    }

    fn shard(&self, flow: &Flow) -> MutexGuard<'_, Table> {
        // Connections are numbered one after the other.
        self.shards[flow.connection as usize % SHARDS]
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Core {
    pub(super) fn flows(&self) -> &Flows {
        &self.parts.flows
    }

    /// A connection has ended: what was registered over it cannot be reached.
    pub(super) fn flow_failed(self: &Arc<Self>, flow: Flow) {
        // Whoever is shut down tells its watchers to come again, and no more.
        if !self.is_closing.load(Ordering::Acquire) {
            let devices = self.flows().end(flow);
            self.cut_off(flow, devices);
        }
    }

    /// Tells some devices and leaves the others for the next turn: a proxy may
    /// have registered a hundred thousand of them over one connection.
    fn cut_off(self: &Arc<Self>, flow: Flow, mut devices: VecDeque<Arc<Device>>) {
        if devices.is_empty() {
            return;
        }
        let core = Arc::downgrade(self);
        let tell = move || {
            let Some(core) = core.upgrade() else { return };
            let portion = devices.len().min(PORTION_LEN);
            for device in devices.drain(..portion) {
                device.flow_failed(&core, flow);
            }
            core.cut_off(flow, devices);
        };
        // It takes no more only when the server ends.
        let _ = self.devices().bell().try_push(tell);
    }
}

fn place(device: &Arc<Device>) -> usize {
    Arc::as_ptr(device) as usize
}

/// Many more than threads, so that two seldom want the same one.
const SHARDS: usize = 64;
/// Devices that one turn tells, so that what waits behind it waits for less than
/// a millisecond.
const PORTION_LEN: usize = 64;
