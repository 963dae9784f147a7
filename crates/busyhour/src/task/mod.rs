//! A task: a closure small enough to be stored inside the queue slot.
//!
//! A [`Task`] is 64 bytes, one cache line: 48 bytes for the closure, one
//! pointer to its code and one to an optional label. A closure of up to 48
//! bytes is moved through queues without an allocation; a larger one, or one
//! with more than 8-byte alignment, is boxed once. In the queues of a pool's workers
//! a task takes only as many words as it needs.
//!
//! An [`Executor`] runs tasks: a pool, a serializer, or one that the host
//! provides. Timers and topics deliver through it. [`Overflow`] decides what a
//! bounded queue does when it is full; a
//! [`Watermark`] is a length at which a queue sends an alert.

mod closure;
mod deliveries;
mod executor;
mod isolate;
mod overflow;
mod packed;
mod watermark;

pub(crate) use closure::Closure;
pub use deliveries::Deliveries;
pub use executor::{Executor, HelpOutcome, Reason, Rejected};
pub(crate) use isolate::{drop_payload, isolate};
pub use overflow::Overflow;
pub(crate) use packed::{PACKED_WORDS_MAX, Word, pack, packed_words, unpack};
pub use watermark::Watermark;

use std::{any::Any, fmt};

/// A closure that runs once, on whichever thread takes it.
///
/// Dropping a task without running it drops the closure and what it captured.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use busyhour::task::Task;
///
/// let (sender, receiver) = mpsc::channel();
/// let task = Task::new(move || sender.send("ran").unwrap());
/// std::thread::spawn(move || task.run()).join().unwrap();
/// assert_eq!(receiver.recv(), Ok("ran"));
/// ```
pub struct Task {
    closure: Closure,
    /// A reference to a reference, so that it takes one word.
    label: Option<&'static &'static str>,
}

const _: () = assert!(size_of::<Task>() == Task::SIZE_BYTES);
const _: () = assert!(size_of::<Option<Task>>() == Task::SIZE_BYTES);

impl Task {
    /// The size of a task.
    pub const SIZE_BYTES: usize = 64;
    /// The largest closure that is stored without an allocation.
    pub const INLINE_BYTES: usize = closure::INLINE_BYTES;

    /// Wraps a closure.
    #[inline]
    pub fn new(run: impl FnOnce() + Send + 'static) -> Self {
        Self {
            closure: Closure::new(run),
            label: None,
        }
    }

    /// Wraps a closure with a label for diagnostics.
    ///
    /// The label is a reference to a string literal (`&"name"`), so that it
    /// costs a task one word.
    ///
    /// ```
    /// use busyhour::task::Task;
    ///
    /// let task = Task::labelled(&"expire binding", || ());
    /// assert_eq!(task.label(), Some("expire binding"));
    /// ```
    #[inline]
    pub fn labelled(label: &'static &'static str, run: impl FnOnce() + Send + 'static) -> Self {
        Self {
            closure: Closure::new(run),
            label: Some(label),
        }
    }

    /// The label given to [`Task::labelled`].
    pub fn label(&self) -> Option<&'static str> {
        self.label.copied()
    }

    /// Runs the closure. A panic in it unwinds through here; nothing leaks.
    #[inline]
    pub fn run(self) {
        self.closure.run();
    }
}

impl Task {
    /// A task that drops `kept` after it has run, or with the closure.
    pub(crate) fn keeping(self, kept: impl Send + 'static) -> Self {
        let Self { closure, label } = self;
        let run = move || {
            let _kept = kept;
            closure.run();
        };
        let closure = Closure::new(run);
        Self { closure, label }
    }

    /// Runs a task in place; its panic is returned, so that it does not end the
    /// worker.
    ///
    /// # Safety
    ///
    /// - `place` holds a task, which the caller gives up.
    #[inline(always)]
    pub(crate) unsafe fn run_in_place(place: *mut Self) -> Result<(), Box<dyn Any + Send>> {
        // SAFETY: by contract a task is there; its label needs no drop.
        unsafe { Closure::run_in_place(&raw mut (*place).closure) }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Task")
            .field("label", &self.label())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    #[test]
    fn runs_small_large_and_overaligned_closures_alike() {
        #[repr(align(64))]
        struct Aligned(u64);

        let sum = Arc::new(AtomicUsize::new(0));
        let add = |by: usize| {
            let sum = Arc::clone(&sum);
            move || {
                sum.fetch_add(by, Ordering::Relaxed);
            }
        };
        let (small, large, aligned) = (add(1), add(10), add(100));
        let (padding, overaligned) = ([7_u8; 100], Aligned(7));

        Task::new(small).run();
        Task::new(move || padding.iter().for_each(|_| large())).run();
        Task::new(move || {
            assert!(std::ptr::from_ref(&overaligned).is_aligned());
            (0..overaligned.0).for_each(|_| aligned());
        })
        .run();
        assert_eq!(sum.load(Ordering::Relaxed), 1 + 100 * 10 + 7 * 100);
    }

    #[test]
    fn drops_the_captures_exactly_once_however_it_ends() {
        let witness = Arc::new(());
        let holding = || {
            let held = Arc::clone(&witness);
            Task::new(move || drop(held))
        };
        let holding_much = || {
            let (held, padding) = (Arc::clone(&witness), [0_u8; 64]);
            Task::new(move || drop((held, padding)))
        };
        holding().run();
        holding_much().run();
        drop(holding());
        drop(holding_much());
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn a_panic_drops_the_captures_and_passes_through() {
        let witness = Arc::new(());
        let held = Arc::clone(&witness);
        let task = Task::new(move || {
            let _held = held;
            panic!("on purpose");
        });
        assert!(catch_unwind(AssertUnwindSafe(|| task.run())).is_err());
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn shows_its_label() {
        let task = Task::labelled(&"probe", || ());
        assert!(format!("{task:?}").contains("probe"));
        assert_eq!(Task::new(|| ()).label(), None);
    }
}
