//! Calls user code so that its panics do not unwind into the library.

use std::{
    any::Any,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs `foreign`, which is user code; `None` if it panicked.
///
/// The panic hook has printed the message by then. The panic's payload is
/// dropped here.
#[inline]
pub(crate) fn isolate<R>(foreign: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(foreign)) {
        Ok(value) => Some(value),
        Err(payload) => {
            drop_payload(payload);
            None
        }
    }
}

/// Drops the payload of a panic. It is a user's value, so its `Drop` may panic
/// too; the payload of that second panic is leaked, which ends the chain.
#[cold]
pub(crate) fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(second);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::panic::panic_any;

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("on purpose, in a drop");
        }
    }

    #[test]
    fn gives_the_value_or_nothing() {
        assert_eq!(isolate(|| 7), Some(7));
        assert_eq!(isolate(|| -> u8 { panic!("on purpose") }), None);
    }

    #[test]
    fn a_panic_that_panics_when_it_is_dropped_ends_here_too() {
        assert_eq!(isolate(|| -> u8 { panic_any(PanicsOnDrop) }), None);
    }
}
