//! What the bytes of the files mean, as LOGARCHIVE(5) has it; no file is touched here.

pub(crate) mod bits;
pub(crate) mod fields;
pub(crate) mod frame;
pub(crate) mod label;
pub(crate) mod units;
pub(crate) mod metric;
pub(crate) mod domain;
pub(crate) mod catalog;
pub(crate) mod index;
pub(crate) mod record;
pub(crate) mod event;
