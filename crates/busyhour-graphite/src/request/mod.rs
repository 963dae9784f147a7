//! What a request says: parameters, times, and targets as expressions.

pub(crate) mod parameters;
pub(crate) mod calendar;
pub(crate) mod time;
pub(crate) mod expression;
pub(crate) mod parser;
