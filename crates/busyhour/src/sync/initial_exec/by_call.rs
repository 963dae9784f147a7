//! Values that the standard library finds.

use super::{BeginsAsZero, Here};
use crate::sync::runtime::thread::{AccessError, LocalKey};

/// The first value of a thread.
pub(crate) const fn zero<T: BeginsAsZero>() -> T {
    // SAFETY: by the promise of `BeginsAsZero`.
    unsafe { std::mem::zeroed() }
}

/// A thread-local value that begins as zero bytes and is never dropped.
pub(crate) struct CalledKey<T: 'static>(&'static LocalKey<T>);

impl<T: BeginsAsZero> CalledKey<T> {
    pub(crate) const fn new(key: &'static LocalKey<T>) -> Self {
        Self(key)
    }

    #[inline(always)]
    pub(crate) fn here(&self) -> Here<T> {
        // SAFETY: it is this thread's, and what has no destructor stays until
        // the thread ends; in a model, until the thread's function has returned,
        // and nothing in this crate keeps it for longer.
        self.0.with(|value| unsafe { Here::new(value) })
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        self.0.with(look)
    }

    /// An error if a model's thread has ended.
    #[inline(always)]
    pub(crate) fn try_with<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        self.0.try_with(look)
    }
}

/// Declares thread-local values that begin as zero bytes.
macro_rules! zeroed_thread_local {
    ($($(#[$doc:meta])* static $name:ident: $type:ty;)*) => {
        $(
            $(#[$doc])*
            const $name: $crate::sync::CalledKey<$type> = {
                $crate::sync::runtime::thread_local! {
                    static STORED: $type = const { $crate::sync::zero() };
                }
                $crate::sync::CalledKey::new(&STORED)
            };
        )*
    };
}
pub(crate) use zeroed_thread_local;

/// Declares a thread-local value that is dropped with its thread.
macro_rules! thread_local_with_drop {
    ($(#[$doc:meta])* static $name:ident / $place:ident: $type:ty = $value:expr;) => {
        $crate::sync::runtime::thread_local! {
            $(#[$doc])*
            static $name: $type = const { $value };
        }
    };
}
pub(crate) use thread_local_with_drop;
