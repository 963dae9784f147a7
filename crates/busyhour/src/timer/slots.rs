use super::place::{Place, Places};
use std::mem;

/// Names one timer of a [`Queue`](super::Queue) as long as it is there.
///
/// A handle costs 8 bytes and never names a later timer: the place it points
/// at counts its generations, and is retired when they are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

impl Handle {
    /// Names nothing, ever.
    pub(super) const NEVER: Self = Self {
        slot: u32::MAX,
        generation: u32::MAX,
    };

    pub(super) fn slot(self) -> u32 {
        self.slot
    }
}

impl<T> Places for Slots<T> {
    #[inline]
    fn put(&mut self, slot: u32, place: Place) {
        let (index, offset) = split(slot);
        self.pages[index].slots[offset].link = place.to_link();
    }
}

/// Where the timers' values live: pages of slots at fixed places, so that a
/// growing queue never copies and an emptied page goes back to the allocator.
#[derive(Debug)]
pub(super) struct Slots<T> {
    pages: Vec<Page<T>>,
    /// Pages with a vacant slot; the last one serves the next claim.
    open: Vec<u32>,
    /// A page that was seen empty and kept, so that a queue around a page's
    /// edge does not allocate back and forth.
    idle: Option<u32>,
}

#[derive(Debug)]
struct Page<T> {
    /// Empty while the page's memory is given back.
    slots: Box<[Slot<T>]>,
    /// The first vacant slot, chained by `Slot::link`.
    vacant: u32,
    occupied: u32,
    /// Above every generation used in the memory given back.
    generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    /// Occupied: the owner's note where the timer waits. Vacant: the next vacant slot.
    link: u32,
    value: Option<T>,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self {
            pages: Vec::new(),
            open: Vec::new(),
            idle: None,
        }
    }

    /// Puts a value into a vacant slot.
    #[inline]
    pub(super) fn claim(&mut self, value: T) -> Handle {
        let index = match self.open.last() {
            Some(&index) if self.pages[index as usize].vacant != NONE => index,
            _ => self.open_page(),
        };
        let page = &mut self.pages[index as usize];
        let offset = page.vacant;
        let slot = &mut page.slots[offset as usize % PAGE_SLOTS];
        page.vacant = mem::replace(&mut slot.link, Place::Held.to_link());
        page.occupied += 1;
        slot.value = Some(value);
        let generation = slot.generation;
        if page.vacant == NONE {
            self.open.pop();
        }
        let slot = index * PAGE_SLOTS as u32 + offset;
        Handle { slot, generation }
    }

    /// Takes the value out; `None` if the handle is out of date.
    #[inline]
    pub(super) fn release(&mut self, handle: Handle) -> Option<T> {
        let (index, offset) = split(handle.slot);
        let page = self.pages.get_mut(index)?;
        let slot = page.slots.get_mut(offset)?;
        if slot.generation != handle.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation += 1;
        page.occupied -= 1;
        // A slot whose generations are used up is left out of the chain for good.
        if slot.generation < GENERATION_MAX {
            slot.link = mem::replace(&mut page.vacant, offset as u32);
            if slot.link == NONE {
                self.open.push(index as u32);
            }
        }
        if page.occupied == 0 {
            self.rest(index as u32);
        }
        Some(value)
    }

    /// Takes the value of an occupied slot out.
    #[inline]
    pub(super) fn release_slot(&mut self, slot: u32) -> Option<T> {
        self.release(self.handle(slot)?)
    }

    #[inline]
    pub(super) fn get(&self, handle: Handle) -> Option<&T> {
        self.occupied(handle)?.value.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut T> {
        let (index, offset) = split(handle.slot);
        let slot = self.pages.get_mut(index)?.slots.get_mut(offset)?;
        match slot.generation == handle.generation {
            true => slot.value.as_mut(),
            false => None,
        }
    }

    /// The handle that names what `slot` holds now.
    #[inline]
    pub(super) fn handle(&self, slot: u32) -> Option<Handle> {
        let (index, offset) = split(slot);
        let entry = self.pages.get(index)?.slots.get(offset)?;
        let generation = entry.generation;
        entry.value.is_some().then_some(Handle { slot, generation })
    }

    /// Every occupied slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        let slots = self.pages.iter().enumerate().flat_map(|(index, page)| {
            let first = index * PAGE_SLOTS;
            (first..).zip(page.slots.iter())
        });
        slots.filter_map(|(slot, entry)| {
            let slot = slot as u32;
            let generation = entry.generation;
            let value = entry.value.as_ref()?;
            Some((Handle { slot, generation }, value))
        })
    }

    /// The note that [`Places::put`] left for what `handle` names.
    #[inline]
    pub(super) fn place(&self, handle: Handle) -> Option<Place> {
        let slot = self.occupied(handle)?;
        Some(Place::from_link(slot.link))
    }

    fn occupied(&self, handle: Handle) -> Option<&Slot<T>> {
        let (index, offset) = split(handle.slot);
        let slot = self.pages.get(index)?.slots.get(offset)?;
        let current = slot.generation == handle.generation && slot.value.is_some();
        current.then_some(slot)
    }

    /// Brings a page with vacant slots to the end of `open`.
    #[cold]
    fn open_page(&mut self) -> u32 {
        let index = match self.open.last() {
            Some(&index) => index,
            None => self.new_page(),
        };
        self.pages[index as usize].furnish();
        index
    }

    fn new_page(&mut self) -> u32 {
        let index = self.pages.len() as u32;
        assert!(
            index < PAGES_MAX,
            "a timer queue holds fewer than 2^31 timers"
        );
        self.pages.push(Page {
            slots: Box::default(),
            vacant: NONE,
            occupied: 0,
            generation: 0,
        });
        self.open.push(index);
        index
    }

    /// Keeps the page that was emptied just now and strips the one kept before.
    #[cold]
    fn rest(&mut self, index: u32) {
        let before = self.idle.replace(index);
        if let Some(before) = before.filter(|&before| before != index) {
            self.pages[before as usize].strip();
        }
    }
}

impl<T> Page<T> {
    /// Gets memory for the page's slots, all vacant.
    fn furnish(&mut self) {
        let generation = self.generation;
        self.slots = (0..PAGE_SLOTS as u32)
            .map(|offset| Slot {
                generation,
                link: if offset + 1 < PAGE_SLOTS as u32 {
                    offset + 1
                } else {
                    NONE
                },
                value: None,
            })
            .collect();
        self.vacant = 0;
    }

    /// Gives the memory back if no slot is occupied. The generations go on
    /// above the ones used so far, so that old handles stay out of date.
    fn strip(&mut self) {
        if self.occupied > 0 {
            return;
        }
        let used = self.slots.iter().map(|slot| slot.generation).max();
        let Some(generation) = used.filter(|&generation| generation < GENERATION_MAX) else {
            return;
        };
        self.generation = generation;
        self.slots = Box::default();
        self.vacant = NONE;
    }
}

#[inline]
fn split(slot: u32) -> (usize, usize) {
    (slot as usize / PAGE_SLOTS, slot as usize % PAGE_SLOTS)
}

const PAGE_SLOTS: usize = 256;
/// Slot numbers stay below 2³¹, so that a place has two bits to spare.
const PAGES_MAX: u32 = (1 << 31) / PAGE_SLOTS as u32;
const GENERATION_MAX: u32 = u32::MAX;
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_handle_stays_out_of_date_when_its_page_comes_back() {
        let mut slots = Slots::new();
        let handles: Vec<_> = (0..3 * PAGE_SLOTS).map(|n| slots.claim(n)).collect();
        for &handle in &handles {
            assert!(slots.release(handle).is_some());
        }
        let resident = slots.pages.iter().filter(|page| !page.slots.is_empty());
        assert_eq!(resident.count(), 1);
        (0..3 * PAGE_SLOTS).for_each(|n| {
            slots.claim(n);
        });
        assert!(handles.iter().all(|&handle| slots.get(handle).is_none()));
        assert!(
            handles
                .iter()
                .all(|&handle| slots.release(handle).is_none())
        );
        assert_eq!(slots.iter().count(), 3 * PAGE_SLOTS);
    }

    #[test]
    fn a_slot_with_no_generation_left_is_retired() {
        let mut slots = Slots::new();
        let first = slots.claim(());
        slots.release(first);
        slots.pages[0].slots[0].generation = GENERATION_MAX - 1;
        let last = slots.claim(());
        assert_eq!(last.slot, first.slot);
        slots.release(last);
        let other = slots.claim(());
        assert_ne!(other.slot, last.slot);
        assert!(slots.get(last).is_none());
    }
}
