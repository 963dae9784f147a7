//! Bindings as they are read back.

pub(crate) mod binding_reader;
