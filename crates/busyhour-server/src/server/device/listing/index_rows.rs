//! The rows of one shard of the index of devices: what a page is sorted by, and one text that a search reads.
//!
//! A row is never moved but when the shard is compacted, so rows lie in the order of their texts, and the row of a place in
//! the text is found by bisection. A row whose text changes is put behind all others; the old one is dead until half of the
//! text is.

use super::row_content::{Figures, RowContent, TextPlaces};
use foldhash::quality::FixedState;
use hashbrown::HashTable;
use memchr::memmem::Finder;
use std::hash::BuildHasher;

/// The devices of a shard, and the accounts without one.
pub(super) struct IndexRows {
    rows: Vec<IndexRow>,
    text: Vec<u8>,
    /// The living row of each address of record.
    by_aor: HashTable<u32>,
    hasher: FixedState,
    dead_bytes: usize,
    /// No contact ends before.
    first_end_ns: Option<u64>,
}

struct IndexRow {
    text_at: usize,
    places: TextPlaces,
    figures: Figures,
    is_dead: bool,
}

/// A row as a search sees it.
pub(super) struct IndexedDevice<'r> {
    /// As it is written.
    pub(super) aor: &'r [u8],
    /// The first one, in lower case.
    pub(super) user_agent: &'r [u8],
    pub(super) figures: Figures,
}

impl IndexRows {
    /// Addresses come from clients, so the seed of the `hasher` is secret.
    pub(super) fn new(hasher: FixedState) -> Self {
        Self {
            rows: Vec::new(),
            text: Vec::new(),
            by_aor: HashTable::new(),
            hasher,
            dead_bytes: 0,
            first_end_ns: None,
        }
    }

    /// The row of an address of record is this from now on.
    pub(super) fn put(&mut self, content: &RowContent) {
        let end_ns = content.figures.end_ns;
        let ends = [self.first_end_ns, end_ns];
        self.first_end_ns = ends.into_iter().flatten().min();
        if let Some(index) = self.find(content.aor()) {
            if self.text_of(&self.rows[index]) == content.text {
                self.rows[index].figures = content.figures;
                return;
            }
            self.bury(index);
        }
        self.push(content);
        self.compact_if_worth_it();
    }

    /// There is nothing with this address of record any more.
    pub(super) fn remove(&mut self, aor: &str) {
        if let Some(index) = self.find(aor.as_bytes()) {
            self.bury(index);
            self.compact_if_worth_it();
        }
    }

    /// Gives each row that has the text, or all of them.
    pub(super) fn visit<'r>(
        &'r self,
        wanted: Option<&Finder<'_>>,
        mut each: impl FnMut(IndexedDevice<'r>),
    ) {
        let Some(wanted) = wanted else {
            let living = self.rows.iter().filter(|row| !row.is_dead);
            return living.for_each(|row| each(self.shown(row)));
        };
        let mut from = 0;
        while let Some(found) = wanted.find(&self.text[from..]) {
            let place = from + found;
            let index = self.rows.partition_point(|row| row.text_at <= place) - 1;
            let row = &self.rows[index];
            from = row.text_at + row.places.text_len as usize;
            if !row.is_dead {
                each(self.shown(row));
            }
        }
    }

    /// The addresses of record with a contact that has ended by then, although nobody has said so yet.
    pub(super) fn ended(&mut self, now_ns: u64) -> Vec<String> {
        if self.first_end_ns.is_none_or(|first| first > now_ns) {
            return Vec::new();
        }
        let living = || self.rows.iter().filter(|row| !row.is_dead);
        let is_past = |row: &&IndexRow| row.figures.end_ns.is_some_and(|end| end <= now_ns);
        let ended = living().filter(is_past).map(|row| self.aor_of(row));
        let ended = ended.collect();
        let left = living().filter(|row| !is_past(row));
        self.first_end_ns = left.filter_map(|row| row.figures.end_ns).min();
        ended
    }

    /// Whether there is a row of this address of record.
    pub(super) fn has(&self, aor: &str) -> bool {
        self.find(aor.as_bytes()).is_some()
    }

    /// Every address of record.
    pub(super) fn aors(&self) -> Vec<String> {
        let living = self.rows.iter().filter(|row| !row.is_dead);
        living.map(|row| self.aor_of(row)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_aor.len()
    }

    /// What it takes of memory.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.rows.capacity() * size_of::<IndexRow>();
        rows + self.text.capacity() + self.by_aor.allocation_size()
    }

    /// Gives back what was for rows to come.
    pub(super) fn shrink(&mut self) {
        self.rows.shrink_to_fit();
        self.text.shrink_to_fit();
    }

    fn shown<'r>(&'r self, row: &IndexRow) -> IndexedDevice<'r> {
        let text = self.text_of(row);
        let TextPlaces {
            aor_len,
            agent_at,
            agent_len,
            ..
        } = row.places;
        IndexedDevice {
            aor: &text[..aor_len as usize],
            user_agent: &text[agent_at as usize..][..agent_len as usize],
            figures: row.figures,
        }
    }

    fn aor_of(&self, row: &IndexRow) -> String {
        String::from_utf8_lossy(self.shown(row).aor).into_owned()
    }

    fn text_of(&self, row: &IndexRow) -> &[u8] {
        &self.text[row.text_at..][..row.places.text_len as usize]
    }

    fn find(&self, aor: &[u8]) -> Option<usize> {
        let is_it = |index: &u32| self.shown(&self.rows[*index as usize]).aor == aor;
        let found = self.by_aor.find(self.hasher.hash_one(aor), is_it)?;
        Some(*found as usize)
    }

    fn push(&mut self, content: &RowContent) {
        let index = self.rows.len() as u32;
        make_room(&mut self.rows, 1);
        make_room(&mut self.text, content.text.len());
        self.rows.push(IndexRow {
            text_at: self.text.len(),
            places: content.places,
            figures: content.figures,
            is_dead: false,
        });
        self.text.extend_from_slice(&content.text);
        self.enter(index);
    }

    fn enter(&mut self, index: u32) {
        let (rows, text, hasher) = (&self.rows, &self.text, &self.hasher);
        let hash = |index: &u32| {
            let row = &rows[*index as usize];
            hasher.hash_one(&text[row.text_at..][..row.places.aor_len as usize])
        };
        self.by_aor.insert_unique(hash(&index), index, hash);
    }

    fn bury(&mut self, index: usize) {
        let hash = self.hasher.hash_one(self.shown(&self.rows[index]).aor);
        let is_it = |other: &u32| *other as usize == index;
        if let Ok(entry) = self.by_aor.find_entry(hash, is_it) {
            entry.remove();
        }
        self.rows[index].is_dead = true;
        self.dead_bytes += self.rows[index].places.text_len as usize;
    }

    fn compact_if_worth_it(&mut self) {
        if self.dead_bytes < DEAD_BYTES_MIN || self.dead_bytes * 2 < self.text.len() {
            return;
        }
        let mut text = Vec::with_capacity(self.text.len() - self.dead_bytes);
        let mut rows = std::mem::take(&mut self.rows);
        rows.retain_mut(|row| {
            let begin = text.len();
            if !row.is_dead {
                text.extend_from_slice(self.text_of(row));
                row.text_at = begin;
            }
            !row.is_dead
        });
        (self.rows, self.text, self.dead_bytes) = (rows, text, 0);
        self.by_aor.clear();
        (0..self.rows.len() as u32).for_each(|index| self.enter(index));
    }
}

/// By an eighth at a time: there may be gigabytes, and most of them stay as they are.
fn make_room<T>(all: &mut Vec<T>, more: usize) {
    if all.capacity() - all.len() < more {
        all.reserve_exact(more.max(all.len() / 8));
    }
}

/// Some dozens of rows.
const DEAD_BYTES_MIN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::device::listing::search::DeviceReach;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Rows of devices with such names, by their reach, since that is all that is not text.
    type Model = BTreeMap<String, DeviceReach>;

    fn put(rows: &mut IndexRows, aor: &str, reach: DeviceReach) {
        let mut content = RowContent::default();
        content.fill(aor, &[], reach);
        rows.put(&content);
    }

    fn shown(rows: &IndexRows, text: Option<&str>) -> Model {
        let finder = text.map(Finder::new);
        let mut shown = Model::new();
        rows.visit(finder.as_ref(), |row| {
            let aor = String::from_utf8(row.aor.to_vec()).expect("text");
            let before = shown.insert(aor, row.figures.reach);
            assert_eq!(before, None, "each is shown once");
        });
        shown
    }

    proptest! {
        #[test]
        fn a_search_finds_the_rows_that_were_put_last_and_not_removed(
            steps in prop::collection::vec((0..40_usize, 0..4_u8, "[a-c]{0,2}"), 0..800)
        ) {
            let mut rows = IndexRows::new(FixedState::default());
            let mut model = Model::new();
            for (number, what, text) in steps {
                // Long enough that the dead rows are worth a compaction.
                let aor = format!("sip:Abc{number}-{}@example.com", "cab".repeat(number));
                match what {
                    0 => {
                        rows.remove(&aor);
                        model.remove(&aor);
                    }
                    _ => {
                        let reach = [DeviceReach::Offline, DeviceReach::Disabled][what as usize % 2];
                        put(&mut rows, &aor, reach);
                        model.insert(aor, reach);
                    }
                }
                let has = |aor: &str| aor.to_lowercase().contains(&text);
                let wanted = model.iter().filter(|(aor, _)| has(aor));
                let wanted: Model = wanted.map(|(aor, reach)| (aor.clone(), *reach)).collect();
                let text = Some(text.as_str()).filter(|text| !text.is_empty());
                prop_assert_eq!(shown(&rows, text), wanted);
            }
            prop_assert_eq!(rows.len(), model.len());
            let living: usize = model.keys().map(|aor| 2 * aor.len() + 2).sum();
            prop_assert!(rows.text.len() <= 2 * living + DEAD_BYTES_MIN);
        }
    }
}
