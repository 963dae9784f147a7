use crate::edge::{copy_text, last_error, quietly, take_text};
use std::ffi::{CStr, c_char};

/// What a call returns: `BH_OK`, or why it did nothing. `bh_last_error` tells more.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum bh_result {
    /// The call did what it says.
    BH_OK = 0,
    /// An argument that must not be NULL is NULL.
    BH_NULL = 1,
    /// An argument has a value that it may not have.
    BH_INVALID = 2,
    /// The options have fields that this version of the library does not know.
    BH_VERSION = 3,
    /// What was asked for is not there, or no longer.
    BH_NOT_FOUND = 4,
    /// It exists already: something with this name, or what there can be only one of.
    BH_EXISTS = 5,
    /// A queue, a table or a budget is full.
    BH_FULL = 6,
    /// The object is closed or shutting down.
    BH_SHUT_DOWN = 7,
    /// The wait would never end, since the threads wait for each other.
    BH_DEADLOCK = 8,
    /// The task was dropped before it ran.
    BH_DROPPED = 9,
    /// Nothing in the simulation can run the task.
    BH_STALLED = 10,
    /// The object is in use by the call inside of which this call was made.
    BH_BUSY = 11,
    /// The address lies outside of this pool's memory.
    BH_FOREIGN = 12,
    /// The address lies in the pool's memory, but in no live buffer.
    BH_NOT_LIVE = 13,
    /// The buffer has no pin to remove.
    BH_NOT_PINNED = 14,
    /// The operating system refused a thread, memory or another resource.
    BH_SYSTEM = 15,
    /// The object belongs to the process that forked this one.
    BH_FORKED = 16,
    /// A fault of the library.
    BH_PANICKED = 17,
}

/// A short English sentence about a code; a constant, never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_strerror(code: i32) -> *const c_char {
    let index = usize::try_from(code).unwrap_or(usize::MAX);
    SENTENCES.get(index).unwrap_or(&c"unknown code").as_ptr()
}

/// Copies what the last failed call of this thread had to say to `text`, which has room for `size` bytes, and ends it with
/// a NUL. Returns the length of the whole message; the text is cut if that is not less than `size`. `text` may be NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_last_error(text: *mut c_char, size: usize) -> usize {
    quietly(0, || {
        last_error(|message| copy_text(message, text, size)).unwrap_or(0)
    })
}

/// Frees a text that a call returned; nothing for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn bh_text_free(text: *mut c_char) {
    drop(take_text(text));
}

/// The version of the library, for example "0.1.0"; a constant.
#[unsafe(no_mangle)]
pub extern "C" fn bh_version() -> *const c_char {
    VERSION.as_ptr()
}

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// By code.
const SENTENCES: [&CStr; 18] = [
    c"the call succeeded",
    c"an argument is NULL",
    c"an argument is invalid",
    c"the options are newer than the library",
    c"not found",
    c"it exists already",
    c"full",
    c"shut down",
    c"the wait would never end",
    c"the task was dropped before it ran",
    c"nothing in the simulation can run the task",
    c"in use by the call around this one",
    c"the address is not in this pool",
    c"no live buffer has a byte at the address",
    c"the buffer is not pinned",
    c"the operating system refused a resource",
    c"the object belongs to the process that forked this one",
    c"a fault of the library",
];

const _: () = assert!(SENTENCES.len() == bh_result::BH_PANICKED as usize + 1);
