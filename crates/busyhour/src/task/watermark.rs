/// The watermark that a queue has crossed.
///
/// ```
/// use busyhour::{clock::Clock, pool::TaskPool, task::Watermark};
/// use std::sync::mpsc;
///
/// let pool = TaskPool::simulated(7, Clock::simulated(Default::default()));
/// let (sender, marks) = mpsc::channel();
/// let calls = pool.serializer("calls").on_alert(1, 3, move |alert| _ = sender.send(alert.mark));
/// let calls = calls.build().unwrap();
/// for _ in 0..3 {
///     calls.push(|| ()).unwrap();
/// }
/// while pool.step() {}
/// assert_eq!(marks.try_iter().collect::<Vec<_>>(), [Watermark::High, Watermark::Low]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watermark {
    /// The length rose to the high watermark.
    High,
    /// The length fell back to the low watermark.
    Low,
}
