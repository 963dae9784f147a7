use super::failure::{Failure, Outcome};
use crate::result::bh_result;
use std::{
    any::Any,
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
};

thread_local! {
    /// What went wrong in the last failed call of this thread.
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body of an exported function: a failure and a panic become a code, and what they say is kept for
/// `bh_last_error`.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Outcome) -> bh_result {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => bh_result::BH_OK,
        Ok(Err(failure)) => failed(failure),
        Err(payload) => panicked(payload),
    }
}

#[cold]
#[inline(never)]
fn failed(failure: Failure) -> bh_result {
    remember(failure.message());
    failure.code()
}

#[cold]
#[inline(never)]
fn panicked(payload: Box<dyn Any + Send>) -> bh_result {
    remember(&message_of(payload));
    bh_result::BH_PANICKED
}

/// Runs the body of an exported function that returns no code. A panic, which has no way to the caller, is only
/// remembered.
pub(crate) fn quietly<T>(or: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        remember(&message_of(payload));
        or
    })
}

/// Passes the message of the last failed call of this thread to `read`.
pub(crate) fn last_error<T>(read: impl FnOnce(&str) -> T) -> Option<T> {
    LAST_ERROR.try_with(|last| read(&last.borrow())).ok()
}

#[cold]
fn remember(message: &str) {
    // A thread that ends has nobody left to ask.
    let _ending = LAST_ERROR.try_with(|last| message.clone_into(&mut last.borrow_mut()));
}

#[cold]
fn message_of(payload: Box<dyn Any + Send>) -> String {
    let text = match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => payload
            .downcast_ref::<&str>()
            .map_or_else(String::new, |text| (*text).to_owned()),
    };
    format!("a fault of the library, please report it: {text}")
}
