//! Which numbered messages of other nodes have come: each is taken once, and those that are missing are counted.

pub(super) mod handed_numbers;
pub(super) mod number_window;
