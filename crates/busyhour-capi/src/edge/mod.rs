//! What every function of the ABI does with what C passes: the only place where raw pointers are read, written and
//! called.
//!
//! A raw pointer in this crate is an argument of an exported function, or a field of an option struct. Nothing here makes
//! one up. So what `CONVENTIONS.md` asks of the caller (a pointer is NULL, or leads to a live object of its type) holds for
//! every pointer that reaches these functions, and each `SAFETY` argument refers to it as the *caller's promise*.

mod callback;
mod failure;
mod guard;
mod handle;
mod options;
mod out;
mod process;
mod text;

pub(crate) use callback::{Callback, Data, RunCall};
pub use callback::{bh_drop_fn, bh_run_fn};
pub(crate) use failure::{Failure, Outcome};
pub(crate) use guard::{guard, last_error, quietly};
pub(crate) use handle::{borrow, borrow_mut, give, live, live_or_none, release};
pub(crate) use options::{AnyBits, Options, end_of_field, known_options, options, read_options};
pub(crate) use out::{Out, OutArray, nanos};
pub(crate) use process::{Process, Threaded};
pub(crate) use text::{
    bytes, copy_bytes, copy_text, give_text, numbers, optional_text, take_text, text,
};
