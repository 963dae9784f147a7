//! A search through the index of devices, in portions.

use super::{gathering::Gathering, search::DeviceQuery};
use crate::server::device::device_context::DeviceContext;
use std::sync::Arc;

/// A search that has not ended yet.
pub(super) struct RowSearch {
    devices: Arc<DeviceContext>,
    gathering: Gathering,
    next: SearchPortion,
}

/// What a page has, and what more there is.
pub(super) struct FoundDevices {
    /// Addresses of record in the order of the page.
    pub(super) aors: Vec<String>,
    /// The place of each in that order, before its address of record, as texts that are in the order of the places.
    pub(super) sort_keys: Vec<String>,
    /// How many there are in all.
    pub(super) match_count: u64,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

/// What is looked at next.
enum SearchPortion {
    /// Nobody has looked for some time: the devices from this shard on, so that there are rows.
    Devices(usize),
    /// The same for some accounts.
    Accounts,
    /// The rows from this shard on.
    Rows(usize),
}

impl RowSearch {
    pub(super) fn new(devices: &Arc<DeviceContext>, query: DeviceQuery) -> Self {
        Self {
            devices: devices.clone(),
            gathering: Gathering::new(query, devices.persistence.clone()),
            next: first_portion(devices),
        }
    }

    /// Without accounts that are not registered.
    pub(super) fn only_registered(mut self) -> Self {
        self.gathering.is_of_contacts = true;
        self
    }

    /// All that is left of it at once.
    pub(super) fn finish(mut self) -> FoundDevices {
        loop {
            if let Some(found) = self.go_on() {
                return found;
            }
        }
    }

    /// Looks at some more, for a few milliseconds; what was found, if that was all.
    pub(super) fn go_on(&mut self) -> Option<FoundDevices> {
        self.devices.use_index();
        match self.next {
            SearchPortion::Devices(first) => self.next = self.make_rows(first),
            SearchPortion::Accounts if self.devices.walk_accounts() => {
                self.next = SearchPortion::Rows(0);
            }
            SearchPortion::Accounts => {}
            SearchPortion::Rows(first) => return self.read_rows(first),
        }
        None
    }

    fn make_rows(&self, first: usize) -> SearchPortion {
        let shard_count = self.devices.index.shard_count();
        let end = (first + DEVICE_SHARDS_AT_ONCE).min(shard_count);
        (first..end).for_each(|shard| self.devices.index_rows(shard, |_| ()));
        match end == shard_count {
            true => SearchPortion::Accounts,
            false => SearchPortion::Devices(end),
        }
    }

    fn read_rows(&mut self, first: usize) -> Option<FoundDevices> {
        let shard_count = self.devices.index.shard_count();
        let end = (first + ROW_SHARDS_AT_ONCE).min(shard_count);
        let gathering = &mut self.gathering;
        for shard in first..end {
            (self.devices).index_rows(shard, |rows| gathering.read(rows));
        }
        if end < shard_count {
            self.next = SearchPortion::Rows(end);
            return None;
        }
        self.next = first_portion(&self.devices);
        match self.next {
            SearchPortion::Rows(_) => Some(self.gathering.finish()),
            // The index was dropped meanwhile, or accounts have other names, so some may be missing.
            _ => {
                self.gathering.begin_anew();
                None
            }
        }
    }
}

fn first_portion(devices: &DeviceContext) -> SearchPortion {
    devices.follow_accounts();
    match devices.is_index_whole() {
        true => SearchPortion::Rows(0),
        false => SearchPortion::Devices(0),
    }
}

/// Of a million devices these have three thousand: some milliseconds.
const DEVICE_SHARDS_AT_ONCE: usize = 4;
/// Of a million devices these have 25,000 rows: a millisecond.
const ROW_SHARDS_AT_ONCE: usize = 32;
