use super::failure::{Failure, Outcome};
use std::time::Duration;

/// Where a result goes: checked before the work begins, written when it has succeeded.
#[must_use = "an output that is not written tells C nothing"]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    #[inline]
    pub(crate) fn required(out: *mut T, argument: &'static str) -> Outcome<Self> {
        match out.is_null() {
            true => Err(Failure::null(argument)),
            false => Ok(Self(out)),
        }
    }

    /// One that the caller does not want if it is NULL.
    #[inline]
    pub(crate) fn optional(out: *mut T) -> Self {
        Self(out)
    }

    #[inline]
    pub(crate) fn write(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: by the caller's promise it points to memory for a `T`, which need not be initialised.
            unsafe { self.0.write(value) };
        }
    }
}

/// Where several results go: `room` of them at most.
pub(crate) struct OutArray<T> {
    out: *mut T,
    room: usize,
    len: usize,
}

impl<T> OutArray<T> {
    #[inline]
    pub(crate) fn required(out: *mut T, room: usize, argument: &'static str) -> Outcome<Self> {
        let Out(out) = Out::required(out, argument)?;
        Ok(Self { out, room, len: 0 })
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == self.room
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        assert!(self.len < self.room);
        // SAFETY: by the caller's promise `room` values have room there, and `len` is less.
        unsafe { self.out.add(self.len).write(value) };
        self.len += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// A duration as C gets it; one of more than 584 years is the longest.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
