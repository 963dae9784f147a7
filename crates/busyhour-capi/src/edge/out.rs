use super::failure::{Failure, Outcome};

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
