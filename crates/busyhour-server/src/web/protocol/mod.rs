//! What all requests to the interface share: its version, refusals as problems, tags of answers.

pub(super) mod version;
pub(super) mod problem;
pub(super) mod etag;
pub(super) mod conditional;
