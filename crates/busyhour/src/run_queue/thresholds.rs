/// The lengths at which a run queue changes its structure; see
/// [`Mode`](super::Mode). The order of the entities does not depend on them.
///
/// ```
/// use busyhour::run_queue::Thresholds;
///
/// let thresholds = Thresholds::new(32, 16).unwrap();
/// assert_eq!((thresholds.sorted_max(), thresholds.sorted_again()), (32, 16));
/// assert_eq!(Thresholds::new(16, 16), None, "it would change at every switch");
/// assert_eq!(Thresholds::new(65, 16), None, "more than the ring holds");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    sorted_max: u8,
    sorted_again: u8,
}

impl Thresholds {
    /// The most entities that the sorted ring can hold.
    pub const LIMIT: usize = 64;

    /// Sorted up to 16 entities, and again when 8 are left: measured, see
    /// README.md, "Structures tried".
    pub const DEFAULT: Self = Self {
        sorted_max: 16,
        sorted_again: 8,
    };

    /// Sorted up to `sorted_max` entities, and again when `sorted_again` are
    /// left; `None` unless `sorted_again` < `sorted_max` ≤
    /// [`LIMIT`](Self::LIMIT).
    pub const fn new(sorted_max: usize, sorted_again: usize) -> Option<Self> {
        if sorted_again >= sorted_max || sorted_max > Self::LIMIT {
            return None;
        }
        Some(Self {
            sorted_max: sorted_max as u8,
            sorted_again: sorted_again as u8,
        })
    }

    /// Up to so many entities, a queue that is sorted stays so.
    #[inline(always)]
    pub const fn sorted_max(self) -> usize {
        self.sorted_max as usize
    }

    /// With so many entities left, a queue that is bucketed becomes sorted.
    #[inline(always)]
    pub const fn sorted_again(self) -> usize {
        self.sorted_again as usize
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::DEFAULT
    }
}
