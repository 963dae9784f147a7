//! Client and server transactions (RFC 3261 §17, RFC 6026).
