//! A general indexed heap.
