//! What one watcher of a list has been told, and what it has to be told.
//!
//! The states themselves are elsewhere ([`ResourceStates`]); the view keeps, for each resource,
//! a fingerprint of the body that was told last and how many there were. So a change that shows
//! nothing new in this package is not told, and a resource costs a view [`RESOURCE_BYTES`] bytes.
//!
//! A change costs the view the same whatever the length of the list: it puts a number into a
//! queue, and the next NOTIFY takes from there. Only the full state after a SUBSCRIBE, and after
//! the list itself has changed, visits every resource.

use super::rlmi::write_announced;
use crate::watch::{
    ListForm, ListedResource, Package, ResourceList, ResourceStanding, ResourceStates, Told,
    list::{index_queue::IndexQueue, rlmi::Multipart},
};
use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

/// The state of a list as one watcher knows it.
#[derive(Debug)]
pub(in crate::watch) struct ListView {
    list: Arc<ResourceList>,
    states: Arc<dyn ResourceStates>,
    /// By place.
    told: Box<[ToldResource]>,
    changed: IndexQueue,
    /// The next NOTIFY begins the full state.
    is_full_owed: bool,
    /// What the last NOTIFY told, until it has left.
    last: LastTold,
}

#[derive(Debug, Clone, Copy, Default)]
struct ToldResource {
    /// Of the body without its version; 0 where nothing was told.
    fingerprint: u64,
    /// Bodies of this resource so far.
    version: u32,
}

#[derive(Debug, Default)]
struct LastTold {
    is_full: bool,
    /// The places, and what was told of each before.
    places: Vec<(u32, ToldResource)>,
}

/// What a NOTIFY tells of a list.
pub(in crate::watch) struct ListBody {
    pub(in crate::watch) content_type: String,
    pub(in crate::watch) body: Vec<u8>,
}

/// How a NOTIFY of a list is written.
#[derive(Clone, Copy)]
pub(in crate::watch) struct ListWriting<'b> {
    pub(in crate::watch) package: Package,
    pub(in crate::watch) boundary: &'b str,
    /// NOTIFYs of the subscription before this one.
    pub(in crate::watch) version: u32,
    pub(in crate::watch) form: ListForm,
    /// Bytes for the body; it has one resource at least.
    pub(in crate::watch) len_max: usize,
    /// A body without resources is wanted rather than none.
    pub(in crate::watch) wants_empty: bool,
}

impl ListView {
    /// Nothing was told yet; no body of a resource had this version or a higher one (RFC 4235
    /// §4.2).
    pub(in crate::watch) fn new(
        list: Arc<ResourceList>,
        states: Arc<dyn ResourceStates>,
        version: u32,
    ) -> Self {
        let count = list.resources.len();
        let untold = ToldResource {
            fingerprint: 0,
            version,
        };
        Self {
            told: vec![untold; count].into(),
            changed: IndexQueue::full(count),
            is_full_owed: true,
            last: LastTold::default(),
            list,
            states,
        }
    }

    /// The resource at this place may have another state; `false` if that waits to be told
    /// anyhow.
    pub(in crate::watch) fn changed(&mut self, place: u32) -> bool {
        (place as usize) < self.told.len() && self.changed.push(place)
    }

    /// Everything has to be told again (RFC 4662 §4.5).
    pub(in crate::watch) fn tell_all(&mut self) {
        self.is_full_owed = true;
        self.changed.fill(self.told.len());
        self.told.iter_mut().for_each(|told| told.fingerprint = 0);
    }

    /// Whether something may have to be told.
    pub(in crate::watch) fn owes(&self) -> bool {
        self.is_full_owed || !self.changed.is_empty()
    }

    /// The next body; `None` if no resource shows anything new.
    pub(in crate::watch) fn write(&mut self, writing: ListWriting<'_>) -> Option<ListBody> {
        let list = self.list.clone();
        let mut multipart = Multipart::new(&list, writing.boundary, writing.version, writing.form);
        self.last.is_full = self.is_full_owed;
        self.last.places.clear();
        let mut piece = Piece::default();
        while let Some(place) = self.changed.first() {
            let before = self.told[place as usize];
            let is_new = self.write_piece(place, writing.package, &multipart, &mut piece);
            if is_new {
                let len = multipart.len_with(piece.resource.len(), piece.part.len());
                if len > writing.len_max && !self.last.places.is_empty() {
                    break;
                }
                multipart.add(&piece.resource, &piece.part);
                self.told[place as usize] = piece.told;
                self.last.places.push((place, before));
            }
            self.changed.pop();
        }
        if self.last.places.is_empty() && !self.is_full_owed && !writing.wants_empty {
            return None;
        }
        if self.is_full_owed {
            self.announce_rest(&mut multipart, writing.len_max);
        }
        let mut body = Vec::new();
        multipart.write(self.is_full_owed, &mut body);
        self.is_full_owed = false;
        Some(ListBody {
            content_type: multipart.content_type(),
            body,
        })
    }

    /// The full state names all resources, also those whose states follow, if that fits.
    fn announce_rest(&self, multipart: &mut Multipart<'_>, len_max: usize) {
        let mut rest = Vec::new();
        for place in self.changed.iter() {
            write_announced(&mut rest, &self.list.resources[place as usize]);
            if multipart.len_with(rest.len(), 0) > len_max {
                return;
            }
        }
        multipart.announce(&rest);
    }

    /// Writes what is to be told of a resource; `false` if it was told the same before.
    fn write_piece(
        &self,
        place: u32,
        package: Package,
        multipart: &Multipart<'_>,
        piece: &mut Piece,
    ) -> bool {
        let resource = &self.list.resources[place as usize];
        let told = self.told[place as usize];
        piece.clear();
        self.write_state(place, resource, package, told.version, &mut piece.body);
        let fingerprint = match resource.standing {
            ResourceStanding::Watched => fingerprint(&piece.body, package, told.version),
            ResourceStanding::NotFound | ResourceStanding::Rejected => 1,
        };
        if fingerprint == told.fingerprint {
            return false;
        }
        multipart.write_resource(&mut piece.resource, resource, place);
        if resource.standing == ResourceStanding::Watched {
            multipart.write_part(&mut piece.part, package, place, &piece.body);
        }
        piece.told = ToldResource {
            fingerprint,
            version: told.version.wrapping_add(1),
        };
        true
    }

    fn write_state(
        &self,
        place: u32,
        resource: &ListedResource,
        package: Package,
        version: u32,
        out: &mut Vec<u8>,
    ) {
        if resource.standing != ResourceStanding::Watched {
            return;
        }
        let state = self.states.state(place as usize);
        let told = Told {
            entity: &resource.resource,
            state: state.as_ref(),
            version,
        };
        package.write_body(out, told);
    }

    /// The last NOTIFY could not be sent, and counts as never written.
    pub(in crate::watch) fn take_back(&mut self) {
        self.is_full_owed |= self.last.is_full;
        for (place, before) in self.last.places.drain(..).rev() {
            self.told[place as usize] = before;
            self.changed.push_first(place);
        }
    }
}

/// What a resource adds to a body.
#[derive(Default)]
struct Piece {
    body: Vec<u8>,
    resource: Vec<u8>,
    part: Vec<u8>,
    told: ToldResource,
}

impl Piece {
    fn clear(&mut self) {
        self.body.clear();
        self.resource.clear();
        self.part.clear();
    }
}

/// Never 0. The version in a body of dialogs is no news.
fn fingerprint(body: &[u8], package: Package, version: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    match package {
        Package::Dialog => {
            let version = format!(" version=\"{version}\"");
            let at = find(body, version.as_bytes());
            let (before, after) = body.split_at(at.unwrap_or(0));
            hasher.write(before);
            hasher.write(after.get(version.len()..).unwrap_or(after));
        }
        _ => hasher.write(body),
    }
    hasher.finish().max(2)
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len())
        .position(|window| window == wanted)
}

/// What a resource costs a view, beside its bit in the queue.
pub const RESOURCE_BYTES: usize = size_of::<ToldResource>();
