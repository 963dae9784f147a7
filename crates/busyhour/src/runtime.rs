//! The five stations wired as one.
