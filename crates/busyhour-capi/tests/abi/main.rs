//! The C ABI from C: each program of `tests/c` is compiled against the header with AddressSanitizer and UBSan, linked with the
//! shared library, and run. It ends with code 0 if its own naive oracle agreed with the library, and the sanitizers found
//! nothing. `scripts/valgrind-capi.sh` runs the same under valgrind's memory checker, and `scripts/sanitize.sh capi` with a
//! library that has the sanitizer's checks inside.

mod examples;
mod hostile;
mod install;
mod library;
mod packages;
mod pdubuf;
mod program;
mod stations;
