/// Where a queued entity lies, until it is picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot(u32);

/// Storage for the queued entities, at stable places that are reused.
#[derive(Debug)]
pub(super) struct Slots<E> {
    entities: Vec<Option<E>>,
    free: Vec<Slot>,
}

impl<E> Slots<E> {
    pub(super) fn new() -> Self {
        Self {
            entities: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, entity: E) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        self.entities[slot.0 as usize] = Some(entity);
        slot
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&E> {
        self.entities.get(slot.0 as usize)?.as_ref()
    }

    pub(super) fn take(&mut self, slot: Slot) -> Option<E> {
        let entity = self.entities.get_mut(slot.0 as usize)?.take()?;
        self.free.push(slot);
        Some(entity)
    }

    fn grow(&mut self) -> Slot {
        let index = u32::try_from(self.entities.len()).expect("below four billion entities");
        self.entities.push(None);
        Slot(index)
    }
}
