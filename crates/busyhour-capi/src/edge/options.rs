use super::failure::{Failure, Outcome};
use crate::result::bh_result;
use std::{ffi::c_void, ptr};

/// An option struct: its first field is its size, and in each other field zero means the default. So a program that was
/// built with an older header passes fewer bytes, and the rest are zero.
///
/// # Safety
///
/// - The struct is `repr(C)`, its first field is a `usize`, and every bit pattern is a value of it. Only [`options`]
///   implements this, which checks all of that but `repr(C)`; the header would not compile without that.
pub(crate) unsafe trait Options: Copy {
    /// The size in the first release, 0.1: no program passes less. A release that adds a field gives that field's offset.
    const FIRST_SIZE: usize = size_of::<Self>();
}

/// The options that C passed, or those that are all zero for NULL.
pub(crate) fn read_options<T: Options>(given: *const T, argument: &'static str) -> Outcome<T> {
    let (options, read) = known_options(given, argument);
    read.map(|()| options)
}

/// What this version knows of the options that C passed, for those that have data, which is to be freed even if they are
/// refused; and whether they are. All are zero if their size cannot be one.
pub(crate) fn known_options<T: Options>(given: *const T, argument: &'static str) -> (T, Outcome) {
    // SAFETY: every bit pattern is a value.
    let mut options: T = unsafe { std::mem::zeroed() };
    if given.is_null() {
        return (options, Ok(()));
    }
    // SAFETY: by the caller's promise the struct begins with its size.
    let size = unsafe { given.cast::<usize>().read() };
    if size < T::FIRST_SIZE {
        return (options, Err(too_small::<T>(argument, size)));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: by the caller's promise `size` bytes lie there, and `known` of them fit.
    unsafe { ptr::copy_nonoverlapping(given.cast::<u8>(), (&raw mut options).cast(), known) };
    let read = match (known..size).all(|at| {
        // SAFETY: as above, within `size`.
        unsafe { given.cast::<u8>().add(at).read() == 0 }
    }) {
        true => Ok(()),
        false => Err(newer::<T>(argument, size)),
    };
    (options, read)
}

#[cold]
fn too_small<T: Options>(argument: &'static str, size: usize) -> Failure {
    let (name, first) = (name_of::<T>(), T::FIRST_SIZE);
    Failure::invalid(format!(
        "{argument}.size is {size}, but a {name} has {first} bytes at least: set it to the size of the struct, not of a pointer"
    ))
}

#[cold]
fn newer<T: Options>(argument: &'static str, size: usize) -> Failure {
    let (name, known) = (name_of::<T>(), size_of::<T>());
    let message = format!(
        "{argument}.size is {size}, and this version of the library knows {known} bytes of a {name}: what follows them is not zero"
    );
    Failure::new(bh_result::BH_VERSION, message)
}

/// As the header has it.
fn name_of<T>() -> &'static str {
    let path = std::any::type_name::<T>();
    path.rsplit("::").next().unwrap_or(path)
}

/// A field of an option struct: every bit pattern is a value of it.
pub(crate) trait AnyBits: Copy {}
impl AnyBits for u8 {}
impl AnyBits for u32 {}
impl AnyBits for u64 {}
impl AnyBits for usize {}
impl<T> AnyBits for *const T {}
impl<T> AnyBits for *mut T {}
impl<R> AnyBits for Option<unsafe extern "C-unwind" fn(*mut c_void) -> R> {}
impl<A, R> AnyBits for Option<unsafe extern "C-unwind" fn(A, *mut c_void) -> R> {}
impl<A, B, R> AnyBits for Option<unsafe extern "C-unwind" fn(A, B, *mut c_void) -> R> {}

/// Makes a struct an option struct. All fields must be named, so that none is left unchecked.
macro_rules! options {
    ($name:ident { $($field:ident),* $(,)? }) => {
        const _: () = {
            const fn any_bits<T: $crate::edge::AnyBits>(_: &T) {}
            const _: fn(&$name) = |options| {
                let $name { $($field),* } = options;
                $(any_bits($field);)*
                let _: &usize = &options.size;
            };
            assert!(std::mem::offset_of!($name, size) == 0);
        };
        // SAFETY: the lines above check the fields.
        unsafe impl $crate::edge::Options for $name {}
    };
}
pub(crate) use options;
