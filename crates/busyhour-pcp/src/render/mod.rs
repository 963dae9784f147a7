//! Values at regular moments, decoded in parallel and joined in order.

pub(crate) mod window;
pub(crate) mod rate;
pub(crate) mod plan;
pub(crate) mod shape;
pub(crate) mod segment;
pub(crate) mod merge;
pub(crate) mod prior;
pub(crate) mod threads;
pub(crate) mod scan;
pub(crate) mod in_order;
pub(crate) mod rendering;
