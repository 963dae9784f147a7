//! The plan of a run: flags, users, and the pace of requests.

pub(crate) mod pattern;
pub(crate) mod args;
pub(crate) mod users;
pub(crate) mod pace;
pub(crate) mod call_plan;
pub(crate) mod watched_list;
