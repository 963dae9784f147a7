//! Values at an offset from the thread's pointer.

use super::Here;
use std::{
    cell::Cell,
    mem,
    thread::{AccessError, LocalKey},
};

/// A thread-local value that begins as zero bytes and is never dropped.
pub(crate) struct OffsetKey<T: 'static> {
    find: fn() -> *const T,
}

impl<T: 'static> OffsetKey<T> {
    /// # Safety
    ///
    /// - `find` leads to the value of the thread that calls it, which is valid
    ///   as long as the thread runs.
    pub(crate) const unsafe fn new(find: fn() -> *const T) -> Self {
        const { assert!(!mem::needs_drop::<T>(), "nobody drops it") };
        Self { find }
    }

    /// What finds it.
    pub(crate) const fn finder(&self) -> fn() -> *const T {
        self.find
    }

    #[inline(always)]
    pub(crate) fn here(&self) -> Here<T> {
        // SAFETY: by the promise of `new`.
        unsafe { Here::new((self.find)()) }
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.here())
    }

    /// Like [`OffsetKey::with`]; never an error, as a model's may have.
    #[inline(always)]
    pub(crate) fn try_with<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        Ok(self.with(look))
    }
}

/// A thread-local value that is dropped with its thread: the standard library's,
/// and a word that says where it is.
pub(crate) struct OwnedKey<T: 'static> {
    stored: &'static LocalKey<Owned<T>>,
    place: OffsetKey<Place<T>>,
}

/// Where a thread's value is; null before its first use, and from the begin of
/// its drop on.
pub(crate) type Place<T> = Cell<*const T>;

pub(crate) struct Owned<T: 'static> {
    value: T,
    place: fn() -> *const Place<T>,
}

impl<T: 'static> Owned<T> {
    /// # Safety
    ///
    /// - As for [`OffsetKey::new`], of `place`.
    pub(crate) const unsafe fn new(value: T, place: fn() -> *const Place<T>) -> Self {
        Self { value, place }
    }
}

impl<T: 'static> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: by the promise of `new`; a value is dropped on its thread.
        unsafe { &*(self.place)() }.set(std::ptr::null());
    }
}

impl<T: 'static> OwnedKey<T> {
    /// # Safety
    ///
    /// - The values of `stored` were made with the `place` of this key, and
    ///   nothing else writes there.
    pub(crate) const unsafe fn new(
        stored: &'static LocalKey<Owned<T>>,
        place: fn() -> *const Place<T>,
    ) -> Self {
        // SAFETY: by the promise of `Owned::new`.
        let place = unsafe { OffsetKey::new(place) };
        Self { stored, place }
    }

    /// An error if the thread ends and its value is dropped.
    #[inline(always)]
    pub(crate) fn try_with<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let mut place = self.place.with(Cell::get);
        if place.is_null() {
            place = self.first()?;
        }
        // SAFETY: `first` has given it. The value lies where it is until the
        // standard library drops it, on this thread, and the drop begins by
        // taking the place away; so it is not dropped before `look` returns,
        // which runs on this thread.
        Ok(look(unsafe { &*place }))
    }

    /// The place of the value, which begins now if the thread has none.
    #[cold]
    #[inline(never)]
    fn first(&self) -> Result<*const T, AccessError> {
        self.stored.try_with(|owned| {
            let value = &raw const owned.value;
            self.place.with(|place| place.set(value));
            value
        })
    }
}

/// Declares thread-local values that begin as zero bytes: [`OffsetKey`].
macro_rules! zeroed_thread_local {
    ($($(#[$doc:meta])* static $name:ident: $type:ty;)*) => {$(
        // The symbol is of this crate's version: see above, "Names".
        std::arch::global_asm!(
            ".pushsection .tbss.busyhour, \"awT\", @nobits",
            ".p2align 4",
            $crate::sync::thread_local_symbol!(".globl ", $name, ""),
            $crate::sync::thread_local_symbol!(".hidden ", $name, ""),
            $crate::sync::thread_local_symbol!(".type ", $name, ", @object"),
            $crate::sync::thread_local_symbol!(".size ", $name, ", {size}"),
            $crate::sync::thread_local_symbol!("", $name, ": .zero {size}"),
            ".popsection",
            size = const size_of::<$type>(),
        );
        $(#[$doc])*
        const $name: $crate::sync::OffsetKey<$type> = {
            const fn zeroed<T: $crate::sync::BeginsAsZero>() {
                assert!(align_of::<T>() <= 16);
            }
            zeroed::<$type>();

            #[inline(always)]
            fn find() -> *const $type {
                let address;
                // SAFETY: the two instructions compute the address of the value
                // declared above in the running thread's block, which begins
                // at `fs:0`: the sequence that the ABI prescribes. They read two
                // words that do not change while the thread runs.
                unsafe {
                    std::arch::asm!(
                        "mov {address}, qword ptr fs:[0]",
                        $crate::sync::thread_local_symbol!(
                            "add {address}, qword ptr [rip + ", $name, "@GOTTPOFF]"
                        ),
                        address = out(reg) address,
                        options(pure, nomem, nostack),
                    );
                }
                address
            }

            // SAFETY: each thread has the value from its start to its end, and
            // its bytes, which are zero then, are a value of the type.
            unsafe { $crate::sync::OffsetKey::new(find) }
        };
    )*};
}
pub(crate) use zeroed_thread_local;

/// The symbol of a thread-local value between two texts.
macro_rules! thread_local_symbol {
    ($before:literal, $name:ident, $after:literal) => {
        concat!(
            $before,
            "busyhour_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH"),
            "_",
            stringify!($name),
            $after
        )
    };
}
pub(crate) use thread_local_symbol;

/// Declares a thread-local value that is dropped with its thread: [`OwnedKey`].
macro_rules! thread_local_with_drop {
    ($(#[$doc:meta])* static $name:ident / $place:ident: $type:ty = $value:expr;) => {
        $crate::sync::zeroed_thread_local! {
            static $place: $crate::sync::Place<$type>;
        }
        $(#[$doc])*
        const $name: $crate::sync::OwnedKey<$type> = {
            $crate::sync::runtime::thread_local! {
                static STORED: $crate::sync::Owned<$type> =
                    // SAFETY: it is the place of the key below.
                    const { unsafe { $crate::sync::Owned::new($value, $place.finder()) } };
            }
            // SAFETY: as above; the place is known here alone.
            unsafe { $crate::sync::OwnedKey::new(&STORED, $place.finder()) }
        };
    };
}
pub(crate) use thread_local_with_drop;
