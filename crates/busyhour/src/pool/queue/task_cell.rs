//! Storage for one task, with as few copies as possible.
//!
//! A task is 64 bytes, written field by field and read in larger pieces. A
//! processor stalls when it reads them just after they were written, and
//! compilers tend to copy them at each move through an `Option`. So a task is
//! packed into its place in the queue where it is created, and copied only once,
//! later, to the place where it runs.

use std::{any::Any, mem::MaybeUninit};

use crate::task::{Task, Word, unpack};

/// Holds one task or none.
pub(crate) struct TaskCell {
    task: MaybeUninit<Task>,
    is_taken: bool,
}

impl TaskCell {
    /// A cell without a task. Not a constant, which would be copied with its unused bytes.
    #[inline(always)]
    pub(crate) fn empty() -> Self {
        Self {
            task: MaybeUninit::uninit(),
            is_taken: false,
        }
    }

    #[inline(always)]
    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken
    }

    /// Stores the task that `make` creates; drops an earlier one.
    #[inline(always)]
    pub(crate) fn put(&mut self, make: impl FnOnce() -> Task) {
        if self.is_taken {
            drop(self.take());
        }
        self.task.write(make());
        self.is_taken = true;
    }

    /// Copies a task here.
    ///
    /// # Safety
    ///
    /// - `from` points to a task, which is not used there any more.
    #[inline(always)]
    pub(super) unsafe fn put_from(&mut self, from: *const Task) {
        debug_assert!(!self.is_taken);
        // SAFETY: by contract the task is ours now; a task may be moved by copying.
        unsafe { from.copy_to_nonoverlapping(self.task.as_mut_ptr(), 1) };
        self.is_taken = true;
    }

    /// Copies a packed task here; returns how many words it has.
    ///
    /// # Safety
    ///
    /// - As of [`unpack`].
    #[inline(always)]
    pub(super) unsafe fn put_packed(&mut self, from: *const Word) -> usize {
        debug_assert!(!self.is_taken);
        // SAFETY: by contract; the cell is somewhere else.
        let words = unsafe { unpack(from, self.task.as_mut_ptr()) };
        self.is_taken = true;
        words
    }

    /// Moves the task, if there is one, to an empty cell; returns whether there
    /// was one.
    #[inline(always)]
    pub(crate) fn move_to(&mut self, other: &mut Self) -> bool {
        let is_taken = self.is_taken;
        if is_taken {
            self.is_taken = false;
            // SAFETY: `is_taken` said that a task is here, and it no longer says so.
            unsafe { other.put_from(self.task.as_ptr()) };
        }
        is_taken
    }

    pub(crate) fn take(&mut self) -> Option<Task> {
        let is_taken = std::mem::take(&mut self.is_taken);
        // SAFETY: `is_taken` said that a task is here, and it no longer says so.
        is_taken.then(|| unsafe { self.task.assume_init_read() })
    }

    /// The label of the task, if it has one.
    #[inline(always)]
    pub(crate) fn label(&self) -> Option<&'static str> {
        // SAFETY: `is_taken` says that a task is here.
        (self.is_taken).then(|| unsafe { self.task.assume_init_ref() }.label())?
    }

    /// Runs the task in place; returns its panic.
    #[inline(always)]
    pub(in crate::pool) fn run(&mut self) -> Result<(), Box<dyn Any + Send>> {
        if !std::mem::take(&mut self.is_taken) {
            return Ok(());
        }
        // SAFETY: `is_taken` said that a task is here, and it no longer says so.
        unsafe { Task::run_in_place(self.task.as_mut_ptr()) }
    }
}

impl Default for TaskCell {
    fn default() -> Self {
        Self::empty()
    }
}

impl Drop for TaskCell {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_taken {
            drop(self.take());
        }
    }
}
