use super::Event;
use std::fmt;

/// How an event is written as a few numbers. The last event of a key is then kept in the table itself
/// as well, so that a lookup of a large cache waits for memory once and not twice.
///
/// Both functions run under no lock, as [`Event::key`] does. `unpack` must make of the words an event
/// that is equal to the one that `pack` was given; a lookup returns what it makes.
///
/// # Examples
///
/// ```
/// use busyhour::bus::{Event, Packing, Topic};
///
/// #[derive(Clone, Copy)]
/// struct Waiting { mailbox: u64, messages: u32 }
///
/// impl Event for Waiting {
///     type Key = u64;
///     const PACKING: Option<Packing<Self>> = Some(Packing::new(
///         2,
///         |waiting| [waiting.mailbox, waiting.messages.into(), 0],
///         |[mailbox, messages, _]| Waiting { mailbox, messages: messages as u32 },
///     ));
///     fn key(&self) -> &u64 { &self.mailbox }
/// }
///
/// let waiting = Topic::<Waiting>::builder("waiting").cached().build();
/// _ = waiting.publish(Waiting { mailbox: 7, messages: 2 });
/// assert_eq!(waiting.get(&7).map(|it| it.messages), Some(2));
/// ```
pub struct Packing<E> {
    word_count: usize,
    pack: fn(&E) -> PackedEvent,
    unpack: fn(PackedEvent) -> E,
}

/// The words of an event; those beyond its number of words are zero.
pub(super) type PackedEvent = [u64; PACKED_MAX];

impl<E> Packing<E> {
    /// Events of so many words, at least one and at most three. `unpack` gets zero for each other one.
    ///
    /// # Panics
    ///
    /// Does not compile in a constant, and panics elsewhere, with any other number of words.
    pub const fn new(
        word_count: usize,
        pack: fn(&E) -> [u64; 3],
        unpack: fn([u64; 3]) -> E,
    ) -> Self {
        assert!(
            word_count >= 1 && word_count <= PACKED_MAX,
            "one to three words"
        );
        Self {
            word_count,
            pack,
            unpack,
        }
    }

    /// The packing of events that are kept packed. Words are stored in pointers, so there is none
    /// where those are shorter.
    pub(super) const fn of() -> Option<Self>
    where
        E: Event,
    {
        if usize::BITS < u64::BITS {
            return None;
        }
        E::PACKING
    }

    pub(super) const fn word_count(&self) -> usize {
        self.word_count
    }

    #[inline(always)]
    pub(super) fn pack(&self, event: &E) -> PackedEvent {
        (self.pack)(event)
    }

    #[inline(always)]
    pub(super) fn unpack(&self, words: PackedEvent) -> E {
        (self.unpack)(words)
    }
}

impl<E> Clone for Packing<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Packing<E> {}

impl<E> fmt::Debug for Packing<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Packing of {} words", self.word_count)
    }
}

const PACKED_MAX: usize = 3;
