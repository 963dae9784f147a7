//! Pinned, reference-counted buffers: pin and unpin by any interior address.
