//! Storage for one closure of any type: inline when it fits, boxed otherwise.

use std::{
    any::Any,
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit, needs_drop},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A type-erased `FnOnce() + Send + 'static`.
///
/// It is `Sync` as well, which is sound because a shared reference to it gives
/// no access to the closure.
pub(crate) struct Closure {
    storage: Storage,
    code: &'static ClosureCode,
}

/// Storage for the closure, with the alignment that almost all closures need.
#[repr(C, align(8))]
struct Storage(MaybeUninit<[u8; Closure::INLINE_BYTES]>);

/// The operations on a closure whose type was erased.
struct ClosureCode {
    /// Moves the closure out of the storage and calls it.
    run: unsafe fn(*mut Storage),
    /// Drops the closure in place; `None` if there is nothing to do.
    drop: Option<unsafe fn(*mut Storage)>,
}

impl Closure {
    pub(super) const INLINE_BYTES: usize = 48;

    #[inline]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(run: F) -> Self {
        if const { CodeOf::<F>::FITS } {
            Self::stored(run)
        } else {
            // A box of a closure is itself a closure, of one word.
            Self::stored(Box::new(run))
        }
    }

    #[inline]
    fn stored<F: FnOnce() + Send + 'static>(run: F) -> Self {
        assert!(CodeOf::<F>::FITS);
        let mut storage = Storage(MaybeUninit::uninit());
        // SAFETY: the assertion above (a constant) says that the size and
        // alignment of the storage suffice for an `F`.
        unsafe { (&raw mut storage).cast::<F>().write(run) };
        Self {
            storage,
            code: &CodeOf::<F>::CODE,
        }
    }

    /// Whether dropping it does anything.
    #[inline]
    pub(crate) fn needs_drop(&self) -> bool {
        self.code.drop.is_some()
    }

    #[inline]
    pub(crate) fn run(self) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `stored` put a closure of the type that `code` is for into
        // the storage; `ManuallyDrop` keeps `drop` from seeing it again.
        unsafe { (this.code.run)(&raw mut this.storage) }
    }
}

impl Closure {
    /// Runs the closure in place; returns its panic.
    ///
    /// # Safety
    ///
    /// - `place` holds a closure, which the caller gives up.
    #[inline(always)]
    pub(super) unsafe fn run_in_place(place: *mut Self) -> Result<(), Box<dyn Any + Send>> {
        // SAFETY: by contract a closure is there, and `stored` put one of the
        // type that `code` is for into the storage.
        catch_unwind(AssertUnwindSafe(|| unsafe {
            ((*place).code.run)(&raw mut (*place).storage);
        }))
    }
}

impl Drop for Closure {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop) = self.code.drop {
            // SAFETY: `stored` put a closure of the type that `code` is for into
            // the storage, and `run` has not taken it, since it forgets `self`.
            unsafe { drop(&raw mut self.storage) }
        }
    }
}

/// Provides the [`ClosureCode`] of each closure type as a constant.
struct CodeOf<F>(PhantomData<F>);

impl<F: FnOnce() + Send + 'static> CodeOf<F> {
    const FITS: bool =
        size_of::<F>() <= Closure::INLINE_BYTES && align_of::<F>() <= align_of::<Storage>();

    const CODE: ClosureCode = ClosureCode {
        run: Self::run,
        drop: if needs_drop::<F>() {
            Some(Self::drop)
        } else {
            None
        },
    };

    /// # Safety
    ///
    /// - `storage` holds an initialised `F`, which the caller gives up.
    unsafe fn run(storage: *mut Storage) {
        // SAFETY: by contract an `F` is there, and nobody else will use it.
        let run = unsafe { storage.cast::<F>().read() };
        run();
    }

    /// # Safety
    ///
    /// - `storage` holds an initialised `F`, which the caller gives up.
    unsafe fn drop(storage: *mut Storage) {
        // SAFETY: by contract an `F` is there, and nobody else will use it.
        unsafe { storage.cast::<F>().drop_in_place() }
    }
}
