//! A page of a list of the whole cluster, from the pages of its nodes.

use super::asked_list::{AskedList, ListOrder};
use axum::{
    Json,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

/// What came from nodes so far. Each has given the first of its entries behind the same place, at least as many as the
/// page may have, or all.
pub(super) struct GatheredPage {
    list: &'static AskedList,
    limit: usize,
    is_descending: bool,
    entries: Vec<GatheredEntry>,
    count: u64,
    /// The last address of record up to which all entries are here.
    complete_until: Option<String>,
    has_more: bool,
    unanswered: Vec<String>,
}

struct GatheredEntry {
    place: (u64, String, String),
    value: Value,
}

impl GatheredPage {
    pub(super) fn new(list: &'static AskedList, limit: usize, is_descending: bool) -> Self {
        Self {
            list,
            limit,
            is_descending,
            entries: Vec::new(),
            count: 0,
            complete_until: None,
            has_more: false,
            unanswered: Vec::new(),
        }
    }

    /// The page of a node, or `None` if it gave none.
    pub(super) fn take(&mut self, node: &str, page: Option<Map<String, Value>>) {
        let Some(mut page) = page else {
            return self.unanswered.push(node.to_owned());
        };
        let Some(Value::Array(entries)) = page.remove(self.list.kind) else {
            return self.unanswered.push(node.to_owned());
        };
        let mut keys = match page.remove(SORT_KEYS) {
            Some(Value::Array(keys)) => keys.into_iter(),
            _ => Vec::new().into_iter(),
        };
        for mut value in entries {
            let key = keys.next();
            let place = self.place(&value, key.as_ref().and_then(Value::as_str));
            if let Some(fields) = value.as_object_mut() {
                fields.insert("node".to_owned(), json!(node));
            }
            self.entries.push(GatheredEntry { place, value });
        }
        let count = self.list.count.and_then(|count| page.get(count)?.as_u64());
        self.count += count.unwrap_or(0);
        self.note_next(page.get("next").unwrap_or(&Value::Null));
    }

    fn note_next(&mut self, next: &Value) {
        self.has_more |= !next.is_null();
        if let Some(next) = next.as_str() {
            let until = self.complete_until.take();
            self.complete_until = Some(match until {
                Some(until) if until.as_str() <= next => until,
                _ => next.to_owned(),
            });
        }
    }

    fn place(&self, entry: &Value, key: Option<&str>) -> (u64, String, String) {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| entry[name].as_u64().unwrap_or(0);
        match self.list.order {
            ListOrder::WholeAors => (0, String::new(), text("aor")),
            ListOrder::Keys => (0, key.unwrap_or_default().to_owned(), text("aor")),
            ListOrder::Ids => (number("id"), String::new(), String::new()),
            ListOrder::Largest(name) => (number(name), String::new(), String::new()),
        }
    }

    fn order(&self, one: &GatheredEntry, other: &GatheredEntry) -> Ordering {
        let order = one.place.cmp(&other.place);
        let is_descending = match self.list.order {
            ListOrder::Largest(_) => true,
            ListOrder::Keys => self.is_descending,
            ListOrder::WholeAors | ListOrder::Ids => false,
        };
        match is_descending {
            true => order.reverse(),
            false => order,
        }
    }

    /// The entries of the page, and the `next` of it.
    fn cut(&mut self) -> (Vec<GatheredEntry>, Value) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_by(|one, other| self.order(one, other));
        let len = match self.list.order {
            ListOrder::WholeAors => self.len_of_whole_aors(&entries),
            _ => entries.len().min(self.limit),
        };
        self.has_more |= len < entries.len();
        entries.truncate(len);
        let last = entries.last().filter(|_| self.has_more);
        let next = last.map_or(Value::Null, |last| {
            let (number, key, aor) = &last.place;
            match self.list.order {
                ListOrder::WholeAors => json!(aor),
                ListOrder::Keys => json!(format!("{key}|{aor}")),
                ListOrder::Ids => json!(number),
                ListOrder::Largest(_) => Value::Null,
            }
        });
        (entries, next)
    }

    /// As many as make up the page, and the rest of the last one's.
    fn len_of_whole_aors(&self, entries: &[GatheredEntry]) -> usize {
        let aor = |at: usize| entries[at].place.2.as_str();
        let until = self.complete_until.as_deref();
        let complete =
            entries.partition_point(|one| until.is_none_or(|until| one.place.2.as_str() <= until));
        let mut len = complete.min(self.limit);
        while len > 0 && len < complete && aor(len) == aor(len - 1) {
            len += 1;
        }
        len
    }
}

impl GatheredPage {
    fn into_fields(mut self) -> Map<String, Value> {
        let (entries, next) = self.cut();
        let entries = entries.into_iter().map(|entry| entry.value).collect();
        let mut page = Map::new();
        page.insert(self.list.kind.to_owned(), Value::Array(entries));
        if let Some(count) = self.list.count {
            page.insert(count.to_owned(), json!(self.count));
        }
        if !matches!(self.list.order, ListOrder::Largest(_)) {
            page.insert("next".to_owned(), next);
        }
        if !self.unanswered.is_empty() {
            page.insert(UNANSWERED.to_owned(), json!(self.unanswered));
        }
        page
    }
}

impl IntoResponse for GatheredPage {
    fn into_response(self) -> Response {
        Json(self.into_fields()).into_response()
    }
}

/// Beside the entries of a node, in their order.
const SORT_KEYS: &str = "sort_keys";
const UNANSWERED: &str = "unanswered_nodes";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::across::asked_list::LISTS;

    /// An entry of a list: its node, its address of record and a key.
    #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
    struct Entry {
        key: String,
        aor: String,
        contact: u64,
        node: usize,
    }

    fn list(kind: &str) -> &'static AskedList {
        LISTS.iter().find(|list| list.kind == kind).unwrap()
    }

    /// The page that a node gives.
    fn part(
        list: &AskedList,
        all: &[Entry],
        node: usize,
        after: &Value,
        limit: usize,
    ) -> Map<String, Value> {
        let own: Vec<&Entry> = all.iter().filter(|one| one.node == node).collect();
        let is_behind = |one: &&&Entry| match (list.order, after) {
            (_, Value::Null) => true,
            (ListOrder::WholeAors, after) => one.aor.as_str() > after.as_str().unwrap(),
            (ListOrder::Ids, after) => one.contact > after.as_u64().unwrap(),
            (_, after) => format!("{}|{}", one.key, one.aor).as_str() > after.as_str().unwrap(),
        };
        let behind: Vec<&&Entry> = own.iter().filter(is_behind).collect();
        let mut len = behind.len().min(limit);
        if list.order == ListOrder::WholeAors {
            while len > 0 && len < behind.len() && behind[len].aor == behind[len - 1].aor {
                len += 1;
            }
        }
        let next = match (len < behind.len(), list.order) {
            (false, _) => Value::Null,
            (true, ListOrder::WholeAors) => json!(behind[len - 1].aor),
            (true, ListOrder::Ids) => json!(behind[len - 1].contact),
            (true, _) => json!(format!("{}|{}", behind[len - 1].key, behind[len - 1].aor)),
        };
        let entries = behind[..len].iter();
        let keys: Vec<_> = entries.clone().map(|one| one.key.clone()).collect();
        let entries: Vec<_> = entries
            .map(|one| json!({ "aor": one.aor, "contact": one.contact, "id": one.contact }))
            .collect();
        let page = json!({ list.kind: entries, "sort_keys": keys, "next": next, "match_count": own.len() });
        page.as_object().unwrap().clone()
    }

    /// All pages of three nodes, one after the other.
    fn pages(list: &'static AskedList, all: &[Entry], limit: usize) -> Vec<u64> {
        let (mut after, mut found) = (Value::Null, Vec::new());
        loop {
            let mut page = GatheredPage::new(list, limit, false);
            for node in 0..3 {
                page.take(
                    &format!("n{node}"),
                    Some(part(list, all, node, &after, limit)),
                );
            }
            let page = page.into_fields();
            assert!(!page.contains_key("sort_keys") && !page.contains_key("unanswered_nodes"));
            if list.count.is_some() {
                assert_eq!(page["match_count"], all.len());
            }
            let entries = page[list.kind].as_array().unwrap();
            for entry in entries {
                let contact = entry["contact"].as_u64().unwrap();
                let known = all.iter().find(|one| one.contact == contact).unwrap();
                assert_eq!(entry["node"], format!("n{}", known.node));
                found.push(contact);
            }
            after = page["next"].clone();
            if after.is_null() {
                return found;
            }
            assert!(entries.len() >= limit, "a page before the last one is full");
        }
    }

    /// Beside one list of all, cut as it comes.
    #[test]
    fn the_pages_of_three_nodes_are_those_of_one_list() {
        let mut random = 7_u64;
        let mut below = |limit: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % limit
        };
        for _ in 0..200 {
            let count = below(40);
            let mut all: Vec<Entry> = (0..count)
                .map(|contact| {
                    let aor = below(20);
                    Entry {
                        key: format!("{:02}", below(4)),
                        aor: format!("sip:u{aor:02}@a"),
                        contact: contact + 1,
                        node: (aor % 3) as usize,
                    }
                })
                .collect();
            let limit = 1 + below(7) as usize;
            all.sort_by(|one, other| (&one.aor, one.contact).cmp(&(&other.aor, other.contact)));
            let expected: Vec<_> = all.iter().map(|one| one.contact).collect();
            assert_eq!(pages(list("bindings"), &all, limit), expected);
            all.sort_by_key(|one| one.contact);
            let expected: Vec<_> = all.iter().map(|one| one.contact).collect();
            assert_eq!(pages(list("watchers"), &all, limit), expected);
            all.sort_by(|one, other| (&one.key, &one.aor).cmp(&(&other.key, &other.aor)));
            all.dedup_by(|one, other| one.aor == other.aor && one.key == other.key);
            let expected: Vec<_> = all.iter().map(|one| one.contact).collect();
            assert_eq!(pages(list("devices"), &all, limit), expected);
        }
    }

    #[test]
    fn the_largest_come_first_and_who_is_silent_is_named() {
        let mut page = GatheredPage::new(list("calls"), 3, false);
        let given = |since: &[u64]| {
            let calls: Vec<_> = since
                .iter()
                .map(|since| json!({ "since_ns": since }))
                .collect();
            let page = json!({ "calls": calls, "call_count": since.len() });
            page.as_object().cloned()
        };
        page.take("alpha", given(&[9, 5, 1]));
        page.take("beta", None);
        page.take("gamma", given(&[7, 6]));
        page.take("delta", Some(Map::new()));
        let page = Value::Object(page.into_fields());
        let since: Vec<_> = page["calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["since_ns"])
            .collect();
        assert_eq!(since, [9, 7, 6]);
        assert_eq!(page["call_count"], 5);
        assert_eq!(page["unanswered_nodes"], json!(["beta", "delta"]));
    }

    #[test]
    fn a_list_may_begin_with_the_last() {
        let mut page = GatheredPage::new(list("devices"), 2, true);
        for (node, aors) in [("alpha", ["d", "a"]), ("beta", ["c", "b"])] {
            let devices: Vec<_> = aors.iter().map(|aor| json!({ "aor": aor })).collect();
            let part = json!({ "devices": devices, "sort_keys": ["", ""], "match_count": 2, "next": null });
            page.take(node, part.as_object().cloned());
        }
        let page = Value::Object(page.into_fields());
        assert_eq!(page["devices"][0]["aor"], "d");
        assert_eq!(page["devices"][1]["aor"], "c");
        assert_eq!(page["next"], "|c");
    }
}
