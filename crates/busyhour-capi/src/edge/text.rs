use super::failure::{Failure, Outcome};
use crate::result::bh_result;
use std::{
    ffi::{CStr, CString, c_char, c_void},
    slice,
};

/// A string of C, for the duration of the call.
pub(crate) fn text<'a>(text: *const c_char, argument: &'static str) -> Outcome<&'a str> {
    optional_text(text, argument)?.ok_or_else(|| Failure::null(argument))
}

/// Like [`text`], for an argument that may be NULL.
pub(crate) fn optional_text<'a>(
    text: *const c_char,
    argument: &'static str,
) -> Outcome<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: by the caller's promise it ends with a NUL, and does not change during the call.
    let text = unsafe { CStr::from_ptr(text) };
    let read = text.to_str().map(Some);
    read.map_err(|error| Failure::invalid(format!("{argument} is not UTF-8: {error}")))
}

/// Bytes of C, for the duration of the call. No bytes need no address.
pub(crate) fn bytes<'a>(
    data: *const c_void,
    len: usize,
    argument: &'static str,
) -> Outcome<&'a [u8]> {
    numbers(data.cast(), len, argument)
}

/// An array of numbers of C, for the duration of the call.
pub(crate) fn numbers<'a, T: Number>(
    data: *const T,
    count: usize,
    argument: &'static str,
) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Failure::null(argument));
    }
    if count
        .checked_mul(size_of::<T>())
        .is_none_or(|len| len > isize::MAX as usize)
    {
        return Err(Failure::invalid(format!(
            "{argument} is longer than memory"
        )));
    }
    // SAFETY: by the caller's promise `count` numbers lie there, which do not change during the call; every bit pattern
    // is a number.
    Ok(unsafe { slice::from_raw_parts(data, count) })
}

/// What an array of C may hold.
pub(crate) trait Number: Copy {}
impl Number for u8 {}
impl Number for u16 {}
impl Number for u32 {}

/// A string for C, which it returns with `bh_text_free`. It ends at a NUL, which C could not read beyond.
fn new_text(text: &str) -> *mut c_char {
    let readable = text.split('\0').next().unwrap_or_default();
    CString::new(readable).map_or(std::ptr::null_mut(), CString::into_raw)
}

/// Gives C a string.
pub(crate) fn give_text(out: super::Out<*mut c_char>, text: &str) {
    out.write(new_text(text));
}

/// Takes a string back that [`new_text`] made.
pub(crate) fn take_text(text: *mut c_char) -> Option<CString> {
    // SAFETY: by the caller's promise it came from `new_text`, unchanged, and C gives it up with this call.
    (!text.is_null()).then(|| unsafe { CString::from_raw(text) })
}

/// Copies what fits of `text` to memory of C, with a NUL at the end; returns the length of the whole.
pub(crate) fn copy_text(text: &str, to: *mut c_char, size: usize) -> usize {
    let Some(room) = size.checked_sub(1).filter(|_| !to.is_null()) else {
        return text.len();
    };
    let len = text.floor_char_boundary(room.min(text.len()));
    let part = &text.as_bytes()[..len];
    // SAFETY: by the caller's promise `size` bytes may be written there; `len` and the NUL are no more.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(part.as_ptr(), len);
        to.add(len).write(0);
    }
    text.len()
}

/// Copies bytes to memory of C; fails, and copies none, if they do not fit.
pub(crate) fn copy_bytes(bytes: &[u8], to: *mut c_void, size: usize) -> Outcome {
    if to.is_null() || size < bytes.len() {
        let message = format!("{} bytes do not fit into {size}", bytes.len());
        return Err(Failure::new(bh_result::BH_FULL, message));
    }
    // SAFETY: by the caller's promise `size` bytes may be written there; these are no more.
    unsafe {
        to.cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
    };
    Ok(())
}
