//! Watcher information: who watches an address of record in one package (RFC 3857), and the
//! body that tells it (RFC 3858).
//!
//! What a body says of a watcher follows from the bodies before it: who is new is told as
//! active, who has ended as terminated, with the event that ended it, and who was told is not
//! told again. So conflated states lose nothing, and a list that is longer than a body may be
//! is told in several, the first of which is full.

use crate::registrar::seconds;
use crate::watch::{Package, body::xml::Escaped};
use busyhour::{
    bus::{Event, Name},
    clock::Instant,
};
use std::{collections::BTreeMap, fmt::Write, sync::Arc};

/// Who watches a resource, as it goes over the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatcherInfo {
    /// The address of record that is watched.
    pub resource: Name,
    /// In which package.
    pub package: Package,
    /// Its watchers in the order in which they subscribed, with those that have ended lately.
    pub watchers: Arc<[ListedWatcher]>,
}

/// One subscription to a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWatcher {
    /// Tells subscriptions apart.
    pub id: u64,
    /// Who subscribed.
    pub uri: Arc<str>,
    /// When it began; `None` where that was before a restart.
    pub opened_at: Option<Instant>,
    /// When it ends if it is not refreshed.
    pub expires_at: Instant,
    /// What ended it.
    pub ended: Option<WatcherEvent>,
}

/// What ends the subscription of a watcher (RFC 3857 §4.7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatcherEvent {
    /// The server wants it to subscribe again.
    Deactivated,
    /// It may not watch any more.
    Rejected,
    /// It was not refreshed, or unsubscribed, or cannot be told anything.
    Timeout,
    /// What it watched is not there any more.
    NoResource,
}

/// What a subscription has told of watchers, which decides what it tells next.
#[derive(Debug, Default)]
pub(in crate::watch) struct ToldWatchers {
    /// By the watcher's id; `None` before a full body.
    told: Option<BTreeMap<u64, ToldWatcher>>,
    /// What becomes of it when the body that was written last leaves.
    written: BTreeMap<u64, ToldWatcher>,
}

#[derive(Debug, Clone)]
struct ToldWatcher {
    uri: Arc<str>,
    has_ended: bool,
}

/// How a body is to be written.
#[derive(Debug, Clone, Copy)]
pub(in crate::watch) struct WatcherInfoWriting<'w> {
    pub(in crate::watch) info: &'w WatcherInfo,
    pub(in crate::watch) version: u32,
    /// Bytes of it; one watcher is told in any case.
    pub(in crate::watch) len_max: usize,
    /// A body without watchers is wanted, too.
    pub(in crate::watch) wants_empty: bool,
    pub(in crate::watch) now: Instant,
}

impl WatcherInfo {
    /// Whether bodies say the same of both: they say more only when they are written anyhow.
    pub(in crate::watch) fn tells_the_same(&self, other: &Self) -> bool {
        let told = |watcher: &ListedWatcher| (watcher.id, watcher.ended);
        let theirs = other.watchers.iter().map(told);
        self.watchers.iter().map(told).eq(theirs)
    }
}

impl Event for WatcherInfo {
    type Key = Name;

    fn key(&self) -> &Name {
        &self.resource
    }
}

impl WatcherEvent {
    fn name(self) -> &'static str {
        match self {
            Self::Deactivated => "deactivated",
            Self::Rejected => "rejected",
            Self::Timeout => "timeout",
            Self::NoResource => "noresource",
        }
    }
}

impl ToldWatchers {
    /// The next body is full.
    pub(in crate::watch) fn forget(&mut self) {
        self.told = None;
    }

    /// The body that was written last has left.
    pub(in crate::watch) fn has_left(&mut self, info: &WatcherInfo) {
        let told = self.told.get_or_insert_default();
        told.append(&mut self.written);
        let is_listed = |id: &u64| info.watchers.iter().any(|watcher| watcher.id == *id);
        told.retain(|id, watcher| !watcher.has_ended || is_listed(id));
    }

    /// The next body, and whether another one has to follow; `None` if there is nothing to
    /// tell.
    pub(in crate::watch) fn write(
        &mut self,
        writing: WatcherInfoWriting<'_>,
    ) -> Option<(String, bool)> {
        let WatcherInfoWriting { info, now, .. } = writing;
        self.written.clear();
        let extent = match self.told {
            Some(_) => "partial",
            None => "full",
        };
        let mut body = head(&writing, extent);
        let (mut count, mut owes_more) = (0, false);
        for watcher in &*info.watchers {
            let Some(is_told) = self.is_told(watcher) else {
                continue;
            };
            let element = match is_told {
                true => String::new(),
                false => element(watcher, now),
            };
            if count > 0 && body.len() + element.len() + TAIL.len() > writing.len_max {
                owes_more = true;
                break;
            }
            count += usize::from(!is_told);
            body.push_str(&element);
            self.written.insert(watcher.id, ToldWatcher::of(watcher));
        }
        for (id, uri) in self.gone(info) {
            let element = terminated(id, &uri, WatcherEvent::Timeout);
            if owes_more || count > 0 && body.len() + element.len() + TAIL.len() > writing.len_max {
                owes_more = true;
                break;
            }
            count += 1;
            body.push_str(&element);
            let has_ended = true;
            self.written.insert(id, ToldWatcher { uri, has_ended });
        }
        if count == 0 && self.told.is_some() && !writing.wants_empty {
            return None;
        }
        body.push_str(TAIL);
        Some((body, owes_more))
    }

    /// Whether a watcher needs no element; `None` if nothing is to be noted of it either. In a
    /// full body the absence of one that has ended says so.
    fn is_told(&self, watcher: &ListedWatcher) -> Option<bool> {
        let Some(told) = &self.told else {
            return Some(watcher.ended.is_some());
        };
        let has_ended = told.get(&watcher.id).map(|told| told.has_ended);
        let is_told = has_ended.is_some_and(|told| told || watcher.ended.is_none());
        (!is_told).then_some(false)
    }

    /// Watchers that are not listed any more, and were told as active last.
    fn gone(&self, info: &WatcherInfo) -> Vec<(u64, Arc<str>)> {
        let listed: BTreeMap<u64, ()> = info.watchers.iter().map(|one| (one.id, ())).collect();
        let told = self.told.iter().flatten();
        let gone = told.filter(|(id, told)| !told.has_ended && !listed.contains_key(id));
        gone.map(|(id, told)| (*id, told.uri.clone())).collect()
    }
}

impl ToldWatcher {
    fn of(watcher: &ListedWatcher) -> Self {
        Self {
            uri: watcher.uri.clone(),
            has_ended: watcher.ended.is_some(),
        }
    }
}

fn head(writing: &WatcherInfoWriting<'_>, extent: &str) -> String {
    let WatcherInfoWriting { info, version, .. } = writing;
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
         <watcherinfo xmlns=\"urn:ietf:params:xml:ns:watcherinfo\" version=\"{version}\" \
         state=\"{extent}\">\r\n\
         <watcher-list resource=\"{}\" package=\"{}\">\r\n",
        Escaped(&info.resource),
        info.package.name()
    )
}

fn element(watcher: &ListedWatcher, now: Instant) -> String {
    if let Some(event) = watcher.ended {
        return terminated(watcher.id, &watcher.uri, event);
    }
    let mut element = format!(
        "<watcher id=\"w{}\" status=\"active\" event=\"subscribe\" expiration=\"{}\"",
        watcher.id,
        seconds(watcher.expires_at - now)
    );
    if let Some(opened_at) = watcher.opened_at {
        // Writing to a String can't fail.
        let _ = write!(
            element,
            " duration-subscribed=\"{}\"",
            (now - opened_at).as_secs()
        );
    }
    let _ = write!(element, ">{}</watcher>\r\n", Escaped(&watcher.uri));
    element
}

fn terminated(id: u64, uri: &str, event: WatcherEvent) -> String {
    let (event, uri) = (event.name(), Escaped(uri));
    format!("<watcher id=\"w{id}\" status=\"terminated\" event=\"{event}\">{uri}</watcher>\r\n")
}

const TAIL: &str = "</watcher-list>\r\n</watcherinfo>\r\n";
