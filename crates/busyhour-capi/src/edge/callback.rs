use std::{ffi::c_void, mem, process::abort};

/// Frees what a `void *data` points to. It may be NULL if there is nothing to free.
pub type bh_drop_fn = Option<unsafe extern "C-unwind" fn(data: *mut c_void)>;

/// Runs once, with the data that was given with it.
pub type bh_run_fn = Option<unsafe extern "C-unwind" fn(data: *mut c_void)>;

/// The function of a [`bh_run_fn`] that is not NULL.
pub(crate) type RunCall = unsafe extern "C-unwind" fn(*mut c_void);

/// The data of a callback. Its destructor runs exactly once, whatever becomes of the callback.
pub(crate) struct Data {
    data: *mut c_void,
    drop: bh_drop_fn,
}

impl Data {
    pub(crate) fn new(data: *mut c_void, drop: bh_drop_fn) -> Self {
        Self { data, drop }
    }

    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        self.data
    }
}

// SAFETY: by the caller's promise the data may be used and freed by any thread; CONVENTIONS.md says which one calls.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Drop for Data {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            let guard = NoUnwind;
            // SAFETY: by the caller's promise the destructor accepts this data; it is called nowhere else.
            unsafe { drop(self.data) };
            mem::forget(guard);
        }
    }
}

/// A function of C with its data. The data is the last argument of each call.
pub(crate) struct Callback<F> {
    function: F,
    data: Data,
}

impl<F: Copy> Callback<F> {
    /// `None` if the function is NULL; the data is then freed.
    #[inline]
    pub(crate) fn new(function: Option<F>, data: Data) -> Option<Self> {
        function.map(|function| Self { function, data })
    }
}

impl<R> Callback<unsafe extern "C-unwind" fn(*mut c_void) -> R> {
    #[inline]
    pub(crate) fn call(&self) -> R {
        let guard = NoUnwind;
        // SAFETY: by the caller's promise the function accepts its data, on any thread.
        let result = unsafe { (self.function)(self.data.address()) };
        mem::forget(guard);
        result
    }
}

impl<A, R> Callback<unsafe extern "C-unwind" fn(A, *mut c_void) -> R> {
    #[inline]
    pub(crate) fn call_with(&self, argument: A) -> R {
        let guard = NoUnwind;
        // SAFETY: as for `call`; the argument is what the function's type in the header says.
        let result = unsafe { (self.function)(argument, self.data.address()) };
        mem::forget(guard);
        result
    }
}

impl<A, B, R> Callback<unsafe extern "C-unwind" fn(A, B, *mut c_void) -> R> {
    #[inline]
    pub(crate) fn call_with_two(&self, one: A, other: B) -> R {
        let guard = NoUnwind;
        // SAFETY: as for `call_with`.
        let result = unsafe { (self.function)(one, other, self.data.address()) };
        mem::forget(guard);
        result
    }
}

/// Ends the process if it is dropped: a C++ exception has left a callback. The frames of the library must not be unwound
/// by it, and there is nobody who could catch it.
struct NoUnwind;

impl Drop for NoUnwind {
    #[cold]
    fn drop(&mut self) {
        eprintln!("busyhour: an exception has left a callback; catch it inside: the process ends");
        abort();
    }
}
