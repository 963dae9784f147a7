//! From files to records: in order, or from a place on.

pub(crate) mod files;
pub(crate) mod volume;
pub(crate) mod place;
pub(crate) mod records;
pub(crate) mod annotations;
