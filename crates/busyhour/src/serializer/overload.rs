use std::{fmt, sync::Arc};

/// Which mark a queue has crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaterMark {
    /// It rose to the high mark.
    High,
    /// It fell back to the low mark.
    Low,
}

/// A crossed mark: told once per crossing, high and low in turns.
#[derive(Debug, Clone)]
pub struct Water {
    /// Which mark.
    pub mark: WaterMark,
    /// The serializer's name.
    pub serializer: Arc<str>,
    /// Tasks waiting at that moment.
    pub queued_len: usize,
    /// Age of the oldest waiting task, in nanoseconds.
    pub oldest_waiting_ns: u64,
    /// The label of the task that was running, if it has one.
    pub running: Option<&'static str>,
    /// Crossings between the one told before and this one that were not told,
    /// because the hook had not returned: always pairs of high and low.
    pub untold_before: u64,
}

/// Hears of crossed marks, one after the other, in the order of crossing. Runs on the pushing thread or on a worker, and must be short.
pub type WaterHook = Arc<dyn Fn(&Water) + Send + Sync>;

/// The marks of one serializer, and which was crossed last.
pub(super) struct Marks {
    pub(super) low: usize,
    pub(super) high: usize,
    pub(super) hooks: Arc<[WaterHook]>,
    pub(super) is_high: bool,
}

impl Marks {
    /// The mark that a queue of this length crosses, if any.
    pub(super) fn cross(&mut self, len: usize) -> Option<WaterMark> {
        if !self.is_high && len >= self.high {
            self.is_high = true;
            Some(WaterMark::High)
        } else if self.is_high && len <= self.low {
            self.is_high = false;
            Some(WaterMark::Low)
        } else {
            None
        }
    }
}

impl fmt::Debug for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marks")
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
