//! Paths of series: their nodes, patterns of them, and which ones a source has.

pub(crate) mod node;
pub(crate) mod glob;
pub(crate) mod index;
