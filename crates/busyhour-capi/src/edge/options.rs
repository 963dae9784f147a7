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
    /// The size in the first release, 0.1, whatever was added since: no program passes less.
    const FIRST_SIZE: usize;
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

/// Makes a struct an option struct: `options!(NAME, SIZE { size, FIELD, … ; FIELD, … })`.
///
/// `SIZE` is that of the first release in bytes, where pointers have eight of them. The fields before the `;` are those of the
/// first release, and those after it have been added since. A field that is added anywhere else does not compile, since the
/// size of the first release would change with it; nor does one that lies where the first release had padding, of which no
/// program says what is in it. All fields must be named, so that none is left unchecked.
macro_rules! options {
    ($name:ident, $size:literal { $($field:ident),* $(,)? $(; $($later:ident),* $(,)?)? }) => {
        const _: () = {
            const fn any_bits<T: $crate::edge::AnyBits>(_: &T) {}
            const _: fn(&$name) = |options| {
                let $name { $($field,)* $($($later),*)? } = options;
                $(any_bits($field);)*
                $($(any_bits($later);)*)?
                let _: &usize = &options.size;
            };
            const FIRST_SIZE: usize = <$name as $crate::edge::Options>::FIRST_SIZE;
            assert!(std::mem::offset_of!($name, size) == 0);
            assert!(
                !cfg!(target_pointer_width = "64") || FIRST_SIZE == $size,
                "the fields before the `;` are not those of the first release"
            );
            $($(assert!(std::mem::offset_of!($name, $later) >= FIRST_SIZE);)*)?
        };
        // SAFETY: the lines above check the fields.
        unsafe impl $crate::edge::Options for $name {
            const FIRST_SIZE: usize = {
                let mut end = 0;
                $(end = $crate::edge::end_of_field(
                    end,
                    std::mem::offset_of!($name, $field),
                    |options: &$name| &options.$field,
                );)*
                end.next_multiple_of(align_of::<$name>())
            };
        }
    };
}
pub(crate) use options;

/// Where a field of an option struct ends, or `end` if that is later.
pub(crate) const fn end_of_field<T, F>(end: usize, offset: usize, _: fn(&T) -> &F) -> usize {
    let field_end = offset + size_of::<F>();
    if end > field_end { end } else { field_end }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy)]
    struct grown_options {
        size: usize,
        first: u32,
        added: u64,
    }
    options!(grown_options, 16 { size, first; added });

    fn read(size: usize) -> Outcome<grown_options> {
        let given = grown_options {
            size,
            first: 3,
            added: 5,
        };
        read_options(&raw const given, "options")
    }

    #[test]
    fn a_program_that_was_built_before_a_field_was_added_gets_its_default() {
        let before = read(grown_options::FIRST_SIZE).unwrap();
        assert_eq!((before.first, before.added), (3, 0));
        let now = read(size_of::<grown_options>()).unwrap();
        assert_eq!((now.first, now.added), (3, 5));
    }

    #[test]
    fn a_size_below_that_of_the_first_release_is_refused() {
        for size in [0, 8, grown_options::FIRST_SIZE - 1] {
            let refused = read(size).err().unwrap();
            assert_eq!(refused.code(), bh_result::BH_INVALID);
            assert!(refused.message().contains("grown_options"), "{refused:?}");
        }
    }
}
