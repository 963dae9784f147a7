use super::leaves::Position;

/// Where the order keeps a timer, in the 32 bits that its slot has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In an unsorted leaf.
    Far(Position),
    /// In the sorted run, by index.
    Run(u32),
    /// In the pile beside the run, by index.
    Pile(u32),
    /// Taken out of the order, kept in its slot.
    Held,
}

impl Place {
    #[inline]
    pub(super) fn to_link(self) -> u32 {
        match self {
            Self::Far(position) => position.0,
            Self::Run(index) => RUN | index,
            Self::Pile(index) => PILE | index,
            Self::Held => HELD,
        }
    }

    #[inline]
    pub(super) fn from_link(link: u32) -> Self {
        match link & PILE {
            PILE if link == HELD => Self::Held,
            PILE => Self::Pile(link & !PILE),
            RUN => Self::Run(link & !PILE),
            _ => Self::Far(Position(link)),
        }
    }
}

/// Told where timers are put.
pub(super) trait Places {
    fn put(&mut self, slot: u32, place: Place);
}

const RUN: u32 = 0b10 << 30;
const PILE: u32 = 0b11 << 30;
const HELD: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_comes_back_from_its_link() {
        for number in [0, 1, 12345, (1 << 30) - 2] {
            for place in [
                Place::Far(Position(number)),
                Place::Far(Position((1 << 31) - 1 - number)),
                Place::Run(number),
                Place::Pile(number),
                Place::Held,
            ] {
                assert_eq!(Place::from_link(place.to_link()), place);
            }
        }
    }
}
