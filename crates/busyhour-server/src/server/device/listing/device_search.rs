//! A search for devices, in portions that a worker does between other things.

use super::{
    row_search::RowSearch,
    search::{DevicePage, DeviceQuery, DeviceView},
};
use crate::server::Server;

/// A search that has not ended yet.
pub struct DeviceSearch {
    server: Server,
    rows: RowSearch,
}

impl Server {
    /// Begins to search devices, for operators.
    pub fn search_devices(&self, query: DeviceQuery) -> DeviceSearch {
        DeviceSearch {
            server: self.clone(),
            rows: RowSearch::new(&self.core.devices, query),
        }
    }

    /// All of such a search at once. The first one in some minutes reads every device, about a microsecond each; later
    /// ones read rows that lie together, some ten nanoseconds each.
    pub fn find_devices(&self, query: &DeviceQuery) -> DevicePage {
        let mut search = self.search_devices(query.clone());
        loop {
            if let Some(page) = search.go_on() {
                return page;
            }
        }
    }
}

impl DeviceSearch {
    /// Looks at some more, for a few milliseconds; the page, if that was all.
    pub fn go_on(&mut self) -> Option<DevicePage> {
        let found = self.rows.go_on()?;
        Some(DevicePage {
            devices: self.shown(&found.aors, found.sort_keys),
            match_count: found.match_count,
            next: found.next,
        })
    }

    /// As they are now, without those that have gone meanwhile.
    fn shown(&self, aors: &[String], sort_keys: Vec<String>) -> Vec<DeviceView> {
        let found = aors.iter().zip(sort_keys);
        let shown = found.filter_map(|(aor, sort_key)| {
            let view = self.server.device(aor)?;
            Some(DeviceView { sort_key, ..view })
        });
        shown.collect()
    }
}
