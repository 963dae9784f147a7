//! The first devices of a page, and how many there are, among rows in any order.

use super::{
    index_rows::{IndexRows, IndexedDevice},
    row_search::FoundDevices,
    search::{DeviceOrder, DeviceQuery, DeviceReach},
};
use crate::server::{persistence::Persistence, stats::listing::is_of_domain};
use busyhour_sip::Transport;
use memchr::memmem::Finder;
use std::{cmp::Ordering, sync::Arc};

/// What is wanted, and what has been found of it.
pub(super) struct Gathering {
    query: DeviceQuery,
    persistence: Arc<Persistence>,
    /// Only what has a contact.
    pub(super) is_of_contacts: bool,
    finder: Option<Finder<'static>>,
    transport: Option<Transport>,
    after: Option<PageKey>,
    found: Vec<PageKey>,
    /// The last one of a full page: what comes behind it is only counted.
    last: Option<PageKey>,
    match_count: u64,
    has_more: bool,
}

impl Gathering {
    pub(super) fn new(query: DeviceQuery, persistence: Arc<Persistence>) -> Self {
        let text = query.text.as_ref().filter(|text| !text.is_empty());
        let finder = text.map(|text| Finder::new(&text.to_lowercase()).into_owned());
        let transports = [
            Transport::Udp,
            Transport::Tcp,
            Transport::Tls,
            Transport::Ws,
            Transport::Wss,
        ];
        let is_it = |one: &Transport| query.transport.as_deref() == Some(one.parameter());
        Self {
            finder,
            transport: transports.into_iter().find(is_it),
            after: query
                .after
                .as_deref()
                .map(|after| PageKey::parse(after, query.order)),
            found: Vec::new(),
            last: None,
            match_count: 0,
            has_more: false,
            is_of_contacts: false,
            persistence,
            query,
        }
    }

    /// Forgets what was found.
    pub(super) fn begin_anew(&mut self) {
        *self = Self {
            is_of_contacts: self.is_of_contacts,
            ..Self::new(std::mem::take(&mut self.query), self.persistence.clone())
        };
    }

    /// Takes what is wanted of these.
    pub(super) fn read(&mut self, rows: &IndexRows) {
        let finder = self.finder.take();
        rows.visit(finder.as_ref(), |row| self.take(&row));
        self.finder = finder;
    }

    fn take(&mut self, row: &IndexedDevice<'_>) {
        if !self.is_wanted(row) {
            return;
        }
        self.match_count += 1;
        let key = KeyView::of(row, self.query.order);
        if (self.after.as_ref()).is_some_and(|after| !self.is_behind(key, after)) {
            return;
        }
        if (self.last.as_ref()).is_some_and(|last| self.is_behind(key, last)) {
            self.has_more = true;
            return;
        }
        self.found.push(key.to_owned());
        if self.found.len() > self.query.limit.saturating_mul(2) {
            self.keep_first();
        }
    }

    /// When every row has been seen.
    pub(super) fn finish(&mut self) -> FoundDevices {
        self.keep_first();
        let last = self.found.last().filter(|_| self.has_more);
        let next = last.map(|last| last.written(self.query.order));
        let found = std::mem::take(&mut self.found);
        let aor = |one: &PageKey| String::from_utf8_lossy(&one.aor).into_owned();
        let sort_key = |one: &PageKey| one.sort_key(self.query.order);
        FoundDevices {
            aors: found.iter().map(aor).collect(),
            sort_keys: found.iter().map(sort_key).collect(),
            match_count: self.match_count,
            next,
        }
    }

    fn is_wanted(&self, row: &IndexedDevice<'_>) -> bool {
        let is_of = |domain: &String| {
            std::str::from_utf8(row.aor).is_ok_and(|aor| is_of_domain(aor, domain))
        };
        (self.query.state).is_none_or(|state| state == row.figures.reach)
            && self.transport.is_none_or(|one| row.figures.has(one))
            && self.query.domain.as_ref().is_none_or(is_of)
            && self.is_known_here(row)
    }

    /// In a cluster every node has every account, but only the owner of its address knows that it has no contact. Rows do
    /// not say who that is, since partitions go from one node to another.
    fn is_known_here(&self, row: &IndexedDevice<'_>) -> bool {
        let has_address =
            || std::str::from_utf8(row.aor).is_ok_and(|aor| self.persistence.has_address(aor));
        match row.figures.reach {
            DeviceReach::Registered | DeviceReach::Unreachable => true,
            DeviceReach::Offline | DeviceReach::Disabled => !self.is_of_contacts && has_address(),
        }
    }

    fn is_behind(&self, key: KeyView<'_>, other: &PageKey) -> bool {
        self.directed(key.cmp(&other.view())) == Ordering::Greater
    }

    fn directed(&self, order: Ordering) -> Ordering {
        match self.query.is_descending {
            true => order.reverse(),
            false => order,
        }
    }

    fn keep_first(&mut self) {
        let mut found = std::mem::take(&mut self.found);
        found.sort_unstable_by(|one, other| self.directed(one.view().cmp(&other.view())));
        self.has_more |= found.len() > self.query.limit;
        found.truncate(self.query.limit);
        let last = found.last().filter(|_| found.len() == self.query.limit);
        self.last = last.cloned();
        self.found = found;
    }
}

/// The place of a device in the order of the pages.
#[derive(Clone)]
struct PageKey {
    number: u64,
    text: Vec<u8>,
    aor: Vec<u8>,
}

impl PageKey {
    /// Of the `next` of a page. What nobody has written begins somewhere.
    fn parse(after: &str, order: DeviceOrder) -> Self {
        let (key, aor) = after.rsplit_once('|').unwrap_or(("", after));
        let is_text = matches!(order, DeviceOrder::Aor | DeviceOrder::UserAgent);
        let (number, text) = match is_text {
            true => (0, key),
            false => (key.parse().unwrap_or(0), ""),
        };
        Self {
            number,
            text: text.into(),
            aor: aor.into(),
        }
    }

    fn written(&self, order: DeviceOrder) -> String {
        let aor = String::from_utf8_lossy(&self.aor);
        format!("{}|{aor}", self.sort_key(order))
    }

    /// Numbers have as many digits as any may have, so that whoever compares texts finds the order of the numbers.
    fn sort_key(&self, order: DeviceOrder) -> String {
        match order {
            DeviceOrder::Aor => String::new(),
            DeviceOrder::UserAgent => String::from_utf8_lossy(&self.text).into_owned(),
            _ => format!("{:020}", self.number),
        }
    }

    fn view(&self) -> KeyView<'_> {
        KeyView {
            number: self.number,
            text: &self.text,
            aor: &self.aor,
        }
    }
}

/// The same in the memory of a row, since most devices are compared and not taken.
#[derive(Clone, Copy)]
struct KeyView<'r> {
    number: u64,
    text: &'r [u8],
    aor: &'r [u8],
}

impl<'r> KeyView<'r> {
    /// By moments, which do not move between two pages, and not by the time that is left.
    fn of(row: &IndexedDevice<'r>, order: DeviceOrder) -> Self {
        let figures = row.figures;
        let number = match order {
            DeviceOrder::Aor | DeviceOrder::UserAgent => 0,
            DeviceOrder::LastSeen => figures.seen_ns,
            DeviceOrder::Expires => figures.end_ns.unwrap_or(0),
            DeviceOrder::Contacts => figures.contact_count.into(),
        };
        Self {
            number,
            text: match order {
                DeviceOrder::UserAgent => row.user_agent,
                _ => &[],
            },
            aor: row.aor,
        }
    }

    fn to_owned(self) -> PageKey {
        PageKey {
            number: self.number,
            text: self.text.into(),
            aor: self.aor.into(),
        }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let by_text = || compare(self.text, other.text);
        let by_number = self.number.cmp(&other.number);
        by_number
            .then_with(by_text)
            .then_with(|| compare(self.aor, other.aor))
    }
}

/// An empty text may have an address where no memory is. The C library compares it by a masked read, which reads nothing
/// there, but for which some processors take 150 ns: five times as long as for all the rest of a row.
fn compare(one: &[u8], other: &[u8]) -> Ordering {
    match one.is_empty() || other.is_empty() {
        true => one.len().cmp(&other.len()),
        false => one.cmp(other),
    }
}
