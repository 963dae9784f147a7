//! Thread-local values that a shared library reaches without a call.
//!
//! A program knows at link time where its thread-local values lie. A shared
//! library does not, so each use of one of the standard library's costs a call
//! of `__tls_get_addr` there. Where a processor and its C library allow it, the
//! values of this file lie in the block that the loader gives every thread at
//! its start ("initial exec" in the ABI's words), at an offset that the loader
//! writes into the library once: a use is one load and one addition. No stable
//! compiler has an option for that, so the values are declared and found by
//! assembly here. Elsewhere, and in models, they are those of the standard
//! library.
//!
//! **Where.** With the feature `initial-exec`, on x86_64 Linux with glibc. musl's
//! loader refuses such a library in `dlopen`; other processors' compilers use
//! descriptors, which cost about as little. A program gains nothing, since its
//! linker knows the offsets. A Rust `dylib` must not have the feature: functions
//! that other crates inline would look for the values in the wrong library,
//! which the linker refuses.
//!
//! **What a loader must have.** A library that `dlopen` brings must find room
//! for its thread-local values in blocks that exist. glibc keeps 1,664 bytes
//! for that, of which `libbusyhour.so` takes about 600 (`readelf -lW`, TLS), half of it
//! the standard library's. A process that has given all of it away cannot
//! load the library, and `dlopen` says so ("cannot allocate memory in static TLS
//! block"); the tunable `glibc.rtld.optional_static_tls` enlarges it.
//!
//! **Which values.** Those that begin as zero bytes and need no destructor
//! ([`BeginsAsZero`]). A value with a destructor stays the standard library's
//! (`thread_local_with_drop`), and such a word says where it is while it is alive.
//!
//! **Names.** Assembly has no mangling: a value's symbol has the version of this
//! crate and the name that the macro is given, so that names are unique within
//! the crate. The symbols are hidden, and a program that links two builds of one
//! version statically is refused by the linker, not given one value for both.

#[cfg(all(
    feature = "initial-exec",
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    not(any(loom, shuttle, miri))
))]
#[path = "initial_exec/by_offset.rs"]
mod kind;
#[cfg(not(all(
    feature = "initial-exec",
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    not(any(loom, shuttle, miri))
)))]
#[path = "initial_exec/by_call.rs"]
mod kind;

pub(crate) use kind::*;

/// [`zeroed_thread_local`] for what loom's models run, whose threads are no
/// threads of the system.
#[cfg(not(loom))]
pub(crate) use zeroed_thread_local as modelled_zeroed_thread_local;

/// [`thread_local_with_drop`] for what loom's models run.
#[cfg(not(loom))]
pub(crate) use thread_local_with_drop as modelled_thread_local_with_drop;

#[cfg(loom)]
macro_rules! modelled_zeroed_thread_local {
    ($(#[$doc:meta])* static $name:ident: $type:ty;) => {
        $crate::sync::thread_local! {
            $(#[$doc])*
            static $name: $type = $crate::sync::zero();
        }
    };
}
#[cfg(loom)]
pub(crate) use modelled_zeroed_thread_local;

#[cfg(loom)]
macro_rules! modelled_thread_local_with_drop {
    ($(#[$doc:meta])* static $name:ident / $place:ident: $type:ty = $value:expr;) => {
        $crate::sync::thread_local! {
            $(#[$doc])*
            static $name: $type = $value;
        }
    };
}
#[cfg(loom)]
pub(crate) use modelled_thread_local_with_drop;

use crate::clock::Instant;
use std::cell::Cell;

/// A type of which bytes that are all zero are a value.
///
/// # Safety
///
/// - They are.
pub(crate) unsafe trait BeginsAsZero {}

// SAFETY: zero is a number, `false`, or a null pointer, and a cell has the bytes
// of what is in it.
unsafe impl BeginsAsZero for Cell<bool> {}
// SAFETY: as above.
unsafe impl BeginsAsZero for Cell<u32> {}
// SAFETY: as above.
unsafe impl BeginsAsZero for Cell<u64> {}
// SAFETY: as above.
unsafe impl BeginsAsZero for Cell<usize> {}
// SAFETY: as above; an instant is a number.
unsafe impl BeginsAsZero for Cell<Instant> {}
// SAFETY: as above.
unsafe impl<T> BeginsAsZero for Cell<*const T> {}
// SAFETY: as above, of both.
unsafe impl BeginsAsZero for Cell<(u64, bool)> {}
// SAFETY: as above, of each.
unsafe impl<T: BeginsAsZero, const N: usize> BeginsAsZero for [T; N] {}

/// The running thread's own value, which stays on its thread: it cannot be sent.
/// Where a closure with the value would be a function of its own, this is not.
pub(crate) struct Here<T: 'static>(*const T);

impl<T> Here<T> {
    /// # Safety
    ///
    /// - It is the value of the running thread, and lives as long as that.
    #[inline(always)]
    pub(crate) unsafe fn new(value: *const T) -> Self {
        Self(value)
    }
}

impl<T> std::ops::Deref for Here<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: by the promise of `new`; a pointer is not `Send`, so this is
        // that thread, which has not ended.
        unsafe { &*self.0 }
    }
}

/// Makes a struct [`BeginsAsZero`] whose fields all are. Each is named, so that none
/// is left unchecked.
macro_rules! zeroed {
    ($name:ident { $($field:ident),* $(,)? }) => {
        const _: () = {
            const fn zeroed<T: $crate::sync::BeginsAsZero>(_: &T) {}
            const _: fn(&$name) = |value| {
                let $name { $($field),* } = value;
                $(zeroed($field);)*
            };
        };
        // SAFETY: the lines above check the fields.
        unsafe impl $crate::sync::BeginsAsZero for $name {}
    };
}
pub(crate) use zeroed;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::{cell::RefCell, thread};

    struct Seen {
        at: Cell<usize>,
        number: Cell<u32>,
    }
    zeroed!(Seen { at, number });

    zeroed_thread_local! {
        static SEEN: Seen;
    }
    thread_local_with_drop! {
        static NAMES / NAMES_PLACE: RefCell<Vec<Named>> = RefCell::new(Vec::new());
    }

    struct Named(std::sync::mpsc::Sender<bool>);

    impl Drop for Named {
        fn drop(&mut self) {
            // Its own list is gone, and a plain value still there.
            SEEN.with(|seen| seen.number.set(7));
            let is_gone = NAMES.try_with(|_| ()).is_err();
            self.0.send(is_gone).unwrap();
        }
    }

    #[test]
    fn each_thread_has_its_own_value_which_begins_as_zero() {
        let look = || {
            SEEN.with(|seen| {
                assert_eq!((seen.at.get(), seen.number.get()), (0, 0));
                seen.at.set(std::ptr::from_ref(seen).addr());
                seen.number.set(1);
            });
            SEEN.with(|seen| {
                assert_eq!(seen.number.get(), 1);
                assert_eq!(seen.at.get(), std::ptr::from_ref(seen).addr());
                seen.at.get()
            })
        };
        let here = look();
        let there = thread::spawn(look).join().unwrap();
        assert_ne!(here, there);
    }

    #[test]
    fn a_value_with_a_destructor_is_dropped_with_its_thread_and_not_used_after() {
        let (told, tell) = std::sync::mpsc::channel();
        let both = [told.clone(), told];
        let thread = thread::spawn(|| {
            for sender in both {
                NAMES
                    .try_with(|names| names.borrow_mut().push(Named(sender)))
                    .unwrap();
            }
            NAMES.try_with(|names| names.borrow().len()).unwrap()
        });
        assert_eq!(thread.join().unwrap(), 2);
        assert_eq!(tell.iter().collect::<Vec<_>>(), [true, true]);
    }
}
