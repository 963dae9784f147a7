//! A resource with a limit for all sources together and a limit for each source.

use busyhour_sip::source_of;
use foldhash::fast::RandomState;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The limits, and how much each source has taken.
pub(in crate::web) struct Places {
    all_max: usize,
    per_source_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    /// What each source has taken. The hash is seeded, since clients choose their
    /// addresses.
    by_source: HashMap<IpAddr, usize, RandomState>,
}

/// A taken amount, given back when it is dropped.
pub(in crate::web) struct Reservation {
    places: Arc<Places>,
    source: IpAddr,
    amount: usize,
}

/// Why nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::web) enum NoPlace {
    /// Everything is taken.
    Full,
    /// The source has taken its share.
    Source,
}

impl Places {
    pub(in crate::web) fn new(all_max: usize, per_source_max: usize) -> Arc<Self> {
        Arc::new(Self {
            all_max,
            per_source_max,
            taken: Mutex::default(),
        })
    }

    /// Takes this amount for a source.
    ///
    /// # Errors
    ///
    /// If not enough is left, in total or for the source.
    pub(in crate::web) fn take(
        self: &Arc<Self>,
        source: IpAddr,
        amount: usize,
    ) -> Result<Reservation, NoPlace> {
        let mut place = Reservation {
            places: self.clone(),
            source: source_of(source),
            amount: 0,
        };
        place.grow(amount).map(|()| place)
    }

    /// How much is taken, and how much there is.
    pub(in crate::web) fn in_use(&self) -> (usize, usize) {
        (self.taken().all, self.all_max)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// Takes more.
    ///
    /// # Errors
    ///
    /// As [`Places::take`]; the amount stays the same then.
    pub(in crate::web) fn grow(&mut self, amount: usize) -> Result<(), NoPlace> {
        let mut taken = self.places.taken();
        let of_source = taken.by_source.get(&self.source).copied().unwrap_or(0);
        if taken.all + amount > self.places.all_max {
            return Err(NoPlace::Full);
        }
        if of_source + amount > self.places.per_source_max {
            return Err(NoPlace::Source);
        }
        taken.all += amount;
        taken.by_source.insert(self.source, of_source + amount);
        self.amount += amount;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= self.amount;
        if let Some(of_source) = taken.by_source.get_mut(&self.source) {
            *of_source -= self.amount;
            if *of_source == 0 {
                taken.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_may_have_its_share_and_all_sources_the_whole() {
        let places = Places::new(3, 2);
        let (one, two) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut first = places.take(one, 1).ok().unwrap();
        first.grow(1).unwrap();
        assert_eq!(first.grow(1), Err(NoPlace::Source));
        let second = places.take(two, 1).ok().unwrap();
        assert_eq!(places.take(two, 1).err(), Some(NoPlace::Full));
        drop((first, second));
        assert_eq!(places.take(two, 2).err(), None);
        let taken = places.taken();
        assert_eq!((taken.all, taken.by_source.len()), (0, 0));
    }
}
