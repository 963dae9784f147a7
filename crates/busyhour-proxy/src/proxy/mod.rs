//! The proxy: what is forwarded where, and what goes back (RFC 3261 §16).
