//! Typed topics with a last-value cache.
