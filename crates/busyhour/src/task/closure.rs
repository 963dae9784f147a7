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
pub(crate) struct Closure<const BYTES: usize = INLINE_BYTES> {
    pub(super) storage: Storage<BYTES>,
    pub(super) code: &'static ClosureCode<BYTES>,
}

/// Storage for the closure, with the alignment that almost all closures need.
#[repr(C, align(8))]
pub(super) struct Storage<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

/// The operations on a closure whose type was erased. Its address has four bits
/// that are 0, in which a packed task keeps its length.
#[repr(align(16))]
pub(super) struct ClosureCode<const BYTES: usize> {
    /// How many words of the storage the closure takes.
    pub(super) words: usize,
    /// Moves the closure out of the storage and calls it.
    run: unsafe fn(*mut Storage<BYTES>),
    /// Drops the closure in place; `None` if there is nothing to do.
    drop: Option<unsafe fn(*mut Storage<BYTES>)>,
}

impl<const BYTES: usize> Closure<BYTES> {
    /// Whether a closure of this type is stored without an allocation.
    pub(crate) const fn fits<F: FnOnce() + Send + 'static>() -> bool {
        CodeOf::<F, BYTES>::FITS
    }

    #[inline]
    pub(crate) fn new<F: FnOnce() + Send + 'static>(run: F) -> Self {
        if const { CodeOf::<F, BYTES>::FITS } {
            Self::stored(run)
        } else {
            // A box of a closure is itself a closure, of one word.
            Self::stored(Box::new(run))
        }
    }

    #[inline]
    fn stored<F: FnOnce() + Send + 'static>(run: F) -> Self {
        assert!(CodeOf::<F, BYTES>::FITS);
        let mut storage = Storage(MaybeUninit::uninit());
        // SAFETY: the assertion above (a constant) says that the size and
        // alignment of the storage suffice for an `F`.
        unsafe { (&raw mut storage).cast::<F>().write(run) };
        Self {
            storage,
            code: &CodeOf::<F, BYTES>::CODE,
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

impl<const BYTES: usize> Closure<BYTES> {
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

impl<const BYTES: usize> Drop for Closure<BYTES> {
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
struct CodeOf<F, const BYTES: usize>(PhantomData<F>);

impl<F: FnOnce() + Send + 'static, const BYTES: usize> CodeOf<F, BYTES> {
    const FITS: bool = size_of::<F>() <= BYTES && align_of::<F>() <= align_of::<Storage<BYTES>>();

    const CODE: ClosureCode<BYTES> = ClosureCode {
        words: size_of::<F>().div_ceil(8),
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
    unsafe fn run(storage: *mut Storage<BYTES>) {
        // SAFETY: by contract an `F` is there, and nobody else will use it.
        let run = unsafe { storage.cast::<F>().read() };
        run();
    }

    /// # Safety
    ///
    /// - `storage` holds an initialised `F`, which the caller gives up.
    unsafe fn drop(storage: *mut Storage<BYTES>) {
        // SAFETY: by contract an `F` is there, and nobody else will use it.
        unsafe { storage.cast::<F>().drop_in_place() }
    }
}

/// What a task stores of a closure.
pub(super) const INLINE_BYTES: usize = 48;
