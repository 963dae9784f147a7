//! The C ABI from C: each program of `tests/c` is compiled against the header, linked with the shared library, and run under
//! valgrind's memory checker. It ends with code 0 if its own naive oracle agreed with the library, and valgrind's says that
//! nothing was read or written where it must not be, and nothing lost.

mod examples;
mod hostile;
mod install;
mod library;
mod packages;
mod pdubuf;
mod program;
mod stations;
