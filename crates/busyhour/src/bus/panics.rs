use crate::task::drop_payload;
use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

/// Runs several pieces of user code so that a panic of one does not keep the
/// others from running. The first panic goes on when all have run.
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

    /// Drops what may be the last reference to a user's value; catches a panic
    /// of the drop.
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
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(payload) = self.first.take() {
            go_on(payload);
        }
    }
}

#[cold]
fn go_on(payload: Box<dyn Any + Send>) {
    match std::thread::panicking() {
        true => drop_payload(payload),
        false => resume_unwind(payload),
    }
}

/// Holds what may be the last reference to a user's value. If it is dropped
/// during a panic, a second panic, of the value's own `Drop`, is caught here
/// instead of aborting the process. Without a panic it costs nothing.
pub(super) struct Held<T>(Option<T>);

impl<T> Held<T> {
    pub(super) const EMPTY: Self = Self(None);

    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        Self(Some(value))
    }

    #[inline(always)]
    pub(super) fn take(&mut self) -> Option<T> {
        self.0.take()
    }

    #[inline(always)]
    pub(super) fn put(&mut self, value: Option<T>) {
        debug_assert!(self.0.is_none(), "a value would be dropped here");
        mem::forget(mem::replace(&mut self.0, value));
    }

    #[inline(always)]
    pub(super) fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }

    /// Runs user code with a reference to a value, then drops the value.
    pub(super) fn lend<R>(value: T, code: impl FnOnce(&T) -> R) -> R {
        let held = Self::new(value);
        let mut result = Held::EMPTY;
        result.put(held.get().map(code));
        drop(held);
        let Some(result) = result.take() else {
            unreachable!("the value has just been put there");
        };
        result
    }

    /// Drops the value outside of a panic; costs nothing if it needs no drop.
    #[inline(always)]
    pub(super) fn leave(self, needs_drop: impl FnOnce(&T) -> bool) {
        match &self.0 {
            Some(value) if needs_drop(value) => drop(self),
            _ => mem::forget(self),
        }
    }

    #[cold]
    fn drop_quietly(&mut self) {
        let mut panics = Panics::default();
        panics.drop(self.0.take());
    }
}

impl<T> Drop for Held<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.is_some() && std::thread::panicking() {
            self.drop_quietly();
        }
    }
}
