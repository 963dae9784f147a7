/// Identifies a worker: where an entity last ran, and whose epochs it follows.
///
/// ```
/// use busyhour::run_queue::{RunQueue, WorkerId};
///
/// let queue = RunQueue::<()>::new(WorkerId::new(3));
/// assert_eq!(queue.worker().get(), 3);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerId(u16);

impl WorkerId {
    /// No worker has this number.
    pub(super) const NOBODY: Self = Self(u16::MAX);

    /// The worker with this number, 0 to 65,534.
    ///
    /// # Panics
    ///
    /// If `number` is 65,535, which stands for no worker.
    pub const fn new(number: u16) -> Self {
        assert!(number != u16::MAX, "65,535 stands for nobody");
        Self(number)
    }

    /// The worker's number.
    pub const fn get(self) -> u16 {
        self.0
    }
}
