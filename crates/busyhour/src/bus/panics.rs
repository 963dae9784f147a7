use crate::task::drop_payload;
use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// Runs several pieces of a user's code of which none may keep the others from
/// running. The first panic goes on when all have run.
#[derive(Default)]
pub(super) struct Panics {
    first: Option<Box<dyn Any + Send>>,
}

impl Panics {
    /// Runs `code`; `None` when it panics.
    #[inline]
    pub(super) fn catch<R>(&mut self, code: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(code)) {
            Ok(result) => Some(result),
            Err(payload) => {
                self.note(payload);
                None
            }
        }
    }

    /// Drops what may be the last reference to a user's value.
    #[inline]
    pub(super) fn drop<T>(&mut self, value: T) {
        if mem::needs_drop::<T>() {
            self.catch(|| drop(value));
        }
    }

    #[cold]
    fn note(&mut self, payload: Box<dyn Any + Send>) {
        match self.first {
            None => self.first = Some(payload),
            Some(_) => drop_payload(payload),
        }
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        match self.first.take() {
            Some(payload) if std::thread::panicking() => drop_payload(payload),
            Some(payload) => resume_unwind(payload),
            None => {}
        }
    }
}
