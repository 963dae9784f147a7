use super::{
    failure::{Failure, Outcome},
    out::Out,
    process::Threaded,
};
use crate::result::bh_result;

/// Gives C a new handle.
pub(crate) fn give<T>(out: Out<*mut T>, value: T) {
    out.write(Box::into_raw(Box::new(value)));
}

/// The object of a handle that needs no threads.
#[inline]
pub(crate) fn borrow<'a, T>(handle: *const T, argument: &'static str) -> Outcome<&'a T> {
    // SAFETY: by the caller's promise it is NULL or came from `give` and has not been released, and is not released
    // before the call that it was passed to has returned.
    unsafe { handle.as_ref() }.ok_or_else(|| Failure::null(argument))
}

/// The object of a handle that the call may change.
#[inline]
pub(crate) fn borrow_mut<'a, T>(handle: *mut T, argument: &'static str) -> Outcome<&'a mut T> {
    // SAFETY: as for `borrow`; and by the caller's promise no other call uses the object at the same time. None of the
    // functions that take such a handle calls back.
    unsafe { handle.as_mut() }.ok_or_else(|| Failure::null(argument))
}

/// The object of a handle, in the process that made it.
#[inline]
pub(crate) fn live<'a, T: Threaded>(handle: *const T, argument: &'static str) -> Outcome<&'a T> {
    let object = borrow(handle, argument)?;
    match object.process().is_current() {
        true => Ok(object),
        false => Err(forked(argument)),
    }
}

/// Like [`live`], for an argument that may be NULL.
pub(crate) fn live_or_none<'a, T: Threaded>(
    handle: *const T,
    argument: &'static str,
) -> Outcome<Option<&'a T>> {
    match handle.is_null() {
        true => Ok(None),
        false => live(handle, argument).map(Some),
    }
}

/// Takes a handle back from C; nothing for NULL.
pub(crate) fn release<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: by the caller's promise it came from `give`, and C gives it up with this call.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

#[cold]
#[inline(never)]
fn forked(argument: &'static str) -> Failure {
    let message = format!(
        "{argument} belongs to the process that forked this one, or it has been freed: a child may only call exec or _exit"
    );
    Failure::new(bh_result::BH_FORKED, message)
}
