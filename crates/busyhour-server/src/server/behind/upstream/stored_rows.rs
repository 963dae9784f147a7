//! What is stored of registrars behind and addresses of record, and comes back with the start.

use super::Upstream;
use busyhour::clock::UnixTime;
use busyhour_registrar::upstream::UpstreamRow;
use busyhour_store::{Change, SettingKind, SettingRows};
use std::{collections::BTreeMap, sync::Arc};

impl Upstream {
    /// What an earlier run has stored of registrars and addresses of record. What no registrar may
    /// have any more leaves the store.
    pub(in crate::server) fn restore(&self, rows: &SettingRows) {
        let (now, unix) = (self.clock.now(), self.clock.unix_time());
        let mut unknown: BTreeMap<&str, u64> = BTreeMap::new();
        let mut over = Vec::new();
        for (name, value) in rows {
            let parts = name.split_once('|').zip(read_row(value));
            let Some(((of, aor), row)) = parts else {
                tracing::warn!(
                    name,
                    "what a registrar was told cannot be read, and is removed"
                );
                over.push(name);
                continue;
            };
            let mut registrars = self.registrars.iter();
            match registrars.find(|it| it.config.name == of) {
                Some(registrar) => registrar.lock().table.restore(now, unix, aor, row),
                None if row.may_until > unix => *unknown.entry(of).or_default() += 1,
                None => over.push(name),
            }
        }
        for (registrar, addresses) in unknown {
            let until = "until their registrations run out";
            tracing::warn!(
                registrar,
                addresses,
                until,
                "the configuration has not a registrar any more that may have addresses"
            );
        }
        self.remove_rows(&over);
    }

    /// What finds no room in the queue of the store is removed by the next start.
    fn remove_rows(&self, names: &[&String]) {
        let remove = |name: &&String| Change::RemoveSetting {
            kind: SettingKind::Registration,
            name: (*name).clone(),
        };
        for some in names.chunks(REMOVED_AT_ONCE) {
            let changes = some.iter().map(remove).collect();
            let store = self.persistence.store();
            let _ = store.commit(changes, Box::new(|_| ()));
        }
    }
}

/// Times since 1970, in nanoseconds, and the Service-Route behind them.
pub(super) fn write_row(row: &UpstreamRow) -> String {
    let sure_until = row.sure_until.map_or(0, UnixTime::as_nanos);
    let may_until = row.may_until.as_nanos();
    match &row.service_route {
        Some(route) => format!("{sure_until} {may_until} {route}"),
        None => format!("{sure_until} {may_until}"),
    }
}

fn read_row(value: &str) -> Option<UpstreamRow> {
    let (sure_until, rest) = value.split_once(' ')?;
    let (may_until, route) = match rest.split_once(' ') {
        Some((may_until, route)) => (may_until, Some(route)),
        None => (rest, None),
    };
    let sure_until: u64 = sure_until.parse().ok()?;
    Some(UpstreamRow {
        sure_until: (sure_until > 0).then(|| UnixTime::from_nanos(sure_until)),
        may_until: UnixTime::from_nanos(may_until.parse().ok()?),
        service_route: route.map(Arc::from),
    })
}

/// Changes of one commit.
const REMOVED_AT_ONCE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_comes_back_as_it_was_stored() {
        let row = |sure_until, route: Option<&str>| UpstreamRow {
            sure_until,
            may_until: UnixTime::from_secs(1_800_000_000),
            service_route: route.map(Arc::from),
        };
        let sure_until = Some(UnixTime::from_secs(1_700_000_000));
        let route = "<sip:p1.example;lr>, <sip:p2.example;lr>";
        for row in [
            row(None, None),
            row(sure_until, None),
            row(sure_until, Some(route)),
        ] {
            assert_eq!(read_row(&write_row(&row)), Some(row));
        }
        assert_eq!(
            read_row("1700000000000000000 1800000000000000000"),
            Some(row(sure_until, None)),
            "of a version before"
        );
        assert_eq!(read_row("soon"), None);
        assert_eq!(read_row("1 soon"), None);
    }
}
